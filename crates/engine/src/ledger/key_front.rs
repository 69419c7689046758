//! Key prefixes as integers: most comparisons of keys need no more.

/// The first 16 bytes of a key, padded with zeros, as a number that orders as the bytes do.
#[inline]
pub(super) fn front_of(key: &[u8]) -> u128 {
    if let Some(first) = key.first_chunk::<16>() {
        return u128::from_be_bytes(*first);
    }
    // Two overlapping reads are faster than a copy of a variable number of bytes.
    let length = key.len();
    if let (Some(first), Some(last)) = (key.first_chunk::<8>(), key.last_chunk::<8>()) {
        let first = u128::from(u64::from_be_bytes(*first)) << 64;
        let last = u128::from(u64::from_be_bytes(*last)) << (8 * (16 - length));
        return first | last;
    }
    let mut padded = [0; 16];
    padded[..length].copy_from_slice(key);
    u128::from_be_bytes(padded)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering as Order;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fronts_order_as_keys_do(
            one in prop::collection::vec(0_u8..3, 0..20),
            other in prop::collection::vec(0_u8..3, 0..20),
        ) {
            let order = front_of(&one).cmp(&front_of(&other));
            prop_assert!(order == Order::Equal || order == one.cmp(&other));
        }

        #[test]
        fn a_front_is_the_padded_beginning(key in prop::collection::vec(any::<u8>(), 0..20)) {
            let mut padded = [0; 16];
            let length = key.len().min(16);
            padded[..length].copy_from_slice(&key[..length]);
            prop_assert_eq!(front_of(&key), u128::from_be_bytes(padded));
        }
    }
}

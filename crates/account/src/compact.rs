//! A duration in 16 bits.
//!
//! The record of a request has no room for all parts of its phases at full width, and a part need
//! not be known more closely than its histogram tells it.

/// Bits of the significand, beside its leading one.
const FRACTION_BITS: u32 = 10;
/// The largest shift that a duration of 64 bits needs.
const SHIFT_MAX: u32 = u64::BITS - FRACTION_BITS - 1;

/// A duration in ticks as a floating-point number of 16 bits: six bits of exponent above ten of
/// fraction, without sign. Below 2,048 ticks it is exact, and beyond within 1/2,048 (0.05 %), up to
/// the longest there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compact(u16);

impl Compact {
    /// The one next to `ticks`.
    #[inline]
    pub(crate) fn of(ticks: u64) -> Compact {
        let bits = u64::BITS - ticks.leading_zeros();
        let shift = bits.saturating_sub(FRACTION_BITS + 1);
        // Half a unit is added, and what is cut off thereby rounds to the nearest.
        let significand = ticks.saturating_add((1 << shift) >> 1) >> shift;
        // A significand that was rounded up to twice its least carries into the exponent, as it
        // should; the longest durations would leave the range by it.
        let code = (u64::from(shift) << FRACTION_BITS) + significand;
        let longest = (u64::from(SHIFT_MAX + 2) << FRACTION_BITS) - 1;
        Compact(code.min(longest) as u16)
    }

    #[inline]
    pub(crate) fn ticks(self) -> u64 {
        let exponent = u32::from(self.0) >> FRACTION_BITS;
        let fraction = u64::from(self.0) & ((1 << FRACTION_BITS) - 1);
        match exponent {
            0 => fraction,
            _ => (fraction | 1 << FRACTION_BITS) << (exponent - 1).min(SHIFT_MAX),
        }
    }

    pub(crate) fn from_bits(bits: u16) -> Compact {
        Compact(bits)
    }

    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    #[inline]
    pub(crate) fn is_zero(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ends_of_the_range_are_kept() {
        for ticks in (0..2_048).chain([1 << 20, 1 << 63]) {
            assert_eq!(Compact::of(ticks).ticks(), ticks);
        }
        // 2,047.5 units are as near to the next power of two.
        assert_eq!(Compact::of(4_095).ticks(), 4_096);
        assert_eq!(Compact::of(u64::MAX).ticks(), 2_047 << SHIFT_MAX);
        assert_eq!(Compact::of(u64::MAX), Compact::of(2_047 << SHIFT_MAX));
    }

    proptest! {
        #[test]
        fn it_is_within_one_in_2048(ticks in any::<u64>(), shift in 0_u32..64) {
            let ticks = ticks >> shift;
            let error = Compact::of(ticks).ticks().abs_diff(ticks);
            prop_assert!(error <= ticks / 2_048 + 1 && (ticks >= 2_048 || error == 0), "{error}");
        }

        #[test]
        fn longer_durations_are_not_shorter(one in any::<u64>(), other in any::<u64>()) {
            let (less, more) = (one.min(other), one.max(other));
            prop_assert!(Compact::of(less).ticks() <= Compact::of(more).ticks());
            prop_assert!(Compact::of(less).bits() <= Compact::of(more).bits());
        }

        #[test]
        fn what_was_read_back_is_the_same_again(bits in any::<u16>()) {
            let compact = Compact::from_bits(bits);
            let ticks = compact.ticks();
            prop_assert_eq!(Compact::of(ticks).ticks(), ticks);
        }
    }
}

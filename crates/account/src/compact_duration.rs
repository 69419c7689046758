//! A duration in 16 bits.
//!
//! The record of a request has no room for all parts of its phases at full width, and a part needs
//! no more precision than its histogram has.

/// The bits cut off the fraction of a 32-bit float, so that ten are left.
const CUT_BITS: u32 = 13;
/// The bias subtracted from the upper bits of such a float, so that one tick is the smallest value
/// above zero.
const BIAS: u32 = 126 << 10;
/// The longest duration: 48 years at 3 GHz. Longer ones are clamped to it.
const TICKS_MAX: u64 = 1 << 62;

/// A duration in ticks as a floating-point number of 16 bits: six bits of exponent above ten of
/// fraction, without sign. Below 2,048 ticks it is exact, and beyond within 1/2,048 (0.05 %).
///
/// It is made from a 32-bit float, because the processor's conversion is faster than a few shifts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CompactDuration(u16);

impl CompactDuration {
    /// The value nearest to `ticks`.
    #[inline]
    pub(crate) fn of(ticks: u64) -> CompactDuration {
        let bits = (ticks.min(TICKS_MAX) as i64 as f32).to_bits();
        // Half a unit is added, so that cutting off rounds to the nearest. A fraction that is
        // rounded up to one carries into the exponent, which is correct.
        let upper = (bits + (1 << (CUT_BITS - 1))) >> CUT_BITS;
        CompactDuration(upper.saturating_sub(BIAS) as u16)
    }

    #[inline]
    pub(crate) fn ticks(self) -> u64 {
        // Zero becomes a half, which is cut off.
        f32::from_bits((u32::from(self.0) + BIAS) << CUT_BITS) as i64 as u64
    }

    pub(crate) fn from_bits(bits: u16) -> CompactDuration {
        CompactDuration(bits)
    }

    pub(crate) fn bits(self) -> u16 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ends_of_the_range_are_exact() {
        for ticks in (0..2_048).chain([1 << 20, TICKS_MAX]) {
            assert_eq!(CompactDuration::of(ticks).ticks(), ticks);
        }
        assert_eq!((CompactDuration::of(0).bits(), CompactDuration::of(1).bits()), (0, 1 << 10));
        // 4,095 lies halfway between two values, and is rounded up to the next power of two.
        assert_eq!(CompactDuration::of(4_095).ticks(), 4_096);
        assert_eq!(CompactDuration::of(u64::MAX).ticks(), TICKS_MAX);
    }

    proptest! {
        #[test]
        fn the_error_is_within_one_in_2048(ticks in any::<u64>(), shift in 2_u32..64) {
            let ticks = ticks >> shift;
            let error = CompactDuration::of(ticks).ticks().abs_diff(ticks);
            prop_assert!(error <= ticks / 2_048 + 1 && (ticks >= 2_048 || error == 0), "{error}");
        }

        #[test]
        fn longer_durations_are_not_shorter(one in any::<u64>(), other in any::<u64>()) {
            let (less, more) = (one.min(other), one.max(other));
            prop_assert!(CompactDuration::of(less).ticks() <= CompactDuration::of(more).ticks());
            prop_assert!(CompactDuration::of(less).bits() <= CompactDuration::of(more).bits());
        }

        #[test]
        fn conversion_of_a_converted_value_is_exact(bits in any::<u16>()) {
            let compact = CompactDuration::from_bits(bits);
            let ticks = compact.ticks().min(TICKS_MAX);
            prop_assert_eq!(CompactDuration::of(ticks).ticks(), ticks);
        }
    }
}

//! Readings of a clock.

/// A reading of the clock, in units that only the [`Clock`](crate::Clock) that took it can convert.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub u64);

impl Ticks {
    /// The ticks that passed from `earlier` to `self`. Zero if the counter appears to step back,
    /// which can happen between two cores by a few cycles.
    #[inline(always)]
    #[must_use]
    pub fn since(self, earlier: Ticks) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

//! Durations in the four-byte fields of a frame.

/// Nanoseconds in four bytes; longer durations become the largest such value (4.3 s).
#[must_use]
pub fn clipped_ns(duration_ns: u64) -> u32 {
    u32::try_from(duration_ns).unwrap_or(u32::MAX)
}

//! Durations in the four bytes that a frame has for one.

/// Nanoseconds, or the most that four bytes hold (4.3 s).
#[must_use]
pub fn clipped_ns(duration_ns: u64) -> u32 {
    u32::try_from(duration_ns).unwrap_or(u32::MAX)
}

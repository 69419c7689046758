//! A time of day that never falls.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::source::Clock;
use crate::wall::WallTime;

/// The latest of all times for which this was called in the process, including `time`, each with
/// the time that has passed since. So it never falls, even if the system's time is set back:
/// expired data stays expired, and lifetimes keep their length.
#[must_use]
pub fn rising(time: WallTime) -> WallTime {
    /// The largest difference between a time and the monotonic clock.
    static LEAD_MS: AtomicU64 = AtomicU64::new(0);
    let passed_ms = Clock::monotonic().now().0 / 1_000_000;
    let lead_ms = time.unix_ms().saturating_sub(passed_ms);
    // Loaded first, because a write to the shared cache line slows every reader.
    let highest_ms = LEAD_MS.load(Ordering::Relaxed);
    if lead_ms > highest_ms {
        LEAD_MS.fetch_max(lead_ms, Ordering::Relaxed);
    }
    WallTime::from_unix_ms(lead_ms.max(highest_ms).saturating_add(passed_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rising_time_never_falls() {
        let now = WallTime::now();
        assert!(rising(now) >= now);
        let latest = rising(WallTime::now());
        assert!(rising(WallTime::EPOCH) >= latest);
    }

    /// Regression: while the system's time was behind, nothing expired.
    #[test]
    fn a_rising_time_goes_on_while_the_system_time_is_behind() {
        let latest = rising(WallTime::now());
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(rising(WallTime::EPOCH) > latest);
    }
}

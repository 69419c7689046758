//! A fast time of day in milliseconds, for callers that need it at every write.
//!
//! After a thread has asked the system for the time, the processor's counter tells whether the same
//! millisecond still lasts. That takes a third of the time of asking again. If the system's time is
//! set, this is noticed in the next millisecond.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::calibration::read_tsc;
use crate::ticks::Ticks;
use crate::wall::WallTime;

const MILLISECOND_NS: u32 = 1_000_000;

/// A millisecond, in the ticks of the processor's counter.
#[derive(Clone, Copy)]
struct Millisecond {
    begin: Ticks,
    end: Ticks,
    time: WallTime,
}

thread_local! {
    /// The last millisecond for which this thread has asked the system.
    static KNOWN: Cell<Millisecond> = const {
        Cell::new(Millisecond { begin: Ticks(0), end: Ticks(0), time: WallTime::EPOCH })
    };
}

/// The system's time. `ticks` converts nanoseconds to ticks of the processor's counter.
#[inline]
pub(crate) fn now(ticks: impl Fn(u64) -> u64) -> WallTime {
    let (known, now) = (KNOWN.get(), read_tsc());
    // A counter that was set back, for example in a restored virtual machine, is not trusted.
    if known.begin <= now && now < known.end { known.time } else { ask(ticks) }
}

#[cold]
fn ask(ticks: impl Fn(u64) -> u64) -> WallTime {
    // The counter is read before the system is asked, so that the end is early rather than late.
    let begin = read_tsc();
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = WallTime::of_unix(since_epoch);
    let rest_ns = MILLISECOND_NS - since_epoch.subsec_nanos() % MILLISECOND_NS;
    let end = Ticks(begin.0.saturating_add(ticks(u64::from(rest_ns))));
    KNOWN.set(Millisecond { begin, end, time });
    time
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;

    /// The allowed difference from the system's time: the counters of two processors differ a
    /// little, and the rate is rounded.
    const APART_MS: u64 = 1;

    #[test]
    fn the_fast_time_equals_the_systems_time() {
        let clock = Clock::system();
        let mut last = now(|nanoseconds| clock.ticks(nanoseconds));
        let begun = std::time::Instant::now();
        let (mut milliseconds, mut latest_ms) = (0, 0);
        while begun.elapsed().as_millis() < 50 {
            let (before, told, after) =
                (WallTime::now(), now(|nanoseconds| clock.ticks(nanoseconds)), WallTime::now());
            let earliest_ms = before.unix_ms() - APART_MS;
            latest_ms = latest_ms.max(after.unix_ms());
            // If the system's time was set back, it is not compared until it has caught up.
            if after.unix_ms() == latest_ms {
                assert!((earliest_ms..=latest_ms).contains(&told.unix_ms()), "{told:?}");
            }
            milliseconds += u32::from(told != last);
            last = told;
        }
        assert!(milliseconds >= 2, "the time goes on");
    }

    #[test]
    fn a_counter_that_was_set_back_is_not_trusted() {
        let clock = Clock::system();
        let far = Ticks(u64::MAX);
        KNOWN.set(Millisecond { begin: Ticks(far.0 - 1), end: far, time: WallTime::EPOCH });
        assert!(now(|nanoseconds| clock.ticks(nanoseconds)).unix_ms() > 1_600_000_000_000);
    }
}

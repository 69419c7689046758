//! A shortage of room on the disk: the decision when room is made, and how often.

use std::sync::atomic::{AtomicBool, Ordering};

use pellucid_clock::{Clock, Ticks};
use pellucid_thread::Mutex;

use crate::error::Result;

/// The shortest rest of the thread between two attempts to make room, in nanoseconds.
const REST_MIN_NS: u64 = 1_000_000_000;
/// The thread rests this many times as long as it has worked, because its merges and copies slow
/// down others.
const REST_TIMES: u64 = 4;
/// The time after which another attempt is made although nothing was written since, in nanoseconds:
/// snapshots may have been dropped, and values may have expired.
const RETRY_AFTER_NS: u64 = 60_000_000_000;

/// The last attempt to make room.
#[derive(Default)]
struct LastAttempt {
    ended: Option<Ticks>,
    rest_ns: u64,
    /// The last write before it, if everything that the write has overwritten could be freed.
    sequence: Option<u64>,
}

/// The shortage, noted by writers and ended by the collector.
pub(crate) struct Shortage {
    clock: Clock,
    is_noted: AtomicBool,
    last: Mutex<LastAttempt>,
}

impl Shortage {
    /// A state without a shortage.
    pub(crate) fn new(clock: Clock) -> Shortage {
        Shortage { clock, is_noted: AtomicBool::new(false), last: Mutex::default() }
    }

    /// True if room should be made for a write that found none, or little; `sequence` is the last
    /// write so far. That is so if something was written since the last attempt, and the thread, if
    /// there is one, has rested.
    pub(crate) fn is_due(&self, sequence: u64, is_threaded: bool) -> bool {
        if self.is_noted() {
            return false;
        }
        let last = self.last.lock();
        let since_ns =
            last.ended.map(|ended| self.clock.nanoseconds(self.clock.now().since(ended)));
        let has_changed = last.sequence != Some(sequence);
        let has_rested = since_ns.is_none_or(|since| !is_threaded || since >= last.rest_ns);
        (has_changed && has_rested) || since_ns.is_some_and(|since| since >= RETRY_AFTER_NS)
    }

    /// Notes that room has to be made. `sequence` is the last write, if the memtable that overwrote
    /// older records was sealed.
    pub(crate) fn note(&self, sequence: Option<u64>) {
        self.last.lock().sequence = sequence;
        self.is_noted.store(true, Ordering::Release);
    }

    /// True if room has to be made or is being made.
    pub(crate) fn is_noted(&self) -> bool {
        self.is_noted.load(Ordering::Acquire)
    }

    /// Runs `work`, which makes room, and ends the shortage.
    pub(crate) fn end(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let begun = self.clock.stopwatch();
        let outcome = work();
        let mut last = self.last.lock();
        last.rest_ns = REST_MIN_NS.max(REST_TIMES * begun.elapsed_ns());
        last.ended = Some(self.clock.now());
        if outcome.is_err() {
            last.sequence = None;
        }
        self.is_noted.store(false, Ordering::Release);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use pellucid_clock::SimulatedClock;

    use super::*;
    use crate::error::Error;

    const SECOND_NS: u64 = 1_000_000_000;

    fn shortage() -> (Shortage, &'static SimulatedClock) {
        let clock = SimulatedClock::leaked(0);
        (Shortage::new(Clock::simulated(clock)), clock)
    }

    #[test]
    fn room_is_made_once_per_state_of_the_store() {
        let (shortage, clock) = shortage();
        assert!(shortage.is_due(7, false));
        shortage.note(Some(7));
        assert!(!shortage.is_due(7, false) && !shortage.is_due(8, false), "it is under way");
        shortage.end(|| Ok(())).unwrap();
        assert!(!shortage.is_due(7, false), "nothing was written since");
        assert!(shortage.is_due(8, false));
        clock.advance_ns(60 * SECOND_NS);
        assert!(shortage.is_due(7, false), "a snapshot may have gone");
        // It is not known what a memtable overwrites, nor what a failed attempt left.
        shortage.note(None);
        shortage.end(|| Ok(())).unwrap();
        assert!(shortage.is_due(7, false));
        shortage.note(Some(7));
        assert!(shortage.end(|| Err(Error::Closed)).is_err());
        assert!(shortage.is_due(7, false));
    }

    #[test]
    fn the_thread_rests_in_proportion_to_its_work() {
        let (shortage, clock) = shortage();
        shortage.note(Some(7));
        shortage.end(|| Ok(())).unwrap();
        clock.advance_ns(SECOND_NS - 1);
        assert!(!shortage.is_due(8, true));
        clock.advance_ns(1);
        assert!(shortage.is_due(8, true));
        shortage.note(Some(8));
        let work = || {
            clock.advance_ns(2 * SECOND_NS);
            Ok(())
        };
        shortage.end(work).unwrap();
        clock.advance_ns(8 * SECOND_NS - 1);
        assert!(!shortage.is_due(9, true));
        clock.advance_ns(1);
        assert!(shortage.is_due(9, true));
    }
}

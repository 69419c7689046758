//! A shortage of room on the disk: when some is made at once, and how often.

use std::sync::atomic::{AtomicBool, Ordering};

use pellucid_clock::{Clock, Ticks};
use pellucid_thread::Mutex;

use crate::error::Result;
use crate::locks::lock;

/// The shortest rest of the thread that makes room, in nanoseconds.
const REST_MIN_NS: u64 = 1_000_000_000;
/// It rests so many times as long as it has worked: it merges and copies what others pay for.
const REST_TIMES: u64 = 4;
/// After this time, in nanoseconds, it is tried again although nothing was written since: snapshots
/// may have gone, and values expired.
const RETRY_AFTER_NS: u64 = 60_000_000_000;

/// The last time that room was made.
#[derive(Default)]
struct Last {
    ended: Option<Ticks>,
    rest_ns: u64,
    /// The last write before it, if all that it hid could be found out.
    sequence: Option<u64>,
}

/// The shortage, as writers note it and the collector ends it.
pub(crate) struct Shortage {
    clock: Clock,
    is_noted: AtomicBool,
    last: Mutex<Last>,
}

impl Shortage {
    /// No shortage so far.
    pub(crate) fn new(clock: Clock) -> Shortage {
        Shortage { clock, is_noted: AtomicBool::new(false), last: Mutex::default() }
    }

    /// True if room is to be made for a write that found none, or little, when `sequence` was the
    /// last one: something was written since it was made last, and the thread, if one makes it, has
    /// rested.
    pub(crate) fn is_due(&self, sequence: u64, is_threaded: bool) -> bool {
        if self.is_noted() {
            return false;
        }
        let last = lock(&self.last);
        let since_ns =
            last.ended.map(|ended| self.clock.nanoseconds(self.clock.now().since(ended)));
        let has_changed = last.sequence != Some(sequence);
        let has_rested = since_ns.is_none_or(|since| !is_threaded || since >= last.rest_ns);
        (has_changed && has_rested) || since_ns.is_some_and(|since| since >= RETRY_AFTER_NS)
    }

    /// Notes that room is to be made. `sequence` is the last write, if no active memtable hides
    /// what it has overwritten.
    pub(crate) fn note(&self, sequence: Option<u64>) {
        lock(&self.last).sequence = sequence;
        self.is_noted.store(true, Ordering::Release);
    }

    /// True if room is to be made, or is being made.
    pub(crate) fn is_noted(&self) -> bool {
        self.is_noted.load(Ordering::Acquire)
    }

    /// Makes room by `work`.
    pub(crate) fn end(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let begun = self.clock.stopwatch();
        let outcome = work();
        let mut last = lock(&self.last);
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
    fn room_is_made_once_for_each_state_of_the_store() {
        let (shortage, clock) = shortage();
        assert!(shortage.is_due(7, false));
        shortage.note(Some(7));
        assert!(!shortage.is_due(7, false) && !shortage.is_due(8, false), "it is under way");
        shortage.end(|| Ok(())).unwrap();
        assert!(!shortage.is_due(7, false), "nothing was written since");
        assert!(shortage.is_due(8, false));
        clock.advance_ns(60 * SECOND_NS);
        assert!(shortage.is_due(7, false), "a snapshot may have gone");
        // What a memtable hides is not known yet, and neither is what a failure leaves.
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

//! Facts of a request that come to light only after its answer.
//!
//! A store beyond the process may tell where it spent a request's time, but later than it answers,
//! and a request that waited for that would be slow for being looked at. So its record waits: the
//! drain holds it back, for a bounded time, until the store has told, and only then counts it. All
//! views have it once, with all that is known of it.

use std::collections::{HashMap, VecDeque};

use pellucid_clock::{Clock, Ticks};

use crate::phase::Part;
use crate::record::Record;

/// Records that are held back at a time; further ones are counted as they are.
const HELD_MAX: usize = 1_024;
/// Facts of requests whose records have not been drained; of more, the oldest is forgotten.
const TOLD_MAX: usize = 1_024;
/// The time for which a record is held back, and late facts are kept for one.
const WAIT_NS: u64 = 5_000_000_000;

/// The time of one part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateParts {
    /// The number of the request ([`crate::Timeline::request`]).
    pub request: u64,
    /// The part that was measured while the request ran; what is said of it is taken from it.
    pub of: Part,
    /// The parts that it turned out to consist of, with their ticks.
    pub parts: Vec<(Part, u64)>,
}

/// Tells what has come to light since it was last asked. It must not wait.
pub(crate) type Source = Box<dyn FnMut() -> Vec<LateParts> + Send>;

#[derive(Default)]
pub(crate) struct Late {
    pub(crate) source: Option<Source>,
    held: VecDeque<(Record, Ticks)>,
    told: HashMap<u64, (LateParts, Ticks)>,
}

impl Late {
    /// Asks the source. Returns the records that wait no longer, all of them if `is_over`.
    pub(crate) fn release(&mut self, clock: &Clock, is_over: bool) -> Vec<Record> {
        let Some(source) = &mut self.source else { return Vec::new() };
        let (now, wait) = (clock.now(), clock.ticks(WAIT_NS));
        for told in source() {
            self.told.insert(told.request, (told, now));
        }
        if self.told.len() > TOLD_MAX {
            self.told.retain(|_, (_, since)| now.since(*since) < wait);
        }
        if self.told.len() > TOLD_MAX {
            self.told.clear();
        }
        let mut released = Vec::new();
        self.held.retain_mut(|(record, since)| {
            let told = self.told.remove(&record.facts.request);
            if let Some((told, _)) = &told {
                record.divide(told.of, &told.parts);
            }
            let is_done = told.is_some() || is_over || now.since(*since) >= wait;
            if is_done {
                released.push(*record);
            }
            !is_done
        });
        released
    }

    /// Holds a record back if more is to be told of it; false if it is to be counted as it is.
    pub(crate) fn hold(&mut self, record: &Record, clock: &Clock) -> bool {
        let is_held = record.is_told_later && self.source.is_some() && self.held.len() < HELD_MAX;
        if is_held {
            self.held.push_back((*record, clock.now()));
        }
        is_held
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pellucid_thread::Mutex;

    use super::*;
    use crate::record::RequestFacts;
    use crate::timeline::Timeline;
    use pellucid_clock::SimulatedClock;

    const WHOLE: Part = Part::new(2);
    const NEAR: Part = Part::new(5);
    const FAR: Part = Part::new(6);

    fn record(clock: Clock, request: u64, ticks: u64) -> Record {
        let mut timeline = Timeline::begin(clock, Ticks(0));
        timeline.add_part(WHOLE, ticks, Ticks(0));
        timeline.tell_later();
        Record::of(&timeline, RequestFacts { request, ..RequestFacts::default() })
    }

    fn late() -> (Late, Arc<Mutex<Vec<LateParts>>>) {
        let tells = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&tells);
        let source: Source = Box::new(move || std::mem::take(&mut *told.lock().unwrap()));
        (Late { source: Some(source), ..Late::default() }, tells)
    }

    #[test]
    fn a_record_waits_until_it_is_told_and_its_parts_stay_as_much_together() {
        let clock = Clock::simulated(SimulatedClock::leaked(0));
        let (mut late, tells) = late();
        let (first, second) = (record(clock, 1, 8_000), record(clock, 2, 800));
        assert!(late.hold(&first, &clock) && late.hold(&second, &clock));
        assert!(late.release(&clock, false).is_empty());
        // What is told of more than the part had is cut.
        for (request, near, far) in [(1, 1_600, 4_800), (2, 400, 8_000)] {
            let parts = vec![(NEAR, near), (FAR, far)];
            tells.lock().unwrap().push(LateParts { request, of: WHOLE, parts });
        }
        let released = late.release(&clock, false);
        let parts = |record: &Record| {
            let ticks = record.parts_ticks();
            [WHOLE, NEAR, FAR].map(|part| ticks[part.slot()])
        };
        assert_eq!(parts(&released[0]), [1_600, 1_600, 4_800]);
        assert_eq!(parts(&released[1]), [0, 400, 400]);
        assert!(late.held.is_empty() && late.told.is_empty());
    }

    #[test]
    fn a_record_of_which_nothing_is_told_waits_for_so_long_and_not_beyond_the_end() {
        let simulated = SimulatedClock::leaked(0);
        let clock = Clock::simulated(simulated);
        let (mut late, _) = late();
        let first = record(clock, 1, 8_000);
        assert!(late.hold(&first, &clock));
        simulated.advance_ns(WAIT_NS - 1);
        assert!(late.release(&clock, false).is_empty());
        simulated.advance_ns(1);
        assert_eq!(late.release(&clock, false).len(), 1);
        assert!(late.hold(&first, &clock));
        assert_eq!(late.release(&clock, true).len(), 1);
    }

    #[test]
    fn told_first_and_drained_afterwards_is_as_good() {
        let clock = Clock::simulated(SimulatedClock::leaked(0));
        let (mut late, tells) = late();
        let parts = vec![(NEAR, 800)];
        tells.lock().unwrap().push(LateParts { request: 1, of: WHOLE, parts });
        assert!(late.release(&clock, false).is_empty());
        assert!(late.hold(&record(clock, 1, 8_000), &clock));
        assert_eq!(late.release(&clock, false)[0].parts_ticks()[NEAR.slot()], 800);
        let plain = Record::default();
        assert!(!late.hold(&plain, &clock), "nothing is to be told of it");
    }
}

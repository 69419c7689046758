//! Facts of a request that become known only after its answer.
//!
//! A store in another process may report how it spent a request's time, but only after its answer.
//! A request that waited for the report would be slow because it is measured. So only its record
//! waits: the drain holds it back, for a limited time, until the store has reported, and then
//! counts it. So all views have the record once, with all its facts.

use std::collections::{HashMap, VecDeque};

use pellucid_clock::{Clock, Ticks};

use crate::phase::Part;
use crate::record::Record;

/// The most records that are held back at a time; further ones are counted without late facts.
const HELD_MAX: usize = 1_024;
/// The most reports kept of requests whose records are not drained yet. If there are more, those
/// older than [`WAIT_NS`] are dropped, and if that is not enough, the oldest of the others.
const TOLD_MAX: usize = 1_024;
/// The time for which a record is held back, and late facts are kept for one.
const WAIT_NS: u64 = 5_000_000_000;

/// The report of a store: how the time of one part of a request divides into other parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateParts {
    /// The number of the request ([`crate::Timeline::request`]).
    pub request: u64,
    /// The part that was measured while the request ran; the ticks of `parts` are taken from it.
    pub of: Part,
    /// The parts of which it consists, with their ticks.
    pub parts: Vec<(Part, u64)>,
}

/// A function that returns the reports since its last call. It must not block.
pub(crate) type Source = Box<dyn FnMut() -> Vec<LateParts> + Send>;

#[derive(Default)]
pub(crate) struct DeferredRecords {
    pub(crate) source: Option<Source>,
    held: VecDeque<(Record, Ticks)>,
    told: HashMap<u64, (LateParts, Ticks)>,
}

impl DeferredRecords {
    /// Calls the source. Returns the records that wait no longer; all of them if `is_over`.
    pub(crate) fn release(&mut self, clock: &Clock, is_over: bool) -> Vec<Record> {
        let Some(source) = &mut self.source else { return Vec::new() };
        let (now, wait) = (clock.now(), clock.ticks(WAIT_NS));
        for told in source() {
            self.told.insert(told.request, (told, now));
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
        if self.told.len() > TOLD_MAX {
            self.told.retain(|_, (_, since)| now.since(*since) < wait);
            self.drop_oldest(self.told.len().saturating_sub(TOLD_MAX));
        }
        released
    }

    /// Drops `count` reports: the oldest, and of those of one time the ones of the oldest requests.
    fn drop_oldest(&mut self, count: usize) {
        let mut ages: Vec<_> = self.told.values().map(|(told, at)| (*at, told.request)).collect();
        ages.sort_unstable();
        for (_, request) in &ages[..count] {
            self.told.remove(request);
        }
    }

    /// Holds a record back if a report is expected; false if it must be counted as it is.
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

    fn late() -> (DeferredRecords, Arc<Mutex<Vec<LateParts>>>) {
        let tells = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&tells);
        let source: Source = Box::new(move || std::mem::take(&mut *told.lock()));
        (DeferredRecords { source: Some(source), ..DeferredRecords::default() }, tells)
    }

    #[test]
    fn a_record_waits_for_its_report_and_the_sum_of_its_parts_stays() {
        let clock = Clock::simulated(SimulatedClock::leaked(0));
        let (mut late, tells) = late();
        let (first, second) = (record(clock, 1, 8_000), record(clock, 2, 800));
        assert!(late.hold(&first, &clock) && late.hold(&second, &clock));
        assert!(late.release(&clock, false).is_empty());
        // A report of more ticks than the part had is cut.
        for (request, near, far) in [(1, 1_600, 4_800), (2, 400, 8_000)] {
            let parts = vec![(NEAR, near), (FAR, far)];
            tells.lock().push(LateParts { request, of: WHOLE, parts });
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
    fn a_record_without_a_report_waits_until_the_limit_or_the_end() {
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

    /// Regression: one report too many, and all of them were dropped, even those of records that
    /// waited for them.
    #[test]
    fn of_too_many_reports_the_oldest_are_dropped() {
        let simulated = SimulatedClock::leaked(0);
        let clock = Clock::simulated(simulated);
        let (mut late, tells) = late();
        let report = |request| LateParts { request, of: WHOLE, parts: vec![(NEAR, 800)] };
        assert!(late.hold(&record(clock, 1, 8_000), &clock));
        let count = TOLD_MAX as u64 + 10;
        for requests in [1..=count, count + 1..=count + 10] {
            tells.lock().extend(requests.map(report));
            late.release(&clock, false).iter().for_each(|record| {
                assert_eq!(record.parts_ticks()[NEAR.slot()], 800);
            });
            assert_eq!(late.told.len(), TOLD_MAX);
            simulated.advance_ns(1_000);
        }
        assert!(late.held.is_empty(), "the report of the first was there");
        let kept = count + 11 - TOLD_MAX as u64..=count + 10;
        assert!(kept.into_iter().all(|request| late.told.contains_key(&request)));
    }

    #[test]
    fn a_report_may_come_before_its_record_is_drained() {
        let clock = Clock::simulated(SimulatedClock::leaked(0));
        let (mut late, tells) = late();
        let parts = vec![(NEAR, 800)];
        tells.lock().push(LateParts { request: 1, of: WHOLE, parts });
        assert!(late.release(&clock, false).is_empty());
        assert!(late.hold(&record(clock, 1, 8_000), &clock));
        assert_eq!(late.release(&clock, false)[0].parts_ticks()[NEAR.slot()], 800);
        let plain = Record::default();
        assert!(!late.hold(&plain, &clock), "nothing is to be told of it");
    }
}

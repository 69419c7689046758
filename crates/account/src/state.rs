//! The state of an account: the rings that it reads, and the series in which it counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pellucid_clock::{Clock, Ticks};
use pellucid_thread::{Job, Mutex, MutexGuard, start_job};

use crate::current_second::BucketTable;
use crate::deferred_records::DeferredRecords;
use crate::in_flight::{CurrentRequest, DetachedRequests};
use crate::record::{RECORD_WORDS, Record, RequestFacts};
use crate::request_monitor::RequestMonitor;
use crate::ring::Ring;
use crate::series::{Series, WINDOW_SECONDS_MAX};

/// Records that [`SharedAccount::count_some`] counts at most: some 10 µs.
const COUNTED_IN_A_MOMENT: usize = 160;
/// The name of the counting, for profiles.
pub(crate) static ACCOUNT: Job = Job::new("account");

/// The extent of accounting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accounting {
    /// No readings are taken.
    Off,
    /// Requests are recorded in the rings, for the flight recorder; nothing is derived from them.
    Ring,
    /// Requests are recorded, and counted in histograms by another thread.
    #[default]
    Full,
}

impl Accounting {
    /// The name, as on the command line and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Accounting::Off => "off",
            Accounting::Ring => "ring",
            Accounting::Full => "full",
        }
    }
}

/// The names behind the slots in records.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// The operations of the API.
    pub operations: &'static [&'static str],
    /// The outcomes of requests.
    pub outcomes: &'static [&'static str],
    /// The parts of `execute`, at most [`PARTS_MAX`](crate::PARTS_MAX).
    pub parts: &'static [&'static str],
    /// The operations, by slot, whose parts have other names; as many names as in `parts`.
    pub other_parts: &'static [(u8, &'static [&'static str])],
}

impl Names {
    /// The parts of `execute` of the operation in this slot.
    #[must_use]
    pub fn parts_of(&self, operation: u8) -> &'static [&'static str] {
        let other = self.other_parts.iter().find(|(slot, _)| *slot == operation);
        other.map_or(self.parts, |(_, parts)| parts)
    }
}

/// A function that is called with each record and its total in ticks.
type Listener = Box<dyn FnMut(&Record, u64) + Send>;

/// The part of an account that its recorders share.
pub(crate) struct SharedAccount {
    pub(crate) clock: Clock,
    pub(crate) accounting: Accounting,
    pub(crate) names: Names,
    pub(crate) began: Ticks,
    state: Mutex<State>,
    pub(crate) stopped: AtomicBool,
}

/// The counts of the drained records, and the rings to drain.
pub(crate) struct State {
    pub(crate) rings: Vec<RecorderState>,
    pub(crate) watch: RequestMonitor,
    pub(crate) series: Vec<Series>,
    table: BucketTable,
    pub(crate) records_lost: u64,
    pub(crate) listener: Option<Listener>,
    pub(crate) late: DeferredRecords,
    /// The number of the current second, since the account began.
    pub(crate) second: u64,
}

/// The state of one recorder that the account reads, and the position in its ring.
pub(crate) struct RecorderState {
    pub(crate) ring: Arc<Ring>,
    next: u64,
    pub(crate) present: &'static CurrentRequest,
    pub(crate) away: Arc<DetachedRequests>,
}

impl SharedAccount {
    pub(crate) fn new(accounting: Accounting, clock: Clock, names: Names) -> SharedAccount {
        let state = State {
            rings: Vec::new(),
            watch: RequestMonitor::new(names.operations.len()),
            series: Vec::new(),
            table: BucketTable::new(clock),
            records_lost: 0,
            listener: None,
            late: DeferredRecords::default(),
            second: 0,
        };
        SharedAccount {
            clock,
            accounting,
            names,
            began: clock.now(),
            state: Mutex::new(state),
            stopped: AtomicBool::new(false),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn drain_locked(&self, state: &mut State) {
        let clock = self.clock;
        let now_second = self.now_second();
        if now_second > state.second {
            let closed = state.second;
            let State { series, watch, .. } = &mut *state;
            for series in series.iter_mut() {
                let operation = series.operation;
                let totals = |buckets: &[_]| watch.slow.count_second(operation, buckets);
                series.close_second(closed, &clock, totals);
            }
            // Seconds without a drain are closed as well, as far as any window reaches back.
            let from = closed.max(now_second.saturating_sub(WINDOW_SECONDS_MAX as u64));
            (from..now_second).for_each(|second| watch.close_second(second, &clock));
            state.second = now_second;
        }
        state.watch.begin_drain(&clock);
        state.count(self, None, u64::MAX);
    }

    /// The number of the present second, since the account began.
    fn now_second(&self) -> u64 {
        self.clock.nanoseconds(self.clock.now().since(self.began)) / 1_000_000_000
    }

    /// Counts some records of one ring, unless another thread holds the account. Work that takes
    /// longer than a few microseconds is left to the draining thread.
    pub(crate) fn count_some(&self, ring: &Arc<Ring>) {
        if self.accounting != Accounting::Full {
            return;
        }
        let Some(mut state) = self.state.try_lock() else { return };
        let history = &state.watch.history;
        if state.second == self.now_second() && history.has_room_for(COUNTED_IN_A_MOMENT) {
            let _job = start_job(&ACCOUNT);
            state.watch.begin_part(&self.clock);
            state.count(self, Some(ring), COUNTED_IN_A_MOMENT as u64);
        }
    }
}

impl State {
    /// Adds the ring of another recorder to those that are read.
    pub(crate) fn read_also(
        &mut self,
        ring: Arc<Ring>,
        present: &'static CurrentRequest,
        away: Arc<DetachedRequests>,
    ) {
        self.rings.push(RecorderState { ring, next: 0, present, away });
    }

    /// Counts the records of all rings, or of the ring `only`; at most `limit` records of each.
    fn count(&mut self, shared: &SharedAccount, only: Option<&Arc<Ring>>, limit: u64) {
        let (clock, names) = (shared.clock, shared.names);
        let State { rings, series, table, records_lost, watch, listener, late, .. } = self;
        let table = &*table;
        let mut count = |record: &Record, words: &[u64; RECORD_WORDS]| {
            let series = series_of(series, record.facts);
            let total_ticks = series.add(record, table, names.parts.len());
            watch.see(record, words, total_ticks);
            if let Some(listener) = listener {
                listener(record, total_ticks);
            }
        };
        let is_meant = |ring: &Arc<Ring>| only.is_none_or(|only| Arc::ptr_eq(only, ring));
        for reading in rings.iter_mut().filter(|reading| is_meant(&reading.ring)) {
            let (next, lost) = reading.ring.read_from(reading.next, limit, |record, words| {
                if !record.is_told_later || !late.hold(record, &clock) {
                    count(record, words);
                }
            });
            reading.next = next;
            *records_lost += lost;
        }
        if only.is_none() {
            for record in late.release(&clock, shared.stopped.load(Ordering::Acquire)) {
                count(&record, &record.to_words());
            }
        }
    }
}

fn series_of(series: &mut Vec<Series>, facts: RequestFacts) -> &mut Series {
    let key = (facts.operation, facts.outcome);
    let place = series.iter().position(|series| (series.operation, series.outcome) == key);
    let place = place.unwrap_or_else(|| {
        series.push(Series::new(facts.operation, facts.outcome));
        series.len() - 1
    });
    &mut series[place]
}

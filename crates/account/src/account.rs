//! The account itself: it hands out recorders, drains their rings, and answers for what it saw.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use pellucid_clock::{Clock, Ticks};
use pellucid_thread::{Condvar, Job, Mutex, MutexGuard, start_job};

use crate::activity::Activity;
use crate::filling::BucketTable;
use crate::history::History;
use crate::late::{Late, LateParts};
use crate::present::{Away, Present};
use crate::record::{RECORD_WORDS, Record, RequestFacts};
use crate::recorder::Recorder;
use crate::ring::{RING_RECORDS, Ring};
use crate::series::{Series, Tally, WINDOW_SECONDS_MAX};
use crate::snapshot::{ClockFacts, SCHEMA, Snapshot, operation_account};
use crate::timeline::PARTS_MAX;
use crate::watch::Watch;

/// Pause between two drains of the rings.
const DRAIN_PAUSE: Duration = Duration::from_millis(10);

/// Records that a thread counts when it has a moment: some 10 µs.
const COUNTED_IN_A_MOMENT: usize = 160;
/// The work of the threads that count.
static ACCOUNT: Job = Job::new("account");

/// The extent of the account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accounting {
    /// No readings are taken.
    Off,
    /// Requests are recorded in the rings, for the flight recorder; nothing is derived from them.
    Ring,
    /// Requests are recorded, and counted in histograms aside.
    #[default]
    Full,
}

impl Accounting {
    /// The name on the command line and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Accounting::Off => "off",
            Accounting::Ring => "ring",
            Accounting::Full => "full",
        }
    }
}

impl FromStr for Accounting {
    type Err = String;

    fn from_str(text: &str) -> Result<Accounting, String> {
        match text {
            "off" => Ok(Accounting::Off),
            "ring" => Ok(Accounting::Ring),
            "full" => Ok(Accounting::Full),
            _ => Err(format!("`{text}` is none of off, ring and full")),
        }
    }
}

/// The names behind the slots in records.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// Operations of the API.
    pub operations: &'static [&'static str],
    /// The outcomes of requests.
    pub outcomes: &'static [&'static str],
    /// Parts of `execute`, at most [`PARTS_MAX`].
    pub parts: &'static [&'static str],
    /// Operations, by slot, whose parts have other names, as many as there are `parts`.
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

/// The receiver of each record, with its total in ticks.
type Listener = Box<dyn FnMut(&Record, u64) + Send>;

/// The account of a server; one for the process, shared by its threads.
#[derive(Clone)]
pub struct Account {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) accounting: Accounting,
    pub(crate) names: Names,
    pub(crate) began: Ticks,
    pub(crate) requests: AtomicU64,
    state: Mutex<State>,
    stopped: AtomicBool,
    stop_lock: Mutex<()>,
    stop_signal: Condvar,
}

pub(crate) struct State {
    pub(crate) rings: Vec<Reading>,
    pub(crate) watch: Watch,
    series: Vec<Series>,
    table: BucketTable,
    records_lost: u64,
    listener: Option<Listener>,
    late: Late,
    /// Number of the second, since the account began, that is being filled.
    second: u64,
}

/// The readings of one recorder.
pub(crate) struct Reading {
    pub(crate) ring: Arc<Ring>,
    next: u64,
    pub(crate) present: &'static Present,
    pub(crate) away: Arc<Away>,
}

impl Account {
    /// An account with these names, begun now.
    ///
    /// # Panics
    /// If there are more parts than [`PARTS_MAX`].
    #[must_use]
    pub fn new(accounting: Accounting, clock: Clock, names: Names) -> Account {
        assert!(names.parts.len() <= PARTS_MAX, "a record holds {PARTS_MAX} parts");
        let state = State {
            rings: Vec::new(),
            watch: Watch::new(names.operations.len()),
            series: Vec::new(),
            table: BucketTable::new(clock),
            records_lost: 0,
            listener: None,
            late: Late::default(),
            second: 0,
        };
        let shared = Shared {
            clock,
            accounting,
            names,
            began: clock.now(),
            requests: AtomicU64::new(0),
            state: Mutex::new(state),
            stopped: AtomicBool::new(false),
            stop_lock: Mutex::new(()),
            stop_signal: Condvar::for_work(),
        };
        Account { shared: Arc::new(shared) }
    }

    /// Has the flight recorder keep so many records (at least one) instead of
    /// [`crate::HISTORY_RECORDS`]; what it has is forgotten.
    pub fn keep_records(&self, records: usize) {
        self.state().watch.history = History::new(records.max(1));
    }

    /// The extent of the account.
    #[must_use]
    pub fn accounting(&self) -> Accounting {
        self.shared.accounting
    }

    /// The clock of all timelines.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// A recorder for the calling thread's requests.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        let (present, away) = (Present::take(), Arc::new(Away::default()));
        let ring = (self.shared.accounting != Accounting::Off).then(|| {
            let ring = Arc::new(Ring::new(RING_RECORDS));
            let (reading, away) = (Arc::clone(&ring), Arc::clone(&away));
            self.state().rings.push(Reading { ring: reading, next: 0, present, away });
            ring
        });
        let (clock, shared) = (self.shared.clock, Arc::clone(&self.shared));
        Recorder { clock, ring, present, away, shared }
    }

    /// Has the account know of the background jobs that are noted in `activity`.
    pub fn watch(&self, activity: Activity) {
        self.state().watch.activity = activity;
    }

    /// Counts every 10 ms what the recorders have recorded, until [`Account::stop`]. To be run on a
    /// thread of its own where accounting is `full`.
    pub fn drain_until_stopped(&self) {
        let _job = start_job(&ACCOUNT);
        let mut guard = self.shared.stop_lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.shared.stopped.load(Ordering::Acquire) {
            self.drain();
            let waited = self.shared.stop_signal.wait_timeout(guard, DRAIN_PAUSE);
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(guard);
        self.drain();
    }

    /// Ends [`Account::drain_until_stopped`].
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Release);
        let _guard = self.shared.stop_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.stop_signal.notify_all();
    }

    /// Has `listener` called with each record that is counted from now on, and its total in ticks.
    /// It is called by whoever drains, and must not wait: records would be lost meanwhile.
    pub fn listen(&self, listener: impl FnMut(&Record, u64) + Send + 'static) {
        self.state().listener = Some(Box::new(listener));
    }

    /// Has `source` asked what has come to light of requests after their answers, as often as the
    /// recorders are looked at. It must not wait.
    pub fn tell_later(&self, source: impl FnMut() -> Vec<LateParts> + Send + 'static) {
        self.state().late.source = Some(Box::new(source));
    }

    /// Ends [`Account::listen`].
    pub fn unlisten(&self) {
        let listener = self.state().listener.take();
        // Not under the lock: the listener may hold an account itself.
        drop(listener);
    }

    /// Counts what the recorders have recorded until now.
    pub fn drain(&self) {
        if self.shared.accounting == Accounting::Full {
            self.drain_locked(&mut self.state());
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn drain_locked(&self, state: &mut State) {
        let clock = self.shared.clock;
        let now_second = self.shared.now_second();
        if now_second > state.second {
            let closed = state.second;
            let State { series, watch, .. } = &mut *state;
            for series in series.iter_mut() {
                let operation = series.operation;
                let totals = |buckets: &[_]| watch.slow.count_second(operation, buckets);
                series.close_second(closed, &clock, totals);
            }
            // Seconds without a drain count as well, as far as anything reaches back.
            let from = closed.max(now_second.saturating_sub(WINDOW_SECONDS_MAX as u64));
            (from..now_second).for_each(|second| watch.close_second(second, &clock));
            state.second = now_second;
        }
        state.watch.begin_drain(&clock);
        state.count(&self.shared, None, u64::MAX);
    }

    /// The records of the last `window_seconds` (at most [`WINDOW_SECONDS_MAX`]; the
    /// window begins on a whole second), or since the start.
    #[must_use]
    pub fn snapshot(&self, window_seconds: Option<u64>) -> Snapshot {
        let mut state = self.state();
        if self.shared.accounting == Accounting::Full {
            self.drain_locked(&mut state);
        }
        let since_start_ns =
            self.shared.clock.nanoseconds(self.shared.clock.now().since(self.shared.began));
        let window_seconds = window_seconds.map(|seconds| seconds.min(WINDOW_SECONDS_MAX as u64));
        let from = window_seconds.map(|seconds| (state.second + 1).saturating_sub(seconds));
        let tallies: Vec<(u8, u8, Tally)> = state
            .series
            .iter()
            .map(|series| {
                (series.operation, series.outcome, series.tally(from, &self.shared.clock))
            })
            .collect();
        let records_lost = state.records_lost;
        drop(state);
        self.describe(window_seconds, since_start_ns, records_lost, &tallies)
    }

    fn describe(
        &self,
        window_seconds: Option<u64>,
        since_start_ns: u64,
        records_lost: u64,
        tallies: &[(u8, u8, Tally)],
    ) -> Snapshot {
        let names = self.shared.names;
        let name = |names: &[&'static str], slot: u8| names.get(slot as usize).copied();
        let mut operations: Vec<_> = tallies
            .iter()
            .map(|(operation, outcome, tally)| {
                let parts = names.parts_of(*operation);
                let operation = name(names.operations, *operation).unwrap_or("unnamed");
                let outcome = name(names.outcomes, *outcome).unwrap_or("unnamed");
                operation_account(operation, outcome, parts, tally)
            })
            .filter(|account| account.count > 0)
            .collect();
        operations.sort_by(|a, b| (&a.operation, &a.outcome).cmp(&(&b.operation, &b.outcome)));
        let since_start = since_start_ns as f64 / 1e9;
        Snapshot {
            schema: SCHEMA.to_owned(),
            accounting: self.shared.accounting.name().to_owned(),
            window_seconds: window_seconds.map_or(since_start, |s| since_start.min(s as f64)),
            clock: ClockFacts {
                source: self.shared.clock.source().name().to_owned(),
                ticks_per_second: self.shared.clock.ticks_per_second(),
            },
            records_lost,
            operations,
        }
    }
}

impl Shared {
    /// The number of the second, since the account began, that it is.
    fn now_second(&self) -> u64 {
        self.clock.nanoseconds(self.clock.now().since(self.began)) / 1_000_000_000
    }

    /// Counts some records of one ring, unless somebody else is at the account. What takes longer
    /// than a few microseconds is left to the thread that drains.
    pub(crate) fn count_some(&self, ring: &Arc<Ring>) {
        if self.accounting != Accounting::Full {
            return;
        }
        let Ok(mut state) = self.state.try_lock() else { return };
        let history = &state.watch.history;
        if state.second == self.now_second() && history.has_room_for(COUNTED_IN_A_MOMENT) {
            let _job = start_job(&ACCOUNT);
            state.watch.begin_part(&self.clock);
            state.count(self, Some(ring), COUNTED_IN_A_MOMENT as u64);
        }
    }
}

impl State {
    /// Counts what the rings hold, or what `only` holds: so many records of each at most.
    fn count(&mut self, shared: &Shared, only: Option<&Arc<Ring>>, limit: u64) {
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

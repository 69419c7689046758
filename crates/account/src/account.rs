//! The account itself: it hands out recorders, drains their rings, and answers for what it saw.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pellucid_clock::{Clock, Ticks};

use crate::filling::BucketTable;
use crate::record::{Record, RequestFacts};
use crate::ring::{RING_RECORDS, Ring};
use crate::series::{Series, Tally, WINDOW_SECONDS_MAX};
use crate::snapshot::{ClockFacts, SCHEMA, Snapshot, operation_account};
use crate::timeline::{PARTS_MAX, Timeline};

/// Pause between two drains of the rings.
const DRAIN_PAUSE: Duration = Duration::from_millis(10);

/// How much is accounted for.
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
    /// How requests can end.
    pub outcomes: &'static [&'static str],
    /// Parts of `execute`, at most [`PARTS_MAX`].
    pub parts: &'static [&'static str],
}

/// The account of a server; one for the process, shared by its threads.
#[derive(Clone)]
pub struct Account {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    accounting: Accounting,
    names: Names,
    began: Ticks,
    requests: AtomicU64,
    state: Mutex<State>,
    stopped: AtomicBool,
    stop_lock: Mutex<()>,
    stop_signal: Condvar,
}

struct State {
    rings: Vec<Reading>,
    series: Vec<Series>,
    table: BucketTable,
    records_lost: u64,
    /// Number of the second, since the account began, that is being filled.
    second: u64,
}

struct Reading {
    ring: Arc<Ring>,
    next: u64,
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
            series: Vec::new(),
            table: BucketTable::new(clock),
            records_lost: 0,
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
            stop_signal: Condvar::new(),
        };
        Account { shared: Arc::new(shared) }
    }

    /// How much is accounted for.
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
        let ring = (self.shared.accounting != Accounting::Off).then(|| {
            let ring = Arc::new(Ring::new(RING_RECORDS));
            self.state().rings.push(Reading { ring: Arc::clone(&ring), next: 0 });
            ring
        });
        Recorder { clock: self.shared.clock, ring, shared: Arc::clone(&self.shared) }
    }

    /// Counts every 10 ms what the recorders have recorded, until [`Account::stop`]. To be run on a
    /// thread of its own where accounting is `full`.
    pub fn drain_until_stopped(&self) {
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

    /// Counts what the recorders have recorded until now.
    pub fn drain(&self) {
        if self.shared.accounting == Accounting::Full {
            self.drain_locked(&mut self.state());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drain_locked(&self, state: &mut State) {
        let (clock, names) = (self.shared.clock, self.shared.names);
        let now_second = clock.nanoseconds(clock.now().since(self.shared.began)) / 1_000_000_000;
        if now_second > state.second {
            let closed = state.second;
            state.series.iter_mut().for_each(|series| series.close_second(closed, &clock));
            state.second = now_second;
        }
        let State { rings, series, table, records_lost, .. } = &mut *state;
        let table = &*table;
        for reading in rings.iter_mut() {
            let count = |record: &Record| {
                series_of(series, record.facts).add(record, table, names.parts.len());
            };
            let (next, lost) = reading.ring.read_from(reading.next, count);
            reading.next = next;
            *records_lost += lost;
        }
    }

    /// What was recorded within the last `window_seconds` (at most [`WINDOW_SECONDS_MAX`]; the
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
                let operation = name(names.operations, *operation).unwrap_or("unnamed");
                let outcome = name(names.outcomes, *outcome).unwrap_or("unnamed");
                operation_account(operation, outcome, names.parts, tally)
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

fn series_of(series: &mut Vec<Series>, facts: RequestFacts) -> &mut Series {
    let key = (facts.operation, facts.outcome);
    let place = series.iter().position(|series| (series.operation, series.outcome) == key);
    let place = place.unwrap_or_else(|| {
        series.push(Series::new(facts.operation, facts.outcome));
        series.len() - 1
    });
    &mut series[place]
}

/// Makes timelines for one thread and records them when their requests are done.
pub struct Recorder {
    clock: Clock,
    ring: Option<Arc<Ring>>,
    shared: Arc<Shared>,
}

impl Recorder {
    /// Whether readings are taken.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.ring.is_some()
    }

    /// The clock, or ticks of zero where accounting is off.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Ticks {
        if self.ring.is_some() { self.clock.now() } else { Ticks(0) }
    }

    /// A timeline for a request whose first byte was readable at `arrived`.
    #[inline]
    #[must_use]
    pub fn begin(&self, arrived: Ticks) -> Timeline {
        if self.ring.is_some() { Timeline::begin(self.clock, arrived) } else { Timeline::off() }
    }

    /// A number for a request that no other request of this server has. Numbers are drawn in the
    /// order in which requests are parsed.
    #[must_use]
    pub fn next_request(&self) -> u64 {
        self.shared.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Records a finished request.
    #[inline]
    pub fn record(&self, timeline: &Timeline, facts: RequestFacts) {
        if let Some(record) = self.seal(timeline, facts) {
            self.push(&record);
        }
    }

    /// The record of a request that only lacks its last stamp: it is half as large as the timeline
    /// that it replaces. None where accounting is off.
    #[inline]
    #[must_use]
    pub fn seal(&self, timeline: &Timeline, facts: RequestFacts) -> Option<Record> {
        (self.ring.is_some() && timeline.is_on()).then(|| Record::of(timeline, facts))
    }

    /// Records a request that was sealed before, and whose last byte was written at `written`;
    /// `None` if it never was.
    #[inline]
    pub fn record_sealed(&self, mut record: Record, written: Option<Ticks>) {
        if let Some(written) = written {
            record.stamp_written(written);
        }
        self.push(&record);
    }

    #[inline]
    fn push(&self, record: &Record) {
        if let Some(ring) = &self.ring {
            ring.push(record);
        }
    }
}

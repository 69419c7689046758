//! The account itself: hands out recorders, drains their rings, and makes snapshots.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pellucid_clock::Clock;
use pellucid_thread::{MutexGuard, PeriodicThread};

use crate::activity::Activity;
use crate::deferred_records::LateParts;
use crate::history::History;
use crate::record::Record;
use crate::recorder::Recorder;
use crate::series::{PeriodCounts, WINDOW_SECONDS_MAX};
use crate::snapshot::{ClockFacts, SCHEMA, Snapshot, operation_account};
use crate::state::{ACCOUNT, Accounting, Names, SharedAccount, State};
use crate::timeline::PARTS_MAX;

/// The pause between two drains of the rings.
const DRAIN_PAUSE: Duration = Duration::from_millis(10);

/// The account of a server; one for the process, shared by its threads.
#[derive(Clone)]
pub struct Account {
    pub(crate) shared: Arc<SharedAccount>,
}

impl Account {
    /// An account with these names, begun now.
    ///
    /// # Panics
    /// If there are more parts than [`PARTS_MAX`].
    #[must_use]
    pub fn new(accounting: Accounting, clock: Clock, names: Names) -> Account {
        assert!(names.parts.len() <= PARTS_MAX, "a record holds {PARTS_MAX} parts");
        Account { shared: Arc::new(SharedAccount::new(accounting, clock, names)) }
    }

    /// Sets how many records the flight recorder keeps (at least one), instead of
    /// [`crate::HISTORY_RECORDS`]. Forgets the records that it has.
    pub fn keep_records(&self, records: usize) {
        self.state().watch.history = History::new(records.max(1));
    }

    /// The extent of accounting.
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
        Recorder::new(&self.shared)
    }

    /// Makes the account use the background jobs that are noted in `activity`.
    pub fn watch(&self, activity: Activity) {
        self.state().watch.activity = activity;
    }

    /// Starts a thread that drains the recorders every 10 ms, as accounting `full` needs, until
    /// its handle is dropped.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn start_draining(&self) -> io::Result<PeriodicThread> {
        let account = self.clone();
        PeriodicThread::start("pellucid-account", &ACCOUNT, DRAIN_PAUSE, move || account.drain())
    }

    /// Drains a last time, and counts also the records that wait for facts ([`Self::tell_later`]).
    pub fn finish(&self) {
        self.shared.stopped.store(true, Ordering::Release);
        self.drain();
    }

    /// Registers `listener`, which is called with each record that is counted from now on, and its
    /// total in ticks. The draining thread calls it under the account's lock. It must not block,
    /// because records would be lost meanwhile.
    pub fn listen(&self, listener: impl FnMut(&Record, u64) + Send + 'static) {
        self.state().listener = Some(Box::new(listener));
    }

    /// Registers `source`, which each drain asks for facts of requests that became known after
    /// their answers. It must not block.
    pub fn tell_later(&self, source: impl FnMut() -> Vec<LateParts> + Send + 'static) {
        self.state().late.source = Some(Box::new(source));
    }

    /// Ends [`Account::listen`].
    pub fn unlisten(&self) {
        let listener = self.state().listener.take();
        // Dropped without the lock, because the listener may hold an account itself.
        drop(listener);
    }

    /// Counts the records that the recorders have recorded until now.
    pub fn drain(&self) {
        if self.shared.accounting == Accounting::Full {
            self.shared.drain_locked(&mut self.state());
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    /// The state, with all records counted that the recorders have recorded until now.
    pub(crate) fn drained(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        if self.shared.accounting == Accounting::Full {
            self.shared.drain_locked(&mut state);
        }
        state
    }

    /// A snapshot of the last `window_seconds` (at most [`WINDOW_SECONDS_MAX`]; the window begins
    /// at a whole second), or, with none, since the start.
    #[must_use]
    pub fn snapshot(&self, window_seconds: Option<u64>) -> Snapshot {
        let state = self.drained();
        let SharedAccount { clock, accounting, names, began, .. } = &*self.shared;
        let since_start = clock.nanoseconds(clock.now().since(*began)) as f64 / 1e9;
        let window_seconds = window_seconds.map(|seconds| seconds.min(WINDOW_SECONDS_MAX as u64));
        let from = window_seconds.map(|seconds| (state.second + 1).saturating_sub(seconds));
        let tallies: Vec<(u8, u8, PeriodCounts)> = state
            .series
            .iter()
            .map(|series| (series.operation, series.outcome, series.tally(from, clock)))
            .collect();
        let records_lost = state.records_lost;
        drop(state);
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
        Snapshot {
            schema: SCHEMA.to_owned(),
            accounting: accounting.name().to_owned(),
            window_seconds: window_seconds.map_or(since_start, |s| since_start.min(s as f64)),
            clock: ClockFacts::of(clock),
            records_lost,
            operations,
        }
    }
}

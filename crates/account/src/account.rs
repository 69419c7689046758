//! The account itself: hands out recorders, drains their rings, and makes snapshots.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use pellucid_clock::Clock;
use pellucid_thread::{MutexGuard, start_job};

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

    /// Drains the recorders every 10 ms until [`Account::stop`]. Run it on a thread of its own if
    /// accounting is `full`.
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
        let since_start_ns =
            self.shared.clock.nanoseconds(self.shared.clock.now().since(self.shared.began));
        let window_seconds = window_seconds.map(|seconds| seconds.min(WINDOW_SECONDS_MAX as u64));
        let from = window_seconds.map(|seconds| (state.second + 1).saturating_sub(seconds));
        let tallies: Vec<(u8, u8, PeriodCounts)> = state
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
        tallies: &[(u8, u8, PeriodCounts)],
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

//! The thread that flushes and merges, and what happens when that fails.
//!
//! Flushes come before merges, and between the slices of a merge. A full disk puts jobs off and
//! passes; any other failure is final: the store takes no further write, because it is unknown what
//! is on the medium.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use pellucid_thread::{Indivisible, Job, schedule_for_background, start_job};

use super::state::State;
use super::table::Table;
use crate::error::{Error, Result};
use crate::jobs;

/// Labels of the thread's work in profiles.
pub(super) static FLUSH: Job = Job::new("flush");
pub(super) static COMPACTION: Job = Job::new("compaction");
static DIRECTORY: Job = Job::new("directory");
/// Looking for work.
static LEDGER: Job = Job::new("ledger");

const THREAD_NAME: &str = "pellucid-ledger";
/// The thread looks for work at least this often, although it is woken when there is some.
const IDLE_WAIT: Duration = Duration::from_millis(500);
/// How long a writer sleeps at most before it looks again whether there is room.
const ROOM_WAIT: Duration = Duration::from_millis(100);
/// A job for which there was no room, on the disk or in the system, is tried again after this time,
/// then after twice as long, and so on.
const SHORTAGE_WAIT_FIRST: Duration = Duration::from_millis(50);
const SHORTAGE_WAIT_MAX: Duration = Duration::from_secs(5);

/// Starts the thread.
pub(super) fn start(state: &Arc<State>) -> Result<JoinHandle<()>> {
    let shared = Arc::clone(state);
    state.lock_edit().background = true;
    let thread = std::thread::Builder::new().name(THREAD_NAME.to_owned());
    thread.spawn(move || run(&shared)).map_err(|error| {
        state.lock_edit().background = false;
        Error::io("start a thread for", &state.directory, error)
    })
}

/// Tells the writers if the thread panics, so that none of them waits for it.
struct PanicNotice<'a>(&'a State);

impl Drop for PanicNotice<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let cause = format!("the thread {THREAD_NAME} panicked");
            self.0.fail(&Error::Poisoned { cause });
        }
    }
}

fn run(state: &State) {
    let _notice = PanicNotice(state);
    let _job = start_job(&LEDGER);
    // Where it is refused, requests wait for this thread as long as the kernel likes.
    let _ = schedule_for_background();
    let mut wait = SHORTAGE_WAIT_FIRST;
    while wait_for_work(state) {
        match state.do_one_job() {
            Ok(_) => wait = SHORTAGE_WAIT_FIRST,
            Err(Error::Closed) => return,
            Err(error) if error.passes() => {
                put_off(state, wait);
                wait = (wait * 2).min(SHORTAGE_WAIT_MAX);
            }
            Err(_) => return,
        }
    }
}

/// Waits until there is something to do; false if the ledger is being closed.
fn wait_for_work(state: &State) -> bool {
    let mut edit = state.lock_edit();
    loop {
        if state.is_closing() {
            return false;
        }
        if state.sealed() > 0 || state.is_merge_due() || state.wants_directory() {
            return true;
        }
        edit = match state.work.wait_timeout(edit, IDLE_WAIT) {
            Ok((edit, _)) => edit,
            Err(poisoned) => poisoned.into_inner().0,
        };
    }
}

/// Waits for `wait`, or until the ledger is being closed.
fn put_off(state: &State, wait: Duration) {
    // Whether it was the time or the closing that ended the wait, the caller looks for itself.
    drop(state.work.wait_timeout_while(state.lock_edit(), wait, |_| !state.is_closing()));
}

impl State {
    /// Flushes a memtable or does a merge, whatever is due first, and says whether something was.
    fn do_one_job(&self) -> Result<bool> {
        self.in_job(|state| {
            Ok(state.flush_oldest()? || state.compact_one()? || state.make_one_directory())
        })
    }

    /// Whether a table could have a directory and has none.
    fn wants_directory(&self) -> bool {
        let version = self.version.load();
        let wants = |table: &Table| {
            table.wants_directory(&self.table_memory)
                || table.wants_records(&self.table_memory)
                || self.wants_stems_of(table)
        };
        version.levels.all().any(|(_, table)| wants(table))
    }

    fn wants_stems_of(&self, table: &Table) -> bool {
        self.options.knows_stems && table.wants_stems(&self.table_memory)
    }

    /// Makes the directory of one table that has none: of those that were there when the store was
    /// opened, and of those for which there was no room when they were written. Then come those
    /// that do not know the stems of their keys, or whose directories name no records, for the same
    /// reasons.
    fn make_one_directory(&self) -> bool {
        let version = self.version.load_full();
        let memory = &self.table_memory;
        let tables = || version.levels.all().map(|(_, table)| table);
        let wanted = tables().find(|table| table.wants_directory(memory));
        let wanted = wanted.or_else(|| tables().find(|table| self.wants_stems_of(table)));
        let Some(table) = wanted.or_else(|| tables().find(|table| table.wants_records(memory)))
        else {
            return false;
        };
        let _noted = self.options.activity.begin(jobs::DIRECTORY, self.options.clock);
        let _job = start_job(&DIRECTORY);
        let mut lent = self.lend_memory();
        let is_wanted = || self.sealed() == 0 && !self.is_closing();
        let stems = (&*self.options.rules, self.options.knows_stems);
        table.make_directories(&self.table_memory, &mut lent, stems, is_wanted);
        self.give_back(lent);
        true
    }

    /// Does `job` under the lock on jobs, and remembers how it went.
    pub(super) fn in_job<T>(&self, job: impl FnOnce(&State) -> Result<T>) -> Result<T> {
        let _jobs = self.lock_jobs();
        self.check()?;
        let _whole = Indivisible::begin();
        let outcome = job(self);
        match &outcome {
            Ok(_) => self.lock_edit().shortage = None,
            Err(Error::Closed) => {}
            Err(error) if error.passes() => {
                self.lock_edit().shortage = Some(error.clone());
                self.room.notify_all();
            }
            Err(error) => self.fail(error),
        }
        outcome
    }

    /// Returns once at most `sealed_max` sealed memtables are left, and says how long that took.
    /// Does the work itself where there is no thread for it.
    pub(super) fn wait_for_flush(&self, sealed_max: usize) -> Result<Duration> {
        let began = self.options.clock.stopwatch();
        loop {
            let mut edit = self.lock_edit();
            if let Some(failure) = &edit.failure {
                return Err(failure.clone());
            }
            if self.sealed() <= sealed_max {
                return Ok(Duration::from_nanos(began.elapsed_ns()));
            }
            if self.is_closing() {
                return Err(Error::Closed);
            }
            if !edit.background {
                drop(edit);
                self.in_job(State::flush_oldest)?;
                continue;
            }
            if let Some(shortage) = edit.shortage.take() {
                // The next attempt sets it again. Meanwhile the caller may free some room.
                return Err(shortage);
            }
            self.work.notify_one();
            edit = match self.room.wait_timeout(edit, ROOM_WAIT) {
                Ok((edit, _)) => edit,
                Err(poisoned) => poisoned.into_inner().0,
            };
            drop(edit);
        }
    }
}

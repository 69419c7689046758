//! The thread that flushes and merges, and the wait of writers for it.
//!
//! Flushes come before merges, and between the slices of a merge, until level 0 has so many tables
//! that a merge has to come first. Between the slices of a merge of everything, which may take
//! hours, they always come; it is given up if they add too many tables. A full disk only delays
//! jobs. Any other failure is final: the store refuses further writes, because the state of the
//! medium is unknown.

use std::sync::Arc;
use std::time::Duration;

use pellucid_thread::{Job, JoinHandle, schedule_for_background, start_job};

use super::compaction::{compact_one, is_merge_due};
use super::flush::flush_oldest;
use super::signals::RoomState;
use super::state::LedgerState;
use super::table::Table;
use crate::error::{Error, Result};
use crate::jobs;

/// The label of building directories in profiles.
static DIRECTORY: Job = Job::new("directory");
/// The label of looking for work in profiles.
static LEDGER: Job = Job::new("ledger");

const THREAD_NAME: &str = "pellucid-ledger";
/// The longest time between two checks for work; the thread is also woken when there is some.
const IDLE_WAIT: Duration = Duration::from_millis(500);
/// The longest time that a writer waits before it checks again for room.
const ROOM_WAIT: Duration = Duration::from_millis(100);
/// The time after which a job that lacked room on the disk or resources of the system is tried
/// again; it doubles with each failure, up to the maximum.
const SHORTAGE_WAIT_FIRST: Duration = Duration::from_millis(50);
const SHORTAGE_WAIT_MAX: Duration = Duration::from_secs(5);

/// Starts the thread.
pub(super) fn start(state: &Arc<LedgerState>) -> Result<JoinHandle<()>> {
    let shared = Arc::clone(state);
    state.signals.set_thread(true);
    pellucid_thread::spawn(THREAD_NAME, move || run(&shared)).map_err(|error| {
        state.signals.set_thread(false);
        Error::io("start a thread for", state.files.directory(), error)
    })
}

/// Fails the ledger if the thread panics, so that no writer waits for it.
struct PanicNotice<'a>(&'a LedgerState);

impl Drop for PanicNotice<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let cause = format!("the thread {THREAD_NAME} panicked");
            self.0.signals.fail(&Error::Poisoned { cause });
        }
    }
}

fn run(state: &LedgerState) {
    let _notice = PanicNotice(state);
    let _job = start_job(&LEDGER);
    // If the system refuses this, requests may have to wait for this thread to be scheduled out.
    let _ = schedule_for_background();
    let mut wait = SHORTAGE_WAIT_FIRST;
    let is_due =
        || state.versions.sealed() > 0 || is_merge_due(state) || wanted_table(state).is_some();
    while state.signals.wait_for_work(IDLE_WAIT, is_due) {
        match do_one_job(state) {
            Ok(_) => wait = SHORTAGE_WAIT_FIRST,
            Err(Error::Closed) => return,
            Err(error) if error.passes() => {
                // A merge that is put off must not delay flushes.
                let is_flush = state.signals.is_flush_put_off();
                let is_waiting =
                    || !state.signals.is_closing() && (is_flush || state.versions.sealed() == 0);
                state.signals.wait_while(wait, is_waiting);
                wait = (wait * 2).min(SHORTAGE_WAIT_MAX);
            }
            Err(_) => return,
        }
    }
}

/// Flushes a memtable or does a merge, in this order unless level 0 is crowded; returns true if one
/// was due. Behind a merge, one memtable is flushed into a crowded level 0 that has become smaller,
/// or has less than twice as many tables, so that writers do not wait for all merges that it needs.
pub(super) fn do_one_job(state: &LedgerState) -> Result<bool> {
    state.in_job(|state| {
        if state.is_crowded() {
            let tables = state.level_0_tables();
            match compact_one(state) {
                Ok(false) => {}
                // A merge that is put off must not delay flushes.
                Err(error) if error.passes() => {}
                Ok(true) if state.level_0_tables() < tables || !state.is_crowded_times(2) => {
                    return match flush_oldest(state) {
                        // The next merge may make the room that a flush lacks.
                        Err(error) if error.passes() => Ok(true),
                        flushed => flushed.map(|_| true),
                    };
                }
                merged => return merged,
            }
        }
        Ok(flush_oldest(state)? || compact_one(state)? || make_one_directory(state))
    })
}

/// A table whose directory is to be built: first one without a directory, because it existed when
/// the store was opened, or because there was no memory when it was written. Then, for the same
/// reasons, one that does not know the prefixes of its keys, or whose directory names no records.
fn wanted_table(state: &LedgerState) -> Option<Arc<Table>> {
    let (version, memory) = (state.versions.load(), state.files.memory());
    let find = |wants: &dyn Fn(&Table) -> bool| {
        let mut tables = version.levels.all().map(|(_, table)| table);
        tables.find(|table| wants(table)).cloned()
    };
    let wants_prefixes =
        |table: &Table| state.options.knows_prefixes && table.directories().wants_prefixes(memory);
    find(&|table| table.directories().wants_keys(memory))
        .or_else(|| find(&wants_prefixes))
        .or_else(|| find(&|table| table.directories().wants_records(memory)))
}

/// Builds the directory of one table that wants one; returns true if there was one.
fn make_one_directory(state: &LedgerState) -> bool {
    let Some(table) = wanted_table(state) else { return false };
    let _noted = state.options.activity.begin(jobs::DIRECTORY, state.options.clock);
    let _job = start_job(&DIRECTORY);
    let is_wanted = || state.versions.sealed() == 0 && !state.signals.is_closing();
    state.files.make_directories(&table, is_wanted);
    true
}

/// Waits until flushes have made `is_free` true; returns the time that it took. Flushes on the
/// calling thread if there is no background thread.
pub(super) fn wait_for_flush(state: &LedgerState, is_free: impl Fn() -> bool) -> Result<Duration> {
    let began = state.options.clock.stopwatch();
    loop {
        match state.signals.wait_for_room(ROOM_WAIT, &is_free)? {
            RoomState::Free => return Ok(Duration::from_nanos(began.elapsed_ns())),
            RoomState::Full => {}
            RoomState::Unattended => {
                state.in_job(flush_oldest)?;
            }
        }
    }
}

//! A merge in two parts: while merges are behind, two threads do one merge, each its half of the
//! keys.
//!
//! One thread merges more slowly than one writer writes, and at the end of a load it would go on
//! alone while a processor had nothing to do. In ordinary times a merge has one thread: a second
//! one would take from requests what they need of the other processors.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pellucid_thread::{schedule_for_background, start_job};

use super::KeyRange;
use super::background::COMPACTION;
use super::compaction::Merging;
use super::outputs::Merged;
use super::state::State;
use super::table::TableCursor;
use super::version::Levels;
use crate::error::{Error, Result};

const THREAD_NAME: &str = "pellucid-merge";
/// Merges are behind once level 0 holds its trigger and half of it again.
const BEHIND: (usize, usize) = (3, 2);
/// The fewest bytes that are merged in parts, in tables of the usual size: with less, starting and
/// ending them is not worth it.
const TABLES_MIN: u64 = 4;
/// How long the first part's thread waits at most, once it is done, before it looks after the
/// second part and after flushes again.
const PART_WAIT: Duration = Duration::from_millis(10);

/// How the two parts of a merge stand.
#[derive(Default)]
struct Standing {
    /// One of them failed: the other need not go on.
    is_given_up: AtomicBool,
    /// The second part has ended.
    is_second_done: AtomicBool,
}

/// Says that the second part has ended, however that went.
struct DoneNotice<'a> {
    state: &'a State,
    standing: &'a Standing,
}

impl Drop for DoneNotice<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.standing.is_given_up.store(true, Ordering::Release);
        }
        // Under the lock, so that who looked before it waits is waiting by now.
        let _edit = self.state.lock_edit();
        self.standing.is_second_done.store(true, Ordering::Release);
        self.state.work.notify_all();
    }
}

impl State {
    /// Writes what a merge comes to, in two parts if merges are behind. Under the lock on jobs.
    pub(super) fn write_in_parts(&self, merging: &Merging, levels: &Levels) -> Result<Merged> {
        let middle = match self.should_part(merging, levels) {
            true => middle_key(merging)?,
            false => None,
        };
        let Some(middle) = middle else {
            return self.write_whole(merging, levels);
        };
        let standing = Standing::default();
        let second = || self.write_second(merging, levels, &middle, &standing);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name(THREAD_NAME.to_owned());
            let Ok(thread) = thread.spawn_scoped(scope, second) else {
                return self.write_whole(merging, levels);
            };
            let first = self.write_first(merging, levels, &middle, &standing);
            if first.is_err() {
                standing.is_given_up.store(true, Ordering::Release);
            }
            let second = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            match (first, second) {
                (Ok(first), Ok(second)) => Ok(first.and(second)),
                (Err(error), Ok(written)) | (Ok(written), Err(error)) => {
                    self.remove_tables(written.numbers().into_iter());
                    Err(error)
                }
                // The part that was given up says so; the other one says why.
                (Err(Error::Closed), Err(error)) | (Err(error), Err(_)) => Err(error),
            }
        })
    }

    fn write_whole(&self, merging: &Merging, levels: &Levels) -> Result<Merged> {
        self.write_merged(merging, levels, &KeyRange::EVERYTHING, || self.give_way())
    }

    fn should_part(&self, merging: &Merging, levels: &Levels) -> bool {
        let (times, of) = BEHIND;
        let behind = self.options.level_0_trigger.max(1) * times / of;
        let is_behind = levels.level(0).len() >= behind;
        let bytes_min = TABLES_MIN * self.options.table_size_bytes;
        self.options.merges_in_parts && is_behind && merging.size_bytes() >= bytes_min
    }

    /// The part below `middle`, and the flushes that come meanwhile, until the other part is done.
    fn write_first(
        &self,
        merging: &Merging,
        levels: &Levels,
        middle: &[u8],
        standing: &Standing,
    ) -> Result<Merged> {
        let range = KeyRange { start: Bound::Unbounded, end: Bound::Excluded(middle) };
        let merged = self.write_merged(merging, levels, &range, || {
            standing.check()?;
            self.give_way()
        })?;
        let flushed = self.flush_until_second_is_done(standing);
        flushed.inspect_err(|_| self.remove_tables(merged.numbers().into_iter()))?;
        Ok(merged)
    }

    fn flush_until_second_is_done(&self, standing: &Standing) -> Result<()> {
        loop {
            while self.sealed() > 0 {
                self.flush_oldest()?;
            }
            let edit = self.lock_edit();
            if standing.is_second_done.load(Ordering::Acquire) {
                return Ok(());
            }
            let is_waiting =
                |_: &mut _| self.sealed() == 0 && !standing.is_second_done.load(Ordering::Acquire);
            drop(self.work.wait_timeout_while(edit, PART_WAIT, is_waiting));
        }
    }

    /// The part from `middle` on, on a thread of its own.
    fn write_second(
        &self,
        merging: &Merging,
        levels: &Levels,
        middle: &[u8],
        standing: &Standing,
    ) -> Result<Merged> {
        let _notice = DoneNotice { state: self, standing };
        let _job = start_job(&COMPACTION);
        // Where it is refused, requests wait for this thread as long as the kernel likes.
        let _ = schedule_for_background();
        let range = KeyRange { start: Bound::Included(middle), end: Bound::Unbounded };
        let merged = self.write_merged(merging, levels, &range, || {
            pellucid_thread::give_way();
            standing.check()?;
            if self.is_closing() { Err(Error::Closed) } else { Ok(()) }
        });
        merged.inspect_err(|_| standing.is_given_up.store(true, Ordering::Release))
    }
}

impl Standing {
    fn check(&self) -> Result<()> {
        // The error of the part that failed is told, not this one.
        if self.is_given_up.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }
}

/// A key with about half of what is merged before it: the middle by size of the tables' own middle
/// keys.
fn middle_key(merging: &Merging) -> Result<Option<Vec<u8>>> {
    let mut middles = Vec::new();
    for table in merging.tables() {
        let mut cursor = TableCursor::new(std::sync::Arc::clone(table));
        cursor.seek_middle()?;
        if let Some(entry) = cursor.entry() {
            middles.push((entry.key.to_vec(), table.facts().size_bytes));
        }
    }
    middles.sort_unstable();
    let mut rest_bytes = merging.size_bytes() / 2;
    let is_half = |(_, size_bytes): &(Vec<u8>, u64)| {
        let is_within = *size_bytes > rest_bytes;
        rest_bytes = rest_bytes.saturating_sub(*size_bytes);
        is_within
    };
    let middle = middles.iter().position(is_half);
    Ok(middle.map(|place| middles.swap_remove(place).0))
}

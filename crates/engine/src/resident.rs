//! Reads that never wait for the medium.
//!
//! An event loop that reads a page which is not in memory stops, and with it every connection it
//! owns. Asking before each read whether its pages are there would cost more than the read; so it
//! is asked only while reads were found to be slow of late, and never where everything has been in
//! memory for a while. What is not there is for another thread to fetch.

use std::cell::Cell;

use pellucid_account::Timeline;

use crate::catalogue::TableId;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::object::{Head, Object};
use crate::parts;

/// Reads that belong together are taken for slow from here on: hundreds from memory take less.
const SLOW_TOGETHER_NS: u64 = 1_000_000;

thread_local! {
    /// Whether this thread's read must end rather than wait.
    static REQUIRED: Cell<bool> = const { Cell::new(false) };
}

/// Whether the read of this thread must end with [`Error::NotInMemory`] rather than wait.
#[inline]
pub(crate) fn is_required() -> bool {
    REQUIRED.get()
}

/// Requires it until it is dropped.
struct Requirement;

impl Requirement {
    fn begin() -> Requirement {
        REQUIRED.set(true);
        Requirement
    }
}

impl Drop for Requirement {
    fn drop(&mut self) {
        REQUIRED.set(false);
    }
}

/// What a read came to that must not wait for the medium.
#[derive(Debug)]
pub enum InMemory<T> {
    /// The answer.
    Here(T),
    /// Something on the way to it is not in memory: ask again on a thread that may wait.
    Away,
}

impl Engine {
    /// As [`Engine::get`], but while reads are slow it does not wait for the medium. The first slow
    /// read after a while without any is waited for: it is what tells that they are slow.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn get_in_memory(
        &self,
        table: TableId,
        key: &[u8],
        timeline: &mut Timeline,
    ) -> Result<InMemory<Option<Object>>> {
        self.in_memory(timeline, |engine, timeline| engine.get(table, key, timeline))
    }

    /// As [`Engine::head`], in the way of [`Engine::get_in_memory`].
    ///
    /// # Errors
    /// As [`Engine::head`].
    pub fn head_in_memory(
        &self,
        table: TableId,
        key: &[u8],
        timeline: &mut Timeline,
    ) -> Result<InMemory<Option<Head>>> {
        self.in_memory(timeline, |engine, timeline| engine.head(table, key, timeline))
    }

    /// Has `reads` make reads that belong together on a thread that must not wait: while reads are
    /// slow, those that would wait end with [`Error::NotInMemory`] instead. `reads` says whether
    /// none of its own did, and so does this; otherwise all of them are to be made again on a
    /// thread that may wait.
    pub fn all_in_memory(&self, reads: impl FnOnce() -> bool) -> bool {
        let (journal, clock) = (&self.inner.journal, self.inner.options.clock);
        if !journal.reads_are_slow() {
            let begun = clock.stopwatch();
            let are_here = reads();
            if begun.elapsed_ns() >= SLOW_TOGETHER_NS {
                journal.note_away();
            }
            return are_here;
        }
        let requirement = Requirement::begin();
        let are_here = reads();
        drop(requirement);
        if !are_here {
            journal.note_away();
        }
        are_here
    }

    /// Whether no read of late had to wait for the medium. Only a hint: the next one may.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        !self.inner.journal.reads_are_slow()
    }

    fn in_memory<T>(
        &self,
        timeline: &mut Timeline,
        read: impl Fn(&Engine, &mut Timeline) -> Result<T>,
    ) -> Result<InMemory<T>> {
        let journal = &self.inner.journal;
        if !journal.reads_are_slow() {
            let read_ticks = |timeline: &Timeline| {
                timeline.part_ticks(parts::LEDGER) + timeline.part_ticks(parts::JOURNAL_READ)
            };
            let before = read_ticks(timeline);
            let answer = read(self, timeline);
            let ticks = read_ticks(timeline).saturating_sub(before);
            journal.note_if_slow(self.inner.options.clock.nanoseconds(ticks));
            return answer.map(InMemory::Here);
        }
        // What a read that ends early has noted belongs to no answer.
        let before = timeline.clone();
        let requirement = Requirement::begin();
        let answer = read(self, timeline);
        drop(requirement);
        match answer {
            Err(Error::NotInMemory) => {
                *timeline = before;
                journal.note_away();
                Ok(InMemory::Away)
            }
            answer => answer.map(InMemory::Here),
        }
    }
}

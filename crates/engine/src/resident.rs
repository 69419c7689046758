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

//! The table of open cursors: those that wait until their next batch is asked for.

use std::collections::HashMap;

use pellucid_budget::{Budget, Share};
use pellucid_clock::Clock;
use pellucid_document::{DocumentError, ErrorNumber, Result};
use pellucid_thread::Mutex;

use super::cursor::Cursor;
use super::owner::Owner;
use crate::access::Identity;

/// The most open cursors.
const CURSORS_MAX: usize = 10_000;

/// The most open cursors of one account.
const CURSORS_OF_ACCOUNT_MAX: usize = 1_000;

/// The divisor of the memory for requests that gives the limit for results of open cursors. The
/// rest is for running queries.
const CURSORS_MEMORY_PART: usize = 2;

/// The milliseconds of a monotonic clock, by which cursors expire.
pub(super) fn uptime_ms() -> u64 {
    let clock = Clock::monotonic();
    clock.nanoseconds(clock.now().0) / 1_000_000
}

/// The open cursors of a server.
pub(crate) struct Cursors {
    table: Mutex<Table>,
    /// The most bytes of the results of all open cursors together.
    bytes_max: usize,
    memory: Budget,
}

/// Cursors by their ids.
#[derive(Default)]
struct Table {
    slots: HashMap<u64, Slot>,
    /// The memory of all cursors, in bytes.
    bytes: usize,
    /// The number of cursors of each account.
    of_accounts: HashMap<String, usize>,
}

/// The slot of a cursor in the table.
struct Slot {
    /// The cursor; `None` while a call reads it.
    cursor: Option<Box<Cursor>>,
    /// Its memory when it was stored here, in bytes.
    bytes: usize,
    owner: Owner,
}

impl Table {
    fn insert(&mut self, id: u64, slot: Slot) {
        self.bytes += slot.bytes;
        if let Some(account) = slot.owner.account() {
            *self.of_accounts.entry(account.to_owned()).or_default() += 1;
        }
        if let Some(before) = self.slots.insert(id, slot) {
            self.release(&before);
        }
    }

    fn remove(&mut self, id: u64) -> Option<Slot> {
        let slot = self.slots.remove(&id)?;
        self.release(&slot);
        Some(slot)
    }

    fn release(&mut self, slot: &Slot) {
        self.bytes -= slot.bytes;
        let Some(account) = slot.owner.account() else { return };
        if let Some(count) = self.of_accounts.get_mut(account) {
            *count -= 1;
            if *count == 0 {
                self.of_accounts.remove(account);
            }
        }
    }

    /// The message that refuses a further cursor of `owner`; `None` if there is room for it.
    fn refusal(&self, owner: &Owner) -> Option<String> {
        let count = owner.account().and_then(|account| self.of_accounts.get(account));
        if count.is_some_and(|count| *count >= CURSORS_OF_ACCOUNT_MAX) {
            let most = CURSORS_OF_ACCOUNT_MAX;
            return Some(format!("{most} cursors of this account are open: read or remove some"));
        }
        (self.slots.len() >= CURSORS_MAX)
            .then(|| format!("{CURSORS_MAX} cursors are open: read or remove some of them"))
    }
}

/// The number and the memory of open cursors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CursorFigures {
    pub(crate) open: usize,
    pub(crate) bytes: usize,
}

impl Cursors {
    /// Makes an empty table. Results take their memory from `memory`.
    pub(super) fn new(memory: Budget) -> Cursors {
        let bytes_max = memory.bytes_max() / CURSORS_MEMORY_PART;
        Cursors { table: Mutex::default(), bytes_max, memory }
    }

    /// A share of the memory for a new cursor, which holds nothing yet.
    pub(super) fn memory(&self) -> Share {
        self.memory.share(self.bytes_max)
    }

    /// Stores a cursor, which is new or was taken.
    ///
    /// # Errors
    /// 32 if there are too many cursors, or their results take too much memory together. The cursor
    /// is dropped then.
    pub(super) fn keep(&self, mut cursor: Box<Cursor>) -> Result<()> {
        let settled = cursor.settle_memory();
        let bytes = cursor.size_bytes();
        let mut cursors = self.table.lock();
        let before = cursors.slots.get(&cursor.id).map(|slot| slot.bytes);
        let grows_by = bytes.saturating_sub(before.unwrap_or(0));
        let refusal = before.is_none().then(|| cursors.refusal(&cursor.owner)).flatten();
        let most = self.bytes_max;
        let error = if let Some(message) = refusal {
            DocumentError::new(ErrorNumber::RESOURCE_LIMIT, message)
        } else if grows_by > 0 && cursors.bytes.saturating_add(grows_by) > most {
            let message = format!(
                "the results of open cursors would take more than {most} bytes: read or remove \
                 some of them, or have the query streamed"
            );
            DocumentError::new(ErrorNumber::RESOURCE_LIMIT, message)
        } else if let Err(error) = settled {
            error
        } else {
            let owner = cursor.owner.clone();
            cursors.insert(cursor.id, Slot { cursor: Some(cursor), bytes, owner });
            return Ok(());
        };
        let gone = cursors.remove(cursor.id);
        drop((cursors, gone));
        Err(error)
    }

    /// Takes a cursor that `caller` owns, to read from it. The caller has to call [`Self::keep`] or
    /// [`Self::forget`] afterwards.
    ///
    /// # Errors
    /// 1600 if there is none, or it belongs to another caller; 1601 if another call reads it.
    pub(super) fn take(&self, database: u64, id: u64, caller: &Identity) -> Result<Box<Cursor>> {
        self.take_if(id, |owner, of| owner.is(caller) && of.is_none_or(|of| of == database))
    }

    /// Removes a cursor that `caller` owns, or any cursor if `caller` is an administrator.
    ///
    /// # Errors
    /// Those of [`Self::take`].
    pub(super) fn remove(&self, database: u64, id: u64, caller: &Identity) -> Result<()> {
        let yields = |owner: &Owner, of: Option<u64>| {
            owner.yields_to(caller) && of.is_none_or(|of| of == database)
        };
        let cursor = self.take_if(id, yields)?;
        self.forget(id);
        drop(cursor);
        Ok(())
    }

    /// Takes a cursor if `may_be` accepts its owner and its database. The database is `None` while
    /// another call reads the cursor.
    fn take_if(
        &self,
        id: u64,
        may_be: impl FnOnce(&Owner, Option<u64>) -> bool,
    ) -> Result<Box<Cursor>> {
        let mut cursors = self.table.lock();
        let slot = cursors.slots.get_mut(&id).ok_or(ErrorNumber::CURSOR_NOT_FOUND)?;
        let database = slot.cursor.as_ref().map(|cursor| cursor.database);
        if !may_be(&slot.owner, database) {
            return Err(ErrorNumber::CURSOR_NOT_FOUND.into());
        }
        slot.cursor.take().ok_or_else(|| ErrorNumber::CURSOR_BUSY.into())
    }

    /// Removes the slot of a cursor that was taken.
    pub(super) fn forget(&self, id: u64) {
        let gone = self.table.lock().remove(id);
        drop(gone);
    }

    /// The number and the memory of the open cursors.
    pub(crate) fn figures(&self) -> CursorFigures {
        let cursors = self.table.lock();
        CursorFigures { open: cursors.slots.len(), bytes: cursors.bytes }
    }

    /// Drops the cursors that have expired at `now_ms`.
    pub(super) fn remove_expired(&self, now_ms: u64) {
        let mut cursors = self.table.lock();
        let is_over =
            |slot: &Slot| slot.cursor.as_ref().is_some_and(|cursor| cursor.expires_at_ms <= now_ms);
        let ids: Vec<_> =
            cursors.slots.iter().filter(|(_, slot)| is_over(slot)).map(|(id, _)| *id).collect();
        let expired: Vec<_> = ids.iter().filter_map(|id| cursors.remove(*id)).collect();
        drop(cursors);
        // Results may be large, so they are freed after the lock is released.
        drop(expired);
    }
}

#[cfg(test)]
mod tests;

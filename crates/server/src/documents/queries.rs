//! Queries: those that run, and the results of those that were asked for in pieces.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use pellucid_aql::{Execution, KillSwitch};
use pellucid_clock::{Clock, Stopwatch, WallTime};
use pellucid_document::{Committed, DocumentError, ErrorNumber};
use pellucid_thread::{Mutex, MutexGuard};
use pellucid_value::Value;

/// Results that may wait for their next batch to be asked for.
const CURSORS_MAX: usize = 10_000;

/// See the module.
#[derive(Default)]
pub(crate) struct Queries {
    cursors: Mutex<HashMap<u64, Slot>>,
    running: Mutex<HashMap<u64, Arc<Running>>>,
}

/// A cursor, or that somebody is reading it.
enum Slot {
    Free(Box<Cursor>),
    Busy,
}

/// A query that runs.
pub(crate) struct Running {
    pub(crate) id: u64,
    pub(crate) database: String,
    pub(crate) query: String,
    /// The bind variables.
    pub(crate) bind_variables: Value,
    pub(crate) is_stream: bool,
    pub(crate) begun: WallTime,
    pub(crate) since: Stopwatch,
    pub(crate) kill: KillSwitch,
}

/// What is left of a result.
pub(crate) enum Rest {
    /// All of it is there.
    Ready(std::vec::IntoIter<Value>),
    /// It is computed as it is asked for.
    Stream(Box<Execution>),
}

/// A result that is given in pieces.
pub(crate) struct Cursor {
    pub(crate) id: u64,
    pub(crate) database: String,
    /// The text of the query, if its result is computed as it is asked for.
    pub(crate) text: String,
    pub(crate) rest: Rest,
    pub(crate) batch_size: usize,
    /// The number of the batch that comes next.
    pub(crate) next_batch: u64,
    /// What each batch says besides its values.
    pub(crate) trailer: Vec<u8>,
    pub(crate) ttl_ms: u64,
    pub(crate) expires_at_ms: u64,
    /// The batch that was given last, if it may be asked for again.
    pub(crate) last_batch: Option<(u64, Vec<u8>)>,
    pub(crate) may_retry: bool,
    pub(crate) is_exhausted: bool,
    /// What the query has written, whose revisions stand in the result.
    pub(crate) committed: Option<Committed>,
}

impl Queries {
    /// Takes note of a query that begins.
    pub(crate) fn begin(&self, running: Running) -> Arc<Running> {
        let running = Arc::new(running);
        self.running().insert(running.id, Arc::clone(&running));
        running
    }

    /// Takes note that a query has ended.
    pub(crate) fn end(&self, id: u64) {
        self.running().remove(&id);
    }

    /// The queries of a database that run, oldest first.
    pub(crate) fn list(&self, database: &str) -> Vec<Arc<Running>> {
        let running = self.running();
        let mut list: Vec<_> =
            running.values().filter(|query| query.database == database).cloned().collect();
        list.sort_by_key(|query| query.id);
        list
    }

    /// Ends a query soon; says whether there is one.
    pub(crate) fn kill(&self, database: &str, id: u64) -> bool {
        match self.running().get(&id).filter(|query| query.database == database) {
            Some(query) => {
                query.kill.kill();
                true
            }
            None => false,
        }
    }

    /// Keeps a cursor.
    pub(crate) fn keep(&self, cursor: Box<Cursor>) -> Result<(), DocumentError> {
        let mut cursors = self.cursors();
        if cursors.len() >= CURSORS_MAX && !cursors.contains_key(&cursor.id) {
            let message = format!("{CURSORS_MAX} cursors are open: read or remove some of them");
            return Err(DocumentError::new(ErrorNumber::RESOURCE_LIMIT, message));
        }
        cursors.insert(cursor.id, Slot::Free(cursor));
        Ok(())
    }

    /// Takes a cursor to read from it; it has to be kept again or let go of.
    pub(crate) fn take(&self, database: &str, id: u64) -> Result<Box<Cursor>, DocumentError> {
        let mut cursors = self.cursors();
        let slot = cursors.get_mut(&id).ok_or(ErrorNumber::CURSOR_NOT_FOUND)?;
        match std::mem::replace(slot, Slot::Busy) {
            Slot::Busy => Err(ErrorNumber::CURSOR_BUSY.into()),
            Slot::Free(cursor) if cursor.database == database => Ok(cursor),
            Slot::Free(cursor) => {
                *slot = Slot::Free(cursor);
                Err(ErrorNumber::CURSOR_NOT_FOUND.into())
            }
        }
    }

    /// Lets go of a cursor that was taken.
    pub(crate) fn forget(&self, id: u64) {
        self.cursors().remove(&id);
    }

    /// Frees what nobody asked for in time.
    pub(crate) fn remove_expired(&self, now_ms: u64) {
        // Freed once the lock is: a result may be large.
        let mut expired = Vec::new();
        let mut cursors = self.cursors();
        let is_over =
            |slot: &Slot| matches!(slot, Slot::Free(cursor) if cursor.expires_at_ms <= now_ms);
        let ids: Vec<_> =
            cursors.iter().filter(|(_, slot)| is_over(slot)).map(|(id, _)| *id).collect();
        expired.extend(ids.iter().filter_map(|id| cursors.remove(id)));
        drop(cursors);
    }

    fn cursors(&self) -> MutexGuard<'_, HashMap<u64, Slot>> {
        self.cursors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<u64, Arc<Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stopwatch that runs.
pub(crate) fn stopwatch() -> Stopwatch {
    Clock::system().stopwatch()
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use super::*;

    fn cursor(id: u64, expires_at_ms: u64) -> (Box<Cursor>, Weak<Vec<Value>>) {
        let values = Arc::new(vec![Value::from("a result that somebody wanted")]);
        let held = Arc::downgrade(&values);
        let cursor = Cursor {
            id,
            database: "d".to_owned(),
            text: String::new(),
            rest: Rest::Ready(vec![Value::Array(values)].into_iter()),
            batch_size: 1,
            next_batch: 1,
            trailer: Vec::new(),
            ttl_ms: 1,
            expires_at_ms,
            last_batch: None,
            may_retry: false,
            is_exhausted: false,
            committed: None,
        };
        (Box::new(cursor), held)
    }

    /// The memory of a result comes back when its time is over, and not before.
    #[test]
    fn what_nobody_asks_for_in_time_is_freed() {
        let queries = Queries::default();
        let (first, of_first) = cursor(1, 100);
        let (second, of_second) = cursor(2, 200);
        queries.keep(first).unwrap();
        queries.keep(second).unwrap();
        queries.remove_expired(99);
        assert!(of_first.upgrade().is_some());
        queries.remove_expired(150);
        assert!(of_first.upgrade().is_none() && of_second.upgrade().is_some());
        assert_eq!(queries.take("d", 1).err().map(|error| error.number.0), Some(1600));
        // One that is being read is nobody's to remove, and so is not found a second time.
        let taken = queries.take("d", 2).unwrap();
        queries.remove_expired(300);
        assert!(of_second.upgrade().is_some());
        assert_eq!(queries.take("d", 2).err().map(|error| error.number.0), Some(1601));
        queries.forget(taken.id);
        drop(taken);
        assert!(of_second.upgrade().is_none());
    }

    #[test]
    fn cursors_beyond_the_limit_are_refused() {
        let queries = Queries::default();
        for id in 0..CURSORS_MAX as u64 {
            queries.keep(cursor(id, u64::MAX).0).unwrap();
        }
        let refused = queries.keep(cursor(u64::MAX, u64::MAX).0).err();
        assert_eq!(refused.map(|error| error.number), Some(ErrorNumber::RESOURCE_LIMIT));
        // One that is there is kept again.
        let again = queries.take("d", 7).unwrap();
        queries.keep(again).unwrap();
    }
}

//! Queries: those that run, and the results of those that were asked for in pieces.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};

use pellucid_aql::{Execution, KillSwitch, Plan};
use pellucid_clock::{Clock, Stopwatch, WallTime};
use pellucid_document::{Committed, DocumentError, ErrorNumber, QueryData};
use pellucid_thread::{Mutex, MutexGuard};
use pellucid_value::Value;

/// Results that may wait for their next batch to be asked for.
const CURSORS_MAX: usize = 10_000;

/// Memory that results may take together while they wait: 1 GiB.
const CURSORS_BYTES_MAX: usize = 1 << 30;

/// What a cursor takes beside its result.
const CURSOR_BYTES: usize = 1 << 10;

/// See the module.
#[derive(Default)]
pub(crate) struct Queries {
    cursors: Mutex<Cursors>,
    running: Mutex<HashMap<u64, Arc<Running>>>,
}

/// Results that are given in pieces.
#[derive(Default)]
struct Cursors {
    slots: HashMap<u64, Slot>,
    /// What all of them take.
    bytes: usize,
}

/// The place of a cursor.
struct Slot {
    /// The cursor, unless somebody is reading it.
    cursor: Option<Box<Cursor>>,
    /// What it takes, or took when it was put here.
    bytes: usize,
}

impl Cursors {
    fn insert(&mut self, id: u64, slot: Slot) {
        self.bytes += slot.bytes;
        if let Some(before) = self.slots.insert(id, slot) {
            self.bytes -= before.bytes;
        }
    }

    fn remove(&mut self, id: u64) -> Option<Slot> {
        let slot = self.slots.remove(&id)?;
        self.bytes -= slot.bytes;
        Some(slot)
    }
}

/// What the results of cursors take that wait to be asked for, or are being read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CursorFigures {
    pub(crate) open: usize,
    pub(crate) bytes: usize,
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
    /// Who asked it.
    pub(crate) user: String,
    /// Whether it writes, once that is known.
    pub(crate) is_modification: AtomicBool,
}

/// A query in the list of those that run, until this is dropped: one whose result is streamed runs
/// until its cursor is gone.
pub(crate) struct Listed {
    queries: Arc<Queries>,
    running: Arc<Running>,
}

impl std::ops::Deref for Listed {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.queries.running().remove(&self.running.id);
    }
}

/// What is left of a result.
pub(crate) enum Rest {
    /// All of it is there, and takes so many bytes of memory.
    Ready { values: std::vec::IntoIter<Value>, bytes: usize },
    /// It is computed as it is asked for.
    Stream(Box<Streamed>),
}

/// A query whose result is computed as it is asked for, and what is told at its end.
pub(crate) struct Streamed {
    pub(crate) execution: Execution,
    pub(crate) telling: Telling,
}

/// What is told of a query beside its result.
#[derive(Clone)]
pub(crate) struct Telling {
    pub(crate) plan: Arc<Plan>,
    pub(crate) data: Arc<QueryData>,
    /// How much of where the time went.
    pub(crate) profile: i64,
    pub(crate) times: Times,
}

/// How long it took, in nanoseconds, until a query ran.
#[derive(Clone, Copy, Default)]
pub(crate) struct Times {
    /// To prepare it.
    pub(crate) initializing_ns: u64,
    /// To read its text.
    pub(crate) parsing_ns: u64,
    /// To plan it.
    pub(crate) planning_ns: u64,
    /// To make the plan ready to run.
    pub(crate) instantiating_ns: u64,
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
    /// That the query is listed, if its result is streamed.
    pub(crate) listed: Option<Listed>,
}

impl Cursor {
    /// About how many bytes of memory it takes.
    fn size_bytes(&self) -> usize {
        let rest = match &self.rest {
            Rest::Ready { bytes, .. } => *bytes,
            Rest::Stream(streamed) => streamed.execution.memory_bytes(),
        };
        let last_batch = self.last_batch.as_ref().map_or(0, |(_, body)| body.len());
        CURSOR_BYTES + rest + last_batch + self.text.len() + self.trailer.len()
    }
}

impl Queries {
    /// Takes note of a query that begins.
    pub(crate) fn begin(self: &Arc<Self>, running: Running) -> Listed {
        let running = Arc::new(running);
        self.running().insert(running.id, Arc::clone(&running));
        Listed { queries: Arc::clone(self), running }
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
    ///
    /// # Errors
    /// 32 if there are too many, or their results take too much memory together; then it is gone.
    pub(crate) fn keep(&self, cursor: Box<Cursor>) -> Result<(), DocumentError> {
        let bytes = cursor.size_bytes();
        let mut cursors = self.cursors();
        let before = cursors.slots.get(&cursor.id).map(|slot| slot.bytes);
        let is_new = before.is_none();
        let grows_by = bytes.saturating_sub(before.unwrap_or(0));
        let message = if is_new && cursors.slots.len() >= CURSORS_MAX {
            format!("{CURSORS_MAX} cursors are open: read or remove some of them")
        } else if grows_by > 0 && cursors.bytes.saturating_add(grows_by) > CURSORS_BYTES_MAX {
            format!(
                "the results of open cursors would take more than {CURSORS_BYTES_MAX} bytes: read \
                 or remove some of them, or have the query streamed"
            )
        } else {
            cursors.insert(cursor.id, Slot { cursor: Some(cursor), bytes });
            return Ok(());
        };
        let gone = cursors.remove(cursor.id);
        drop((cursors, gone));
        Err(DocumentError::new(ErrorNumber::RESOURCE_LIMIT, message))
    }

    /// Takes a cursor to read from it; it has to be kept again or let go of.
    pub(crate) fn take(&self, database: &str, id: u64) -> Result<Box<Cursor>, DocumentError> {
        let mut cursors = self.cursors();
        let slot = cursors.slots.get_mut(&id).ok_or(ErrorNumber::CURSOR_NOT_FOUND)?;
        match slot.cursor.take() {
            None => Err(ErrorNumber::CURSOR_BUSY.into()),
            Some(cursor) if cursor.database == database => Ok(cursor),
            elsewhere => {
                slot.cursor = elsewhere;
                Err(ErrorNumber::CURSOR_NOT_FOUND.into())
            }
        }
    }

    /// Lets go of a cursor that was taken.
    pub(crate) fn forget(&self, id: u64) {
        let gone = self.cursors().remove(id);
        drop(gone);
    }

    /// How many cursors there are, and what they take.
    pub(crate) fn cursor_figures(&self) -> CursorFigures {
        let cursors = self.cursors();
        CursorFigures { open: cursors.slots.len(), bytes: cursors.bytes }
    }

    /// Frees what nobody asked for in time.
    pub(crate) fn remove_expired(&self, now_ms: u64) {
        let mut cursors = self.cursors();
        let is_over =
            |slot: &Slot| slot.cursor.as_ref().is_some_and(|cursor| cursor.expires_at_ms <= now_ms);
        let ids: Vec<_> =
            cursors.slots.iter().filter(|(_, slot)| is_over(slot)).map(|(id, _)| *id).collect();
        let expired: Vec<_> = ids.iter().filter_map(|id| cursors.remove(*id)).collect();
        drop(cursors);
        // Freed once the lock is: a result may be large.
        drop(expired);
    }

    fn cursors(&self) -> MutexGuard<'_, Cursors> {
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
            rest: Rest::Ready { values: vec![Value::Array(values)].into_iter(), bytes: 1 },
            batch_size: 1,
            next_batch: 1,
            trailer: Vec::new(),
            ttl_ms: 1,
            expires_at_ms,
            last_batch: None,
            may_retry: false,
            is_exhausted: false,
            committed: None,
            listed: None,
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

    fn weigh(cursor: &mut Cursor, with: usize) {
        if let Rest::Ready { bytes, .. } = &mut cursor.rest {
            *bytes = with;
        }
    }

    /// The results of a few cursors could take all memory that there was.
    #[test]
    fn results_beyond_the_limit_of_memory_are_refused() {
        let queries = Queries::default();
        let large = |id: u64| {
            let (mut cursor, held) = cursor(id, u64::MAX);
            weigh(&mut cursor, CURSORS_BYTES_MAX / 3);
            (cursor, held)
        };
        for id in 1..=2 {
            queries.keep(large(id).0).unwrap();
        }
        let (third, of_third) = large(3);
        let refused = queries.keep(third).err();
        assert_eq!(refused.map(|error| error.number), Some(ErrorNumber::RESOURCE_LIMIT));
        assert!(of_third.upgrade().is_none());
        queries.keep(cursor(4, u64::MAX).0).unwrap();
        // Read to its end, or kept again, one takes no more than it did.
        let again = queries.take("d", 1).unwrap();
        queries.keep(again).unwrap();
        queries.forget(queries.take("d", 2).unwrap().id);
        queries.keep(large(3).0).unwrap();
        // One that grows while it is read may be too much, too.
        let mut grown = queries.take("d", 3).unwrap();
        weigh(&mut grown, CURSORS_BYTES_MAX);
        assert!(queries.keep(grown).is_err());
        assert_eq!(queries.take("d", 3).err().map(|error| error.number.0), Some(1600));
        queries.remove_expired(u64::MAX);
        let CursorFigures { open, bytes } = queries.cursor_figures();
        assert_eq!((open, bytes), (0, 0));
    }
}

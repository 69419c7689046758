//! Queries: those that run, and the results of those that were asked for in pieces.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use pellucid_aql::{Execution, KillSwitch, Plan};
use pellucid_budget::{Budget, Share};
use pellucid_clock::{Clock, Stopwatch, WallTime};
use pellucid_document::{Committed, DocumentError, ErrorNumber, QueryData};
use pellucid_thread::{Mutex, MutexGuard};
use pellucid_value::Value;

use crate::access::Identity;

use super::memory::over_budget;
use super::owner::Owner;

/// Results that may wait for their next batch to be asked for.
const CURSORS_MAX: usize = 10_000;

/// Of these, those of one account.
const CURSORS_OF_ACCOUNT_MAX: usize = 1_000;

/// Results that wait may take one part in so many of the memory for requests, so that they leave
/// room for queries that run.
const CURSORS_MEMORY_PART: usize = 2;

/// What a cursor takes beside its result.
const CURSOR_BYTES: usize = 1 << 10;

/// See the module.
pub(crate) struct Queries {
    cursors: Mutex<Cursors>,
    running: Mutex<HashMap<u64, Arc<Running>>>,
    /// Memory that results may take together while they wait.
    cursors_bytes_max: usize,
    memory: Budget,
}

/// Results that are given in pieces.
#[derive(Default)]
struct Cursors {
    slots: HashMap<u64, Slot>,
    /// What all of them take.
    bytes: usize,
    /// How many each account has.
    of_accounts: HashMap<String, usize>,
}

/// The place of a cursor.
struct Slot {
    /// The cursor, unless somebody is reading it.
    cursor: Option<Box<Cursor>>,
    /// What it takes, or took when it was put here.
    bytes: usize,
    owner: Owner,
}

impl Cursors {
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

    /// Why no further cursor of `owner` is kept, if none is.
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
    /// How long it may run.
    pub(crate) runtime_max: Option<Duration>,
    pub(crate) owner: Owner,
    /// Whether it writes, once that is known.
    pub(crate) is_modification: AtomicBool,
    /// The memory of its text and of its bind variables.
    pub(crate) _memory: Share,
}

impl Running {
    /// Other work that takes long, is listed as a query is, and writes.
    pub(crate) fn beside_queries(
        id: u64,
        database: &str,
        text: String,
        owner: Owner,
        memory: Share,
    ) -> Running {
        Running {
            id,
            database: database.to_owned(),
            query: text,
            bind_variables: Value::Object(Arc::default()),
            is_stream: false,
            begun: WallTime::now(),
            since: stopwatch(),
            kill: KillSwitch::default(),
            runtime_max: None,
            owner,
            is_modification: AtomicBool::new(true),
            _memory: memory,
        }
    }

    /// Goes on, unless the query was killed or its time is over. The time of one that is streamed
    /// is looked after where it runs.
    ///
    /// # Errors
    /// 1500.
    pub(crate) fn check(&self) -> Result<(), DocumentError> {
        let elapsed_ns = || u128::from(self.since.elapsed_ns());
        let is_over = |longest: Duration| !self.is_stream && elapsed_ns() > longest.as_nanos();
        if self.kill.is_killed() {
            return Err(ErrorNumber::QUERY_KILLED.into());
        }
        if self.runtime_max.is_some_and(is_over) {
            let message = "query killed: it ran too long";
            return Err(DocumentError::new(ErrorNumber::QUERY_KILLED, message));
        }
        Ok(())
    }
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

impl Listed {
    /// The query, for those that watch over it.
    pub(crate) fn running(&self) -> &Arc<Running> {
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
    pub(crate) owner: Owner,
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
    /// What it takes while it waits, but for what a query that runs on has taken for itself.
    pub(crate) memory: Share,
}

impl Cursor {
    /// About how many bytes of memory it takes.
    fn size_bytes(&self) -> usize {
        let of_query = match &self.rest {
            Rest::Ready { .. } => 0,
            Rest::Stream(streamed) => streamed.execution.memory_bytes(),
        };
        of_query + self.own_bytes()
    }

    /// Of these, those that no query has taken for itself.
    fn own_bytes(&self) -> usize {
        let rest = match &self.rest {
            Rest::Ready { bytes, .. } => *bytes,
            Rest::Stream(_) => 0,
        };
        let last_batch = self.last_batch.as_ref().map_or(0, |(_, body)| body.capacity());
        CURSOR_BYTES + rest + last_batch + self.text.len() + self.trailer.len()
    }

    /// Has its share hold what it takes now.
    ///
    /// # Errors
    /// 32 if there is less.
    pub(crate) fn settle_memory(&mut self) -> Result<(), DocumentError> {
        let (held, own) = (self.memory.held_bytes(), self.own_bytes());
        if own > held {
            return self.memory.take(own - held).map_err(over_budget);
        }
        self.memory.give_back(held - own);
        Ok(())
    }
}

impl Queries {
    /// No queries; their results take their memory from `memory`.
    pub(crate) fn new(memory: Budget) -> Queries {
        let cursors_bytes_max = memory.bytes_max() / CURSORS_MEMORY_PART;
        Queries { cursors: Mutex::default(), running: Mutex::default(), cursors_bytes_max, memory }
    }

    /// The memory that a cursor holds while it waits: none yet.
    pub(crate) fn cursor_memory(&self) -> Share {
        self.memory.share(self.cursors_bytes_max)
    }

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

    /// Ends a query soon.
    ///
    /// # Errors
    /// 1591 if there is none, 11 if `caller` may not.
    pub(crate) fn kill(
        &self,
        database: &str,
        id: u64,
        caller: &Identity,
    ) -> Result<(), DocumentError> {
        let running = self.running();
        let query = running.get(&id).filter(|query| query.database == database);
        let query = query.ok_or(ErrorNumber::QUERY_NOT_FOUND)?;
        if !query.owner.yields_to(caller) {
            return Err(ErrorNumber::FORBIDDEN.into());
        }
        query.kill.kill();
        Ok(())
    }

    /// Ends all queries soon.
    pub(crate) fn kill_all(&self) {
        self.running().values().for_each(|query| query.kill.kill());
    }

    /// Keeps a cursor.
    ///
    /// # Errors
    /// 32 if there are too many, or their results take too much memory together; then it is gone.
    pub(crate) fn keep(&self, mut cursor: Box<Cursor>) -> Result<(), DocumentError> {
        let settled = cursor.settle_memory();
        let bytes = cursor.size_bytes();
        let mut cursors = self.cursors();
        let before = cursors.slots.get(&cursor.id).map(|slot| slot.bytes);
        let grows_by = bytes.saturating_sub(before.unwrap_or(0));
        let refusal = before.is_none().then(|| cursors.refusal(&cursor.owner)).flatten();
        let most = self.cursors_bytes_max;
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

    /// Takes a cursor that `caller` owns to read from it; it has to be kept again or let go of.
    ///
    /// # Errors
    /// 1600 if there is none, or it is another one's; 1601 if it is being read.
    pub(crate) fn take(
        &self,
        database: &str,
        id: u64,
        caller: &Identity,
    ) -> Result<Box<Cursor>, DocumentError> {
        self.take_if(id, |owner, of| owner.is(caller) && of.is_none_or(|of| of == database))
    }

    /// Removes a cursor that `caller` owns, or any if it is an administrator.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub(crate) fn remove(
        &self,
        database: &str,
        id: u64,
        caller: &Identity,
    ) -> Result<(), DocumentError> {
        let yields = |owner: &Owner, of: Option<&str>| {
            owner.yields_to(caller) && of.is_none_or(|of| of == database)
        };
        let cursor = self.take_if(id, yields)?;
        self.forget(id);
        drop(cursor);
        Ok(())
    }

    /// Takes a cursor if it may be, by its owner and, unless it is being read, its database.
    fn take_if(
        &self,
        id: u64,
        may_be: impl FnOnce(&Owner, Option<&str>) -> bool,
    ) -> Result<Box<Cursor>, DocumentError> {
        let mut cursors = self.cursors();
        let slot = cursors.slots.get_mut(&id).ok_or(ErrorNumber::CURSOR_NOT_FOUND)?;
        let database = slot.cursor.as_deref().map(|cursor| &*cursor.database);
        if !may_be(&slot.owner, database) {
            return Err(ErrorNumber::CURSOR_NOT_FOUND.into());
        }
        slot.cursor.take().ok_or_else(|| ErrorNumber::CURSOR_BUSY.into())
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
mod tests;

//! The list of running queries, and of other long work that is listed and can be killed as well.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pellucid_aql::KillSwitch;
use pellucid_budget::Share;
use pellucid_clock::{Clock, Stopwatch, WallTime};
use pellucid_document::{DocumentError, ErrorNumber, Result};
use pellucid_thread::Mutex;
use pellucid_value::Value;

use super::owner::Owner;
use crate::access::Identity;

/// A running query, or other long work.
pub(crate) struct RunningQuery {
    pub(crate) id: u64,
    pub(crate) database: String,
    pub(crate) query: String,
    /// The bind variables.
    pub(crate) bind_variables: Value,
    pub(crate) is_stream: bool,
    pub(crate) begun: WallTime,
    pub(crate) since: Stopwatch,
    pub(crate) kill: KillSwitch,
    /// The longest time that it may run.
    pub(crate) runtime_max: Option<Duration>,
    pub(crate) owner: Owner,
    /// True once it is known that it writes.
    pub(crate) is_modification: AtomicBool,
    /// The memory of its text and of its bind variables.
    pub(crate) _memory: Share,
}

impl RunningQuery {
    /// Makes the entry of long work that is no query, but writes.
    pub(crate) fn beside_queries(
        id: u64,
        database: &str,
        text: String,
        owner: Owner,
        memory: Share,
    ) -> RunningQuery {
        RunningQuery {
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

    /// True if it runs in this database; `None` stands for any.
    fn is_of(&self, database: Option<&str>) -> bool {
        database.is_none_or(|name| self.database == name)
    }

    /// Checks that the query was not killed and that its time limit is not exceeded. The time limit
    /// of a streamed query is checked by its execution instead.
    ///
    /// # Errors
    /// 1500 if it was killed or has run for too long.
    pub(crate) fn check(&self) -> Result<()> {
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

/// The place of a query in the list of running queries, until this is dropped. A streamed query is
/// listed until its cursor is gone.
pub(crate) struct QueryRegistration {
    queries: Arc<RunningQueries>,
    running: Arc<RunningQuery>,
}

impl std::ops::Deref for QueryRegistration {
    type Target = RunningQuery;

    fn deref(&self) -> &RunningQuery {
        &self.running
    }
}

impl QueryRegistration {
    /// The query.
    pub(crate) fn running(&self) -> &Arc<RunningQuery> {
        &self.running
    }
}

impl Drop for QueryRegistration {
    fn drop(&mut self) {
        self.queries.by_id.lock().remove(&self.running.id);
    }
}

/// The numbers of queries that are reserved for each millisecond of a server's time.
const IDS_PER_MS: u64 = 1 << 20;

/// The list of running queries.
pub(crate) struct RunningQueries {
    by_id: Mutex<HashMap<u64, Arc<RunningQuery>>>,
    next_id: AtomicU64,
}

impl Default for RunningQueries {
    /// The numbers begin at the time of day, so that a client does not read the cursor of another
    /// one after a restart. They need no write, so that a full disk is read as well.
    fn default() -> RunningQueries {
        let next_id = AtomicU64::new(WallTime::now().unix_ms() * IDS_PER_MS);
        RunningQueries { by_id: Mutex::default(), next_id }
    }
}

impl RunningQueries {
    /// A number for a query and its cursor.
    pub(super) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a query to the list.
    pub(super) fn begin(self: &Arc<Self>, running: RunningQuery) -> QueryRegistration {
        let running = Arc::new(running);
        self.by_id.lock().insert(running.id, Arc::clone(&running));
        QueryRegistration { queries: Arc::clone(self), running }
    }

    /// The running queries of a database, or of all, oldest first.
    pub(super) fn list(&self, database: Option<&str>) -> Vec<Arc<RunningQuery>> {
        let running = self.by_id.lock();
        let mut list: Vec<_> =
            running.values().filter(|query| query.is_of(database)).cloned().collect();
        list.sort_by_key(|query| query.id);
        list
    }

    /// Kills a query of a database, or of any: it ends soon after.
    ///
    /// # Errors
    /// 1591 if there is none, 11 if `caller` may not kill it.
    pub(super) fn kill(&self, database: Option<&str>, id: u64, caller: &Identity) -> Result<()> {
        let running = self.by_id.lock();
        let query = running.get(&id).filter(|query| query.is_of(database));
        let query = query.ok_or(ErrorNumber::QUERY_NOT_FOUND)?;
        if !query.owner.yields_to(caller) {
            return Err(ErrorNumber::FORBIDDEN.into());
        }
        query.kill.kill();
        Ok(())
    }

    /// Kills all queries.
    pub(super) fn kill_all(&self) {
        self.by_id.lock().values().for_each(|query| query.kill.kill());
    }
}

/// Starts a stopwatch.
pub(super) fn stopwatch() -> Stopwatch {
    Clock::system().stopwatch()
}

//! The state of a running query: its data, limits, warnings and counts.

use std::sync::Arc;

use pellucid_budget::Share;
use pellucid_clock::Stopwatch;
use pellucid_io::{Random, SeededRandom};
use pellucid_value::Value;

use crate::memory::QueryMemory;
use crate::query_timer::QueryTimer;
use crate::regex_cache::RegexCache;
use crate::{
    KillSwitch, QueryError, QueryOptions, Result, Source, WARNINGS_MAX, WriteBatch, number,
};

/// The number of rows between two checks of whether the query has to end.
const CHECK_ROWS: u32 = 256;
/// The most documents that a light query may read.
pub(crate) const LIGHT_DOCUMENTS_MAX: u64 = 256;
/// The most bytes of documents that a light query may read.
pub(crate) const LIGHT_BYTES_MAX: usize = 256 << 10;
/// The most documents that one query may write.
pub const WRITES_MAX: u64 = 4_000_000;

/// A warning of a query, which does not end it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// One of [`number`].
    pub number: u16,
    /// The message.
    pub message: String,
}

/// The counts of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Documents written.
    pub writes_executed: u64,
    /// Writes that failed or did nothing, as their options allow.
    pub writes_ignored: u64,
    /// Documents looked up by key.
    pub document_lookups: u64,
    /// Ranges of indexes looked up.
    pub seeks: u64,
    /// Documents read by scans of collections.
    pub scanned_full: u64,
    /// Entries read from indexes.
    pub scanned_index: u64,
    /// Scans begun.
    pub cursors_created: u64,
    /// Rows that filters left out.
    pub filtered: u64,
    /// Rows before the last `LIMIT`, if the options ask for it.
    pub full_count: Option<u64>,
    /// The most memory that the query took, in bytes.
    pub peak_memory_bytes: usize,
}

/// The state of a running query.
pub(crate) struct QueryRun {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) options: QueryOptions,
    pub(crate) kill: KillSwitch,
    pub(crate) timing: QueryTimer,
    pub(crate) memory: QueryMemory,
    pub(crate) stats: Stats,
    pub(crate) warnings: Vec<Warning>,
    /// The values of `CURRENT`, the innermost last.
    pub(crate) locals: Vec<Value>,
    /// The batch of writes, which the first write begins.
    pub(crate) writes: Option<Box<dyn WriteBatch>>,
    /// The time of the query, the same for its whole run, in milliseconds since the Unix epoch.
    pub(crate) now_ms: i64,
    random: SeededRandom,
    pub(crate) regexes: RegexCache,
    /// The bytes of documents that it has copied, or of parts of them.
    pub(crate) bytes_seen: usize,
    until_check: u32,
    /// The number of nested subqueries that are running.
    pub(crate) depth: usize,
}

impl QueryRun {
    pub(crate) fn new(source: Arc<dyn Source>, options: QueryOptions, kill: KillSwitch) -> Self {
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let since_1970 = since_1970.unwrap_or_default();
        let now_ms = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
        Self {
            timing: QueryTimer::new(kill.planning_ns()),
            memory: QueryMemory::new(options.share(), kill.clone()),
            source,
            options,
            kill,
            stats: Stats::default(),
            warnings: Vec::new(),
            locals: Vec::new(),
            writes: None,
            now_ms,
            random: SeededRandom::new(seed()),
            regexes: RegexCache::default(),
            bytes_seen: 0,
            until_check: CHECK_ROWS,
            depth: 0,
        }
    }

    /// Ends the planning; returns its warnings, and the memory of the plan.
    pub(crate) fn into_parts(self) -> (Vec<Warning>, Share) {
        self.kill.note_planning(self.timing.elapsed_ns());
        (self.warnings, self.memory.into_share())
    }

    /// Adds a warning.
    ///
    /// # Errors
    /// The warning itself, if the options make it an error; 32 without memory for it.
    pub(crate) fn warn(&mut self, number: u16, message: impl Into<String>) -> Result<()> {
        let message = message.into();
        if self.options.fail_on_warning {
            return Err(QueryError::new(number, message));
        }
        if self.warnings.len() < self.options.warnings_max.min(WARNINGS_MAX) {
            self.memory.take_lasting(size_of::<Warning>() + message.capacity())?;
            self.warnings.push(Warning { number, message });
            self.kill.note_warnings(self.warnings.len());
        }
        Ok(())
    }

    /// As [`warn`](Self::warn); returns null as the result of the expression.
    pub(crate) fn warn_null(&mut self, number: u16, message: impl Into<String>) -> Result<Value> {
        self.warn(number, message).map(|()| Value::Null)
    }

    /// Checks, once in a while, that the query was not killed and does not take too long. It is
    /// called for each row.
    ///
    /// # Errors
    /// 1500 if it was killed or takes too long, and `NotLight` if a light query reads too much.
    pub(crate) fn tick(&mut self) -> Result<()> {
        self.until_check -= 1;
        if self.until_check == 0 {
            self.until_check = CHECK_ROWS;
            return self.check();
        }
        Ok(())
    }

    /// As [`tick`](Self::tick), for `steps` steps at once.
    pub(crate) fn tick_by(&mut self, steps: usize) -> Result<()> {
        match u32::try_from(steps) {
            Ok(steps) if steps < self.until_check => {
                self.until_check -= steps;
                Ok(())
            }
            _ => {
                self.until_check = CHECK_ROWS;
                self.check()
            }
        }
    }

    /// As [`tick`](Self::tick), but checks immediately.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_killed()?;
        if self.is_too_heavy() {
            return Err(QueryError::NotLight);
        }
        let Some(longest) = self.options.runtime_max else { return Ok(()) };
        if u128::from(self.timing.elapsed_with_planning_ns()) > longest.as_nanos() {
            return Err(QueryError::new(number::KILLED, "query killed: it ran too long"));
        }
        Ok(())
    }

    /// True if it is a light query, and has read more than such a query may.
    pub(crate) fn is_too_heavy(&self) -> bool {
        let is_long =
            self.stats.scanned_index > LIGHT_DOCUMENTS_MAX || self.bytes_seen > LIGHT_BYTES_MAX;
        is_long && self.options.is_light
    }

    /// Checks that the query was not killed.
    pub(crate) fn check_killed(&self) -> Result<()> {
        if self.kill.is_killed() {
            return Err(QueryError::new(number::KILLED, "query killed"));
        }
        Ok(())
    }

    /// A stopwatch for a node of the plan, if nodes are timed. Nodes of subqueries are not.
    pub(crate) fn stopwatch_of_node(&self) -> Option<Stopwatch> {
        (self.options.profile && self.depth == 0).then(|| self.timing.stopwatch())
    }

    /// A random number.
    pub(crate) fn random(&mut self) -> u64 {
        self.random.next_u64()
    }
}

/// A seed that differs from query to query, from the standard library's random state.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

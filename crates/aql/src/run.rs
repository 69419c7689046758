//! The state of a query that runs: its data, its limits, its warnings, and its counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use pellucid_budget::{Budget, OverBudget, Share};
use pellucid_clock::{Clock, Stopwatch};
use pellucid_value::Value;

use crate::evaluate::Regexes;
use crate::{QueryError, Source, WriteBatch, number};

/// The number of rows that are computed between two looks at whether the query should end.
const CHECK_ROWS: u32 = 256;
/// The number of documents that a light query may read.
pub(crate) const LIGHT_DOCUMENTS_MAX: u64 = 256;
/// The number of bytes that of documents a light query may read.
pub(crate) const LIGHT_BYTES_MAX: usize = 256 << 10;
/// The number of documents that one query may write.
pub const WRITES_MAX: u64 = 4_000_000;
/// From how many bytes on a batch of rows is not added to: this, or a share of the query's memory.
const BATCH_BYTES_MAX: usize = 16 << 20;
/// The number of batches, one for each loop, that should fit into the memory of a query.
const BATCHES_USUAL: usize = 16;
/// The number of warnings that one query keeps, whatever its options say.
pub const WARNINGS_MAX: usize = 10_000;

/// The limits of a query.
#[derive(Clone, Debug)]
pub struct QueryOptions {
    /// The memory of all queries and requests together.
    pub budget: Budget,
    /// The most of that that it may take, in bytes; 0 is as much as there is.
    pub memory_bytes_max: usize,
    /// The longest time for planning and running it, where both have the same [`KillSwitch`]; the
    /// time in which nobody asks for more of its result does not count.
    pub runtime_max: Option<Duration>,
    /// The number of warnings that are kept, up to [`WARNINGS_MAX`].
    pub warnings_max: usize,
    /// True if the first warning is an error.
    pub fail_on_warning: bool,
    /// True if rows are counted that the last `LIMIT` leaves out.
    pub full_count: bool,
    /// True if each node of the plan is timed.
    pub profile: bool,
    /// True if it gives up ([`number::NOT_LIGHT`]) once it has read more than a thread should that
    /// must not be held up. For plans that say that they are light.
    pub is_light: bool,
}

impl QueryOptions {
    /// A share of all memory, with the bound of the query.
    pub(crate) fn share(&self) -> Share {
        self.budget.share(match self.memory_bytes_max {
            0 => usize::MAX,
            most => most,
        })
    }
}

impl Default for QueryOptions {
    fn default() -> Self {
        Self {
            budget: Budget::unbounded(),
            memory_bytes_max: 0,
            runtime_max: None,
            warnings_max: 10,
            fail_on_warning: false,
            full_count: false,
            profile: false,
            is_light: false,
        }
    }
}

/// Ends a query from elsewhere, and tells elsewhere how it is doing.
#[derive(Clone, Debug, Default)]
pub struct KillSwitch(Arc<Watched>);

/// The state of a query that is seen from elsewhere.
#[derive(Debug, Default)]
struct Watched {
    is_killed: AtomicBool,
    peak_memory_bytes: AtomicUsize,
    warnings: AtomicUsize,
    /// Nanoseconds for which it was planned.
    planning_ns: AtomicU64,
}

impl KillSwitch {
    /// Ends the query soon.
    pub fn kill(&self) {
        self.0.is_killed.store(true, Ordering::Relaxed);
    }

    /// The most memory that its rows took so far, in bytes.
    #[must_use]
    pub fn peak_memory_bytes(&self) -> usize {
        self.0.peak_memory_bytes.load(Ordering::Relaxed)
    }

    /// The number of warnings that there are so far.
    #[must_use]
    pub fn warnings(&self) -> usize {
        self.0.warnings.load(Ordering::Relaxed)
    }

    /// True if the query should end.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.0.is_killed.load(Ordering::Relaxed)
    }
}

/// Something odd that did not end the query.
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
    /// Ranges of indexes looked at.
    pub seeks: u64,
    /// Documents read by scans of collections.
    pub scanned_full: u64,
    /// Entries read from indexes.
    pub scanned_index: u64,
    /// Scans begun.
    pub cursors_created: u64,
    /// Rows that filters left out.
    pub filtered: u64,
    /// Rows before the last `LIMIT`, if they were asked for.
    pub full_count: Option<u64>,
    /// The most memory that rows took.
    pub peak_memory_bytes: usize,
}

/// A query that runs.
pub(crate) struct Run {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) options: QueryOptions,
    pub(crate) kill: KillSwitch,
    pub(crate) clock: Clock,
    pub(crate) begun: Stopwatch,
    /// Nanoseconds before then in which it was planned.
    planning_ns: u64,
    /// Nanoseconds since then in which nobody asked for more of the result.
    pub(crate) idle_ns: u64,
    pub(crate) stats: Stats,
    pub(crate) warnings: Vec<Warning>,
    /// The values of `CURRENT`, the innermost last.
    pub(crate) locals: Vec<Value>,
    /// Begun by the first write.
    pub(crate) writes: Option<Box<dyn WriteBatch>>,
    /// Milliseconds since 1970, the same for the whole query.
    pub(crate) now_ms: i64,
    pub(crate) random: u64,
    pub(crate) regexes: Regexes,
    /// Bytes of documents that it has read.
    pub(crate) bytes_seen: usize,
    share: Share,
    /// The part of the share that goes back only when the query ends.
    lasting_bytes: usize,
    /// The part of the share for the rows that a node is about to give.
    pub(crate) batch_bytes: usize,
    /// From how many of them on no row is added.
    batch_bytes_max: usize,
    until_check: u32,
    /// Subqueries that lie in each other.
    pub(crate) depth: usize,
}

impl Run {
    pub(crate) fn new(source: Arc<dyn Source>, options: QueryOptions, kill: KillSwitch) -> Self {
        let clock = Clock::system();
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let since_1970 = since_1970.unwrap_or_default();
        let now_ms = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
        let share = options.share();
        let batch_bytes_max = (share.bytes_max() / BATCHES_USUAL).min(BATCH_BYTES_MAX);
        let planning_ns = kill.0.planning_ns.load(Ordering::Relaxed);
        Self {
            source,
            options,
            kill,
            planning_ns,
            clock,
            begun: clock.stopwatch(),
            idle_ns: 0,
            stats: Stats::default(),
            warnings: Vec::new(),
            locals: Vec::new(),
            writes: None,
            now_ms,
            random: seed(),
            regexes: Regexes::default(),
            bytes_seen: 0,
            share,
            lasting_bytes: 0,
            batch_bytes: 0,
            batch_bytes_max,
            until_check: CHECK_ROWS,
            depth: 0,
        }
    }

    /// The warnings of planning, and the memory that it took.
    pub(crate) fn into_parts(self) -> (Vec<Warning>, Share) {
        self.kill.0.planning_ns.store(self.elapsed_ns(), Ordering::Relaxed);
        (self.warnings, self.share)
    }

    /// Takes note of something odd.
    pub(crate) fn warn(
        &mut self,
        number: u16,
        message: impl Into<String>,
    ) -> Result<(), QueryError> {
        let message = message.into();
        if self.options.fail_on_warning {
            return Err(QueryError::new(number, message));
        }
        if self.warnings.len() < self.options.warnings_max.min(WARNINGS_MAX) {
            self.take_lasting_memory(size_of::<Warning>() + message.capacity())?;
            self.warnings.push(Warning { number, message });
            self.kill.0.warnings.store(self.warnings.len(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Takes note of something odd, of which null is the result.
    pub(crate) fn warn_null(
        &mut self,
        number: u16,
        message: impl Into<String>,
    ) -> Result<Value, QueryError> {
        self.warn(number, message).map(|()| Value::Null)
    }

    /// Ends the query if it was killed or takes too long; to be called for each row.
    pub(crate) fn tick(&mut self) -> Result<(), QueryError> {
        self.until_check -= 1;
        if self.until_check == 0 {
            self.until_check = CHECK_ROWS;
            return self.check();
        }
        Ok(())
    }

    /// As [`tick`](Self::tick), for so many steps.
    pub(crate) fn tick_by(&mut self, steps: usize) -> Result<(), QueryError> {
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

    /// As [`tick`](Self::tick), at once.
    pub(crate) fn check(&self) -> Result<(), QueryError> {
        self.check_killed()?;
        let is_long =
            self.stats.scanned_index > LIGHT_DOCUMENTS_MAX || self.bytes_seen > LIGHT_BYTES_MAX;
        if is_long && self.options.is_light {
            return Err(QueryError::new(number::NOT_LIGHT, "query reads more than it should here"));
        }
        let Some(longest) = self.options.runtime_max else { return Ok(()) };
        let spent_ns = self.planning_ns.saturating_add(self.elapsed_ns());
        if u128::from(spent_ns) > longest.as_nanos() {
            return Err(QueryError::new(number::KILLED, "query killed: it ran too long"));
        }
        Ok(())
    }

    /// Nanoseconds for which it has run.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.begun.elapsed_ns().saturating_sub(self.idle_ns)
    }

    /// Ends the query if it was killed.
    pub(crate) fn check_killed(&self) -> Result<(), QueryError> {
        if self.kill.is_killed() {
            return Err(QueryError::new(number::KILLED, "query killed"));
        }
        Ok(())
    }

    /// A stopwatch for a node of the plan, if its nodes are timed; those of subqueries are not.
    pub(crate) fn stopwatch_of_node(&self) -> Option<Stopwatch> {
        (self.options.profile && self.depth == 0).then(|| self.clock.stopwatch())
    }

    /// Takes memory, before it is allocated.
    pub(crate) fn take_memory(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.share.take(bytes).map_err(over_budget)?;
        let peak_bytes = self.share.peak_bytes();
        if peak_bytes > self.stats.peak_memory_bytes {
            self.stats.peak_memory_bytes = peak_bytes;
            self.kill.0.peak_memory_bytes.store(peak_bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// As [`Self::take_memory`], for what stays until the query ends.
    pub(crate) fn take_lasting_memory(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.take_memory(bytes)?;
        self.lasting_bytes += bytes;
        Ok(())
    }

    /// As [`Self::take_memory`], for rows that a node is about to give: they count until it is
    /// asked for others.
    pub(crate) fn take_for_batch(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.take_memory(bytes)?;
        self.batch_bytes += bytes;
        Ok(())
    }

    /// Takes note of a row that is not given after all.
    pub(crate) fn free_of_batch(&mut self, bytes: usize) {
        self.batch_bytes = self.batch_bytes.saturating_sub(bytes);
        self.free_memory(bytes);
    }

    /// True if a batch should not be added to: large rows come in smaller batches.
    pub(crate) fn is_batch_full(&self) -> bool {
        self.batch_bytes >= self.batch_bytes_max
    }

    /// Bytes of memory that are taken now.
    pub(crate) fn held_bytes(&self) -> usize {
        self.share.held_bytes()
    }

    /// Those of them that may be free again before the query ends.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.share.held_bytes() - self.lasting_bytes
    }

    /// Takes note that all memory is free again that was taken since there were so many bytes of
    /// it.
    pub(crate) fn free_memory_down_to(&mut self, bytes: usize) {
        self.share.give_back(self.memory_bytes().saturating_sub(bytes));
    }

    /// Takes note of memory that is free again.
    pub(crate) fn free_memory(&mut self, bytes: usize) {
        self.share.give_back(bytes.min(self.memory_bytes()));
    }

    /// A random number (xorshift; Marsaglia 2003).
    pub(crate) fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

pub(crate) fn over_budget(over: OverBudget) -> QueryError {
    let message = match over {
        OverBudget::Share { .. } => "query would use more memory than allowed".to_owned(),
        OverBudget::Server { .. } => over.to_string(),
    };
    QueryError::new(number::RESOURCE_LIMIT, message)
}

/// Something that differs from query to query: the standard library's own random state.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() | 1
}

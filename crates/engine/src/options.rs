//! The settings of an engine.

use std::ops::RangeInclusive;
use std::sync::Arc;

use pellucid_account::Activity;
use pellucid_clock::Clock;
use pellucid_io::{FileSystem, SystemFileSystem};

use crate::budget::{MEMORY_MIN_BYTES, Shares};
use crate::codec::VALUE_LENGTH_HARD_MAX;
use crate::error::{Error, Result};
use crate::journal::DeadSpaceLimit;
use crate::ledger::LedgerOptions;
use crate::metadata_extractor::{MetadataExtractor, check_extractors};
use crate::prefix::{PrefixRule, STEM_RULES_MAX};
use crate::rules::TableRules;

/// The smallest segment, in bytes: it has room for a header, a record with the longest key, and a
/// footer.
pub(crate) const SEGMENT_SIZE_MIN_BYTES: u64 = 4 << 10;
/// The largest segment, in bytes: offsets are stored as 4 bytes that count units of 8 bytes.
pub(crate) const SEGMENT_SIZE_MAX_BYTES: u64 = 16 << 30;
/// The largest [`EngineOptions::batch_size_max_bytes`]: half a segment, 8 GiB.
pub const BATCH_SIZE_HARD_MAX: usize = (SEGMENT_SIZE_MAX_BYTES / 2) as usize;
/// The allowed values of [`EngineOptions::dead_share`]. Below this range nearly all bytes that are
/// written would be copies; above it the bound on the journal's dead bytes would trigger collection
/// first.
pub const DEAD_SHARES: RangeInclusive<f64> = 0.1..=0.6;
/// The dead share of the whole journal, relative to the dead share from which on a segment is
/// collected, if all keys are overwritten at random: a third of the journal for segments of 0.55.
const DEAD_OF_COLLECTED: f64 = 0.6;

/// The moment at which a write counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Acknowledgement {
    /// The write is visible to readers. The journal is written through memory maps, so this costs
    /// and guarantees the same as [`Acknowledgement::Os`].
    Memory,
    /// The write is in the memory of the operating system: it survives a crash of the process, but
    /// not of the machine.
    #[default]
    Os,
    /// The write is on the medium: it survives a crash of the machine.
    Disk,
}

/// The settings of an engine.
///
/// ```
/// use pellucid_engine::EngineOptions;
///
/// let options = EngineOptions { memory_bytes: 64 << 20, ..EngineOptions::default() };
/// assert!(options.background);
/// ```
#[derive(Clone)]
pub struct EngineOptions {
    /// The largest size of a journal segment, in bytes. A small journal has smaller segments. A
    /// batch that is larger gets a segment of its own size.
    pub segment_size_bytes: u64,
    /// The budget for all memory that grows with the data, in bytes, at least 64 KiB: memtables,
    /// the parts of tables that are held for quick reads, and the memory of background work. The
    /// engine divides it ([`crate::MemoryFigures`]) and keeps within it. The page cache of the
    /// operating system does not count, nor does a fixed overhead of some hundred KiB.
    pub memory_bytes: u64,
    /// The longest value, in bytes, up to [`VALUE_LENGTH_HARD_MAX`].
    pub value_length_max: usize,
    /// The largest number of entries of a batch.
    pub batch_entries_max: usize,
    /// The largest size of a batch in the journal, in bytes.
    pub batch_size_max_bytes: usize,
    /// The size of the newest sealed segments that the engine does not collect by itself, in bytes,
    /// so that [`crate::Engine::changes`] can begin that far back. [`crate::Engine::collect`]
    /// collects them all the same.
    pub kept_changes_bytes: u64,
    /// The share of dead bytes from which on the engine collects a journal segment by itself, in
    /// [`DEAD_SHARES`]. A smaller share takes less space and copies more: if all keys are
    /// overwritten at random, each byte that is freed costs `(1 - share) / share` bytes of copying.
    pub dead_share: f64,
    /// True if the engine has threads of its own that flush, merge, sync and prepare segments. If
    /// false, the calling threads do this work, so that every run is deterministic.
    pub background: bool,
    /// The file system.
    pub file_system: Arc<dyn FileSystem>,
    /// The clock for dates, expiry and the times of syncs.
    pub clock: Clock,
    /// The metadata extractors that tables may name to have their heads derived
    /// ([`crate::TableOptions::metadata_extractor`]).
    pub metadata_extractors: Vec<Arc<dyn MetadataExtractor>>,
    /// The rules that give the keys of some tables a prefix, at most four of them.
    pub prefix_rules: Vec<PrefixRule>,
    /// The seed of a new store's identity, for deterministic runs; `None` for a random identity.
    pub identity_seed: Option<u64>,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            segment_size_bytes: 64 << 20,
            memory_bytes: 128 << 20,
            value_length_max: 64 << 20,
            batch_entries_max: 1 << 16,
            batch_size_max_bytes: 128 << 20,
            kept_changes_bytes: 0,
            dead_share: 0.55,
            background: true,
            file_system: Arc::new(SystemFileSystem),
            clock: Clock::system(),
            metadata_extractors: Vec::new(),
            prefix_rules: Vec::new(),
            identity_seed: None,
        }
    }
}

impl std::fmt::Debug for EngineOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineOptions")
            .field("segment_size_bytes", &self.segment_size_bytes)
            .field("memory_bytes", &self.memory_bytes)
            .field("value_length_max", &self.value_length_max)
            .field("batch_entries_max", &self.batch_entries_max)
            .field("batch_size_max_bytes", &self.batch_size_max_bytes)
            .field("kept_changes_bytes", &self.kept_changes_bytes)
            .field("dead_share", &self.dead_share)
            .field("background", &self.background)
            .finish_non_exhaustive()
    }
}

impl EngineOptions {
    /// Refuses invalid settings.
    pub(crate) fn check(&self) -> Result<()> {
        check_extractors(&self.metadata_extractors)?;
        let sizes = SEGMENT_SIZE_MIN_BYTES..=SEGMENT_SIZE_MAX_BYTES;
        let what = if !sizes.contains(&self.segment_size_bytes) {
            format!("segment_size_bytes is not in {sizes:?}")
        } else if self.memory_bytes < MEMORY_MIN_BYTES {
            format!("memory_bytes is below {MEMORY_MIN_BYTES}")
        } else if !DEAD_SHARES.contains(&self.dead_share) {
            format!("dead_share is not in {DEAD_SHARES:?}")
        } else if self.value_length_max > VALUE_LENGTH_HARD_MAX {
            format!("value_length_max is above {VALUE_LENGTH_HARD_MAX}")
        } else if self.batch_entries_max == 0 || self.batch_entries_max > u32::MAX as usize {
            "batch_entries_max is zero or above 32 bits".to_owned()
        } else if self.prefix_rules.len() > STEM_RULES_MAX {
            format!("there are more than {STEM_RULES_MAX} prefix_rules")
        } else if self.batch_size_max_bytes > BATCH_SIZE_HARD_MAX {
            format!("batch_size_max_bytes is above {BATCH_SIZE_HARD_MAX}")
        } else {
            return Ok(());
        };
        Err(Error::Option { what })
    }

    /// The limits of batches.
    pub(crate) fn write_limits(&self) -> WriteLimits {
        WriteLimits {
            value_length_max: self.value_length_max,
            batch_entries_max: self.batch_entries_max,
            batch_size_max_bytes: self.batch_size_max_bytes,
            batch_memory_max_bytes: self.shares().batch_memory_max_bytes(),
            unsealed_max_bytes: self.shares().unsealed_max_bytes(),
        }
    }

    /// The dead bytes that the journal may have before writers are slowed down for the collector.
    pub(crate) fn dead_bound(&self) -> DeadSpaceLimit {
        let known_late_bytes = self.shares().dead_allowance_bytes();
        DeadSpaceLimit {
            share: self.dead_share * DEAD_OF_COLLECTED,
            allowance_bytes: known_late_bytes.saturating_add(self.kept_changes_bytes),
        }
    }

    /// The division of the memory budget.
    pub(crate) fn shares(&self) -> Shares {
        Shares::of(self.memory_bytes)
    }

    /// The options of the ledger, with its shares of the memory.
    pub(crate) fn ledger_options(
        &self,
        rules: &Arc<TableRules>,
        activity: &Activity,
    ) -> LedgerOptions {
        let shares = self.shares();
        let processors = std::thread::available_parallelism();
        LedgerOptions {
            memtable_size_bytes: shares.memtable_size_bytes(),
            sealed_memtables_max: (shares.memtables_max() - 1) as usize,
            table_size_bytes: shares.table_size_bytes(),
            tables_memory_bytes: shares.tables_bytes,
            job_memory_bytes: shares.jobs_bytes,
            background: self.background,
            merges_in_parts: self.background && processors.is_ok_and(|many| many.get() > 1),
            clock: self.clock,
            rules: Arc::clone(rules),
            knows_prefixes: !self.prefix_rules.is_empty(),
            activity: activity.clone(),
            ..LedgerOptions::default()
        }
    }
}

/// The limits of batches.
pub(crate) struct WriteLimits {
    pub(crate) value_length_max: usize,
    batch_entries_max: usize,
    batch_size_max_bytes: usize,
    /// The most memory that the entries of a batch may take in a memtable.
    pub(crate) batch_memory_max_bytes: u64,
    /// Bytes of the journal at which the memtable that covers them is sealed, however small the
    /// memtable is: records that it overwrites keep their space on the disk until its flush.
    pub(crate) unsealed_max_bytes: u64,
}

impl WriteLimits {
    /// Refuses a batch that has too many entries or too many bytes in the journal, or no entry.
    pub(crate) fn check_batch(&self, entries: usize, size_bytes: u64) -> Result<()> {
        let fits = size_bytes <= self.batch_size_max_bytes as u64;
        if entries == 0 || entries > self.batch_entries_max || !fits {
            return Err(Error::BatchSize {
                entries,
                size_bytes: usize::try_from(size_bytes).unwrap_or(usize::MAX),
                entries_limit: self.batch_entries_max,
                size_limit_bytes: self.batch_size_max_bytes,
            });
        }
        Ok(())
    }
}

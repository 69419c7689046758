//! The embedded store: a journal of records and a ledger of keys.
//!
//! Every write goes, once, into the **journal**: append-only segments of records that are found by
//! their sequence number. The **ledger** is an LSM tree that maps a key to its sequence number,
//! head and lengths. A GET asks the ledger and then reads one record; a HEAD, a test for existence
//! and a scan of keys never touch the journal. The ledger points to a record by its sequence
//! number, never by its file and offset. So garbage collection of the journal never writes the
//! ledger, and the ledger can be rebuilt from the journal.
//!
//! Calls whose names end in `_timed` record how long each of their [`parts`] took, in a
//! [`pellucid_account::Timeline`].
//!
//! ```
//! use pellucid_engine::{Acknowledgement, Engine, EngineOptions};
//!
//! # fn main() -> pellucid_engine::Result<()> {
//! # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
//! # let options = EngineOptions { file_system: files, ..EngineOptions::default() };
//! let engine = Engine::open("/var/lib/example", options)?;
//! let fruit = engine.table("fruit")?;
//! engine.put(fruit, b"apple", b"red")?;
//! let object = engine.get(fruit, b"apple")?.expect("it was put");
//! assert_eq!(&*object.value, b"red");
//! engine.close()?;
//! # Ok(())
//! # }
//! ```

//! # Mapped memory
//!
//! Files are read and written through memory maps. If the medium cannot deliver a page, the call
//! that needs it returns an error that names the file and the offset: the engine installs a handler
//! for `SIGBUS`, and passes the signal on if the memory is not its own. A full disk makes the write
//! fail with an error, because space is allocated before it is mapped.

mod backup;
mod batch;
mod budget;
mod bytes;
mod catalogue;
mod changes;
mod codec;
mod compression;
mod counter_set;
mod crc;
mod cut_tail;
mod definition;
mod definition_report;
mod durability;
mod engine;
mod error;
mod expiry;
mod figures;
mod file_copier;
mod folder;
#[doc(hidden)]
pub mod fuzzing;
mod garbage;
mod header_form;
mod index;
mod index_key;
mod inspect;
pub mod jobs;
mod journal;
mod key_range;
mod ledger;
mod manifest;
mod mapped_file;
mod metadata_extractor;
mod object;
mod open_store;
mod options;
mod part_sums;
pub mod parts;
mod prefetch;
mod prefix;
mod prepare;
mod read_ahead;
mod read_mode;
mod reader;
mod rebuild;
mod rules;
mod salvage;
mod scan;
mod selection;
mod shortage;
mod snapshot;
mod stats;
mod table_id;
mod tables;
mod writer;

pub use backup::{Backup, restore, restore_with};
pub use batch::{Batch, Condition, IndexChange, Operation, WriteOutcome};
pub use catalogue::INDEX_NAME_LENGTH_MAX;
pub use changes::{Change, ChangeStep, Changes};
pub use codec::{HEAD_LENGTH_MAX, KEY_LENGTH_MAX, TERM_LENGTH_MAX, VALUE_LENGTH_HARD_MAX};
pub use compression::Compression;
pub use counter_set::SAMPLED_EVERY;
pub use cut_tail::cut_tail;
pub use definition::{EXTRACTOR_NAME_LENGTH_MAX, TableOptions};
pub use definition_report::DefinitionReport;
pub use durability::{DurableCallback, SyncTimes};
pub use engine::Engine;
pub use error::{Error, Result, SpaceShortage};
pub use figures::{FigureValue, Metric, SampledTime};
pub use file_copier::{CopyOptions, CopyProgress};
pub use index::{IndexEntry, IndexScan};
pub use inspect::{Problem, Report, TableReport, stat, verify};
pub use journal::{SegmentReport, TruncatedPart};
pub use metadata_extractor::MetadataExtractor;
pub use object::{Head, Metadata, Object, Value};
pub use options::{Acknowledgement, BATCH_SIZE_HARD_MAX, DEAD_SHARES, EngineOptions};
pub use prefix::{PrefixFunction, PrefixRule};
pub use read_mode::{ReadMode, ReadResult};
pub use rebuild::rebuild_ledger;
pub use rules::HELD_VALUE_LENGTH_MAX;
pub use salvage::{LostRange, SalvageReport, salvage};
pub use scan::{Direction, Scan};
pub use selection::Selection;
pub use snapshot::Snapshot;
pub use stats::{
    Collected, DurabilityFigures, EngineStats, FoundFigures, JobFigures, LedgerFigures,
    LevelFigures, LevelReads, MemoryFigures, MemoryShare, ReadFigures, StepFigures, WriteFigures,
};
pub use table_id::{IndexId, TableId};

//! The store interface.
//!
//! A [`Store`] is an ordered key space in named tables. Both APIs are written against it, so that
//! they run on every kind: the embedded engine, and engines of others, on this machine or behind a
//! network. A store of this process answers at once, on the calling thread. Kinds that have to wait
//! answer [`Answer::Later`], and the transport goes on with its other connections until they do.
#![forbid(unsafe_code)]

mod answer;
mod backups;
mod changes;
mod copy;
mod copy_notes;
mod error;
mod hand_over;
mod model;
mod store;
#[cfg(feature = "suite")]
pub mod suite;
mod workers;

pub use answer::{Answer, Arrival, PartTime, Pending};
pub use backups::{
    BACKUP_BYTES_PER_SECOND_MIN, BackupCopying, BackupFigures, BackupId, BackupOutcome,
    BackupProgress, Backups,
};
pub use changes::{Change, ChangeFeed, ChangeStep, Changes, ChangesAfter};
pub use copy::{Copied, CopiedTable, Source, begin_copy, compare, copy, end_copy};
pub use error::{Result, StoreError};
pub use hand_over::{HandOver, STALL, hand_over, hand_over_write};
pub use model::{
    Acknowledgement, Condition, Copies, Head, KEY_LENGTH_MAX, NOTE_BYTES_MAX, Note, Object,
    Operation, PartOf, ReadMode, Table, Value, Written, check_key,
};
pub use store::{
    LocalStore, NotingStore, Properties, Range, ReplicatedStore, Scan, Snapshot, Store,
};
pub use workers::{ReservedSlot, Workers};

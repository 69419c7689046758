//! The store interface.
//!
//! A [`Store`] is an ordered key space in named tables. The entity API and the document API use
//! only this interface, so that they run on every kind of store: the embedded engine, and other
//! engines, in this process or on other machines. A store in this process answers at once, on the
//! calling thread. Kinds that have to wait answer [`Answer::Later`], and the server goes on with
//! other connections until the answer arrives.
#![forbid(unsafe_code)]

mod answer;
mod backups;
mod changes;
mod copy;
mod copy_notes;
mod current_view;
mod error;
mod hand_over;
mod model;
mod store;
#[cfg(feature = "suite")]
pub mod suite;
mod workers;

pub use answer::{Answer, DeferredAnswer, DeliveredAnswer, PartMeasurement};
pub use backups::{
    BACKUP_BYTES_PER_SECOND_MIN, BackupCopyOptions, BackupFigures, BackupId, BackupOutcome,
    BackupProgress, Backups,
};
pub use changes::{Change, ChangeFeed, ChangeReader, ChangeSelector, ChangeStep};
pub use copy::{
    CopiedTable, Source, TableCopyProgress, begin_copy, compare, copy, empty, end_copy,
    filled_table, give_up_copies, is_same, occupied_table,
};
pub use current_view::CurrentView;
pub use error::{Result, StoreError};
pub use hand_over::{HandOverPolicy, STALL, hand_over, hand_over_write};
pub use model::{
    Acknowledgement, Condition, Head, KEY_LENGTH_MAX, NOTE_BYTES_MAX, Note, Object, Operation,
    PartitionFunction, ReadMode, ReplicaQuorum, Table, Value, WriteOutcome, check_key,
};
pub use store::{
    LocalStore, NotingStore, Properties, Range, ReplicatedStore, Scan, Snapshot, Store,
    end_of_prefix,
};
pub use workers::{ReservedSlot, Workers};

//! The store interface and its kinds.
//!
//! A [`Store`] is an ordered key space in named tables. Both APIs are written against it, so that
//! they run on every kind: the embedded engine now; engines of others, on this machine or behind a
//! network, beside it. The embedded kind answers at once, on the calling thread, without a task or
//! an allocation in between. Kinds that have to wait answer [`Answer::Later`], and the transport
//! goes on with its other connections until they do.

mod answer;
mod copy;
mod copy_notes;
mod embedded;
mod error;
mod hand_over;
mod model;
mod store;
#[cfg(feature = "suite")]
pub mod suite;
mod workers;

pub use answer::{Answer, Arrival, PartTime, Pending};
pub use copy::{Copied, CopiedTable, Source, begin_copy, compare, copy, end_copy};
pub use embedded::{EmbeddedOptions, EmbeddedStore};
pub use error::{Result, StoreError};
pub use hand_over::{HandOver, hand_over, hand_over_write};
pub use model::{
    Acknowledgement, Condition, Copies, Head, NOTE_BYTES_MAX, Note, Object, Operation, PartOf,
    Table, Value, Written,
};
pub use pellucid_engine::{
    EngineOptions, EngineStats, FoundFigures, Job, JobFigures, KEY_LENGTH_MAX, LevelFigures,
    MemoryShare, SAMPLED_EVERY, SampledTime, StemOf, StemRule, parts,
};
pub use store::{Range, Scan, Snapshot, Store};
pub use workers::{Place, Workers};

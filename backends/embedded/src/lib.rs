//! The store over the engine embedded in this process. It answers on the calling thread, without a
//! task or an allocation in between. Requests that would wait for the disk are handed over to
//! worker threads.
#![forbid(unsafe_code)]

mod backups;
mod convert;
mod store;

pub use pellucid_engine::{
    BATCH_SIZE_HARD_MAX, EngineOptions, EngineStats, JobFigures, LevelFigures, Metric,
    PrefixFunction, PrefixRule, SAMPLED_EVERY, parts,
};
pub use store::{EmbeddedOptions, EmbeddedStore, engine_stats};

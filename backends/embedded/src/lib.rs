//! The store over the engine of this process. It answers at once, on the calling thread, without a
//! task or an allocation in between; requests that would wait for the medium are offloaded to
//! threads of its own.
#![forbid(unsafe_code)]

mod backups;
mod convert;
mod store;

pub use pellucid_engine::{
    EngineOptions, EngineStats, Job, JobFigures, LevelFigures, Metric, PrefixOf, PrefixRule,
    SAMPLED_EVERY, parts,
};
pub use store::{EmbeddedOptions, EmbeddedStore, engine_stats};

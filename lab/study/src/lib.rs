//! The studies: each puts a load on Pellucid, records what its account says, and answers one
//! question with figures.
//!
//! A study that only prints a number convinces nobody. So each one here writes its figures as
//! charts, each with its table, and holds every conclusion of the study that it repeats against
//! figures of several runs: as text, as one HTML file, and as JSON (`pellucid.study.v2`,
//! docs/studies.md).
//!
//! A [`Study`] says what it asks and does its steps; [`conduct`] runs it and makes the report,
//! [`write()`] the files. What a study measures runs in a process of its own where it can
//! ([`Context::child`]), so that memory can be bounded and nothing of the study is measured.

mod bounded;
mod cluster;
mod connection_pool;
mod entity;
mod error;
mod folder;
mod generator;
mod jitter;
mod jobs;
mod loads;
mod means;
mod merge_tree;
mod proc;
mod process;
mod profiled;
mod repeat;
mod request_life;
mod served;
mod spread;
mod study;

pub use cluster::{ClusterStudyOptions, run_child as run_cluster_child};
pub use connection_pool::{ConnectionPoolOptions, run_child as run_connection_pool_child};
pub use entity::{Engine, EntityStudyOptions, run_child as run_entity_child};
pub use error::StudyError;
pub use merge_tree::{MergeTreeOptions, run_child as run_merge_tree_child};
pub use request_life::{RequestLifeOptions, run_child as run_request_life_child};
pub use study::{About, Context, Scale, Study, StudyRun, conduct, write};

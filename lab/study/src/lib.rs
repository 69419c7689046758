//! The studies. Each runs loads on Pellucid, records its account, and answers one question with
//! figures.
//!
//! Each study repeats a published one, the original. Its report shows figures as charts with
//! tables, and compares every conclusion of the original with figures of several runs. The report
//! is text, one HTML file, and JSON (`pellucid.study.v2`, docs/studies.md).
//!
//! A [`Study`] has a question and runs its steps. [`conduct`] runs it and makes the report. The
//! measured code runs in a child process where possible ([`Context::child`]), so that its memory
//! can be limited and the study itself is not measured.

mod cgroup;
mod child_server;
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
mod profile_recording;
mod repeat;
mod request_life;
mod response_histogram;
mod study;

pub use cluster::{ClusterStudyOptions, run_child as run_cluster_child};
pub use connection_pool::{ConnectionPoolOptions, run_child as run_connection_pool_child};
pub use entity::{Engine, EntityStudyOptions, run_child as run_entity_child};
pub use error::StudyError;
pub use merge_tree::{MergeTreeOptions, run_child as run_merge_tree_child};
pub use request_life::{RequestLifeOptions, run_child as run_request_life_child};
pub use study::{Context, Scale, Study, StudyDescription, StudyRun, conduct};

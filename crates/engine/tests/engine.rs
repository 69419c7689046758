//! Tests of the storage engine through its public interface, in one program.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its seed"
)]

mod common;

mod backup;
mod changes;
mod collection;
mod concurrency;
mod corruption;
mod exhausted;
mod faults;
mod faults_everywhere;
mod figures;
mod full_disk;
mod golden;
mod interleaved;
mod known_failures;
mod known_failures_at_rest;
mod model;
mod prefixes;
mod salvage;
mod simulated_threads;
mod system_files;
mod tables;
mod values;

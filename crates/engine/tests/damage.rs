//! Tests of the storage engine on a medium with bad sectors. They are a program of their own,
//! because all reads of a process take the slow path while a bad sector is known.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    reason = "a test fails by panicking, and prints its seed; these use part of the shared module"
)]

mod common;

mod bad_sectors;
mod medium_faults;
mod unreadable;

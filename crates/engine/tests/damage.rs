//! The storage engine on a medium that loses sectors, in a program of its own: while a test knows
//! of sectors that cannot be read, all reads of its process take the careful way.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    reason = "a test fails by panicking, and prints its seed; these use a part of what tests share"
)]

mod common;

mod bad_sectors;
mod medium_faults;
mod unreadable;

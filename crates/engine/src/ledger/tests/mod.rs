//! Tests of the ledger: against an ordered map, with failing files, and with threads.

mod expired_entries;
mod failures;
pub(super) mod harness;
mod model;
mod order;
mod parts;
mod threads;

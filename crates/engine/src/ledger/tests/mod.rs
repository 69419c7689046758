//! The ledger against an ordered map, against failing files, and under threads.

mod failures;
mod harness;
mod model;
mod order;
mod parts;
mod stale;
mod threads;

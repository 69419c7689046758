//! Tests of the program, which is started as its users start it. They are one binary, to link only
//! once; each file describes its own subject.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_types,
    reason = "a test ends at the first surprise, says what it saw, and its locks are in no profile"
)]

mod common;
#[allow(dead_code, reason = "shared with tests that use more of it")]
#[path = "../../../http/tests/common/endings.rs"]
mod endings;
#[allow(dead_code, reason = "shared with tests that use more of it")]
#[path = "../../../http/tests/common/frames.rs"]
mod frames;
#[allow(dead_code, reason = "shared with tests that use more of it")]
#[path = "../../../http/tests/common/h2_client.rs"]
mod h2_client;
#[allow(dead_code, reason = "shared with tests that use more of it")]
#[path = "../../../server/tests/common/histories.rs"]
mod histories;
#[allow(dead_code, reason = "shared with tests that use more of it")]
#[path = "../../../server/tests/common/nodes.rs"]
mod nodes;

#[cfg(target_os = "linux")]
mod attacks;
mod cli;
mod examples;
mod inspect;
mod inspect_copy;
mod kill;
mod load;
mod load_direct;
#[cfg(target_os = "linux")]
mod load_floods;
mod load_termination;
#[cfg(target_os = "linux")]
mod network_cut;
mod operate;
mod pages;
#[cfg(target_os = "linux")]
mod probes;
mod profile;
#[cfg(target_os = "linux")]
mod resets;
#[cfg(target_os = "linux")]
mod scarce_resources;
mod slow_clients;
#[cfg(target_os = "linux")]
mod soak;
mod study;
mod study_cluster;
mod study_entity;

// `nodes` and `histories` are shared with the server's tests.
use common::client::{Answer, PATIENCE};
use common::{Client, entity, wait_for, wait_until};

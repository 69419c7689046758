//! The parts of `execute` that this store accounts for.
//!
//! What the ring does with a request is one part for most of them, the round trips. How it divides
//! into network, coordinator and replicas only the ring can tell, and does so for a sampled share,
//! some time after the answer: an answer that waited for its own trace would be slow for being
//! looked at, so that only the request's record waits. What is told is taken out of `ring`, so that
//! nothing counts twice.

use pellucid_account::{PARTS_MAX, Part};

/// Writing the request down.
pub(crate) const ENCODE: Part = Part::new(0);
/// Until a thread that talks to the ring has it.
pub(crate) const CONNECTION_WAIT: Part = Part::new(1);
/// From there until the ring has answered.
pub(crate) const RING: Part = Part::new(2);
/// Reading the answer.
pub(crate) const DECODE: Part = Part::new(3);
/// Until this process had made its transactions of the same partition that came before.
pub(crate) const TURN_WAIT: Part = Part::new(4);

/// Of the round trips, what the ring's coordinators know nothing of.
pub(crate) const NETWORK: Part = Part::new(5);
/// Of the round trips, what the coordinators did themselves.
pub(crate) const COORDINATOR: Part = Part::new(6);
/// Of the round trips, how long the slowest other node was busy.
pub(crate) const REPLICAS: Part = Part::new(7);

/// The names of the parts, by slot.
pub const NAMES: [&str; PARTS_MAX] = [
    "encode",
    "connection_wait",
    "ring",
    "decode",
    "turn_wait",
    "network",
    "coordinator",
    "replicas",
];

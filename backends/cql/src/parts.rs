//! The parts of `execute` that this store accounts for.
//!
//! For most requests, the time in the ring is one part, `ring`: the round trips. Only the ring can
//! divide it into network, coordinator and replicas, by a trace. It does so for a sampled share of
//! requests, some time after the answer. An answer that waited for its trace would be slow because
//! of the measurement, so only the request's record waits. The parts of a trace are subtracted from
//! `ring`, so that no time counts twice.

use pellucid_account::{PARTS_MAX, Part};

/// Encoding the request.
pub(crate) const ENCODE: Part = Part::new(0);
/// Waiting until a thread that talks to the ring takes the request.
pub(crate) const CONNECTION_WAIT: Part = Part::new(1);
/// The round trips to the ring.
pub(crate) const RING: Part = Part::new(2);
/// Decoding the answer.
pub(crate) const DECODE: Part = Part::new(3);
/// Waiting for earlier transactions of this process on the same partition.
pub(crate) const TURN_WAIT: Part = Part::new(4);

/// The time of the round trips outside the coordinators.
pub(crate) const NETWORK: Part = Part::new(5);
/// The time of the round trips that the coordinators themselves worked.
pub(crate) const COORDINATOR: Part = Part::new(6);
/// The time of the round trips that the slowest other node worked.
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

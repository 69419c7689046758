//! The parts of a request's phase `execute` that this store accounts for.
//!
//! For most requests, the round trips to the ring (the Cassandra or ScyllaDB cluster) are one part,
//! `ring`. Only a query trace of the cluster can split it into network, coordinator and replicas. A
//! sampled share of requests is traced, and a trace is ready only some time after the answer. The
//! answer does not wait for the trace; only the request's record does. The parts of a trace are
//! subtracted from `ring`, so that no time counts twice.

use pellucid_account::{PARTS_MAX, Part};

/// Encoding the request to the ring. (The phase `encode` is that of the response.)
pub(crate) const ENCODE: Part = Part::new(0);
/// Waiting in the queue of the threads that talk to the ring.
pub(crate) const THREAD_WAIT: Part = Part::new(1);
/// The round trips to the ring.
pub(crate) const RING: Part = Part::new(2);
/// Decoding the answer.
pub(crate) const DECODE: Part = Part::new(3);
/// Waiting for earlier transactions of this process on the same partition, or on one that shares
/// its lock.
pub(crate) const TURN_WAIT: Part = Part::new(4);

/// The time of the round trips outside the coordinators.
pub(crate) const NETWORK: Part = Part::new(5);
/// The time of the coordinators, without that of the slowest other node.
pub(crate) const COORDINATOR: Part = Part::new(6);
/// The longest time that a node other than the coordinator worked in a round trip, summed over the
/// request's round trips.
pub(crate) const REPLICAS: Part = Part::new(7);

/// The names of the parts, by slot.
pub const NAMES: [&str; PARTS_MAX] =
    ["encode", "thread_wait", "ring", "decode", "turn_wait", "network", "coordinator", "replicas"];

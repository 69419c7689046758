//! The parts of `execute` that this store accounts for.
//!
//! What the ring does with a request is one part for all of them, the round trip. How it divides
//! into network, coordinator and replicas only the ring can tell, and does so for a sampled share:
//! that stands in the store's figures, because an answer that waited for its own trace would be
//! slow for being looked at.

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

/// The names of the parts, by slot.
pub const NAMES: [&str; PARTS_MAX] = [
    "encode",
    "connection_wait",
    "ring",
    "decode",
    "turn_wait",
    "unused_5",
    "unused_6",
    "unused_7",
];

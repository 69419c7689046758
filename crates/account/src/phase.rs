//! The stamps that a request collects, and the phases between them.

/// A point in the life of a request. The variants are in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stamp {
    /// The event loop woke up and found the first byte readable.
    Arrived = 0,
    /// The complete request has been read.
    Received = 1,
    /// The head and body are parsed.
    Parsed = 2,
    /// The handler is found, and the request authorised and admitted.
    Routed = 3,
    /// The handler runs: later than routed only after a queue or a hand-over to another thread.
    Started = 4,
    /// The store has answered.
    Executed = 5,
    /// The response is in the connection's buffer.
    Encoded = 6,
    /// The kernel has taken the last byte of the response.
    Written = 7,
}

/// All stamps, in order.
pub const STAMPS: [Stamp; 8] = [
    Stamp::Arrived,
    Stamp::Received,
    Stamp::Parsed,
    Stamp::Routed,
    Stamp::Started,
    Stamp::Executed,
    Stamp::Encoded,
    Stamp::Written,
];

impl Stamp {
    /// The phase that begins with the stamp. The last stamp begins none, and has the last phase.
    #[inline]
    pub(crate) fn phase(self) -> Phase {
        PHASES[(self as usize).min(Phase::Write as usize)]
    }

    /// The label of the phase that begins with the stamp, for profiles.
    #[inline]
    pub(crate) fn label(self) -> u8 {
        match self {
            Stamp::Written => pellucid_thread::LOOP_PHASE,
            stamp => stamp.phase().label(),
        }
    }
}

/// A stretch of a request's life. [`Phase::Receive`] precedes the total, as in the study of
/// ArangoDB that the model comes from. The others partition the total, from received to written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// From arrived to received: waiting for the event loop, and reading.
    Receive = 0,
    /// From received to parsed, without the wait behind earlier requests of the same connection.
    Parse = 1,
    /// From parsed to routed.
    Route = 2,
    /// From routed to started, and the wait behind earlier requests of the same connection.
    Queue = 3,
    /// From started to executed: the store's time.
    Execute = 4,
    /// From executed to encoded.
    Encode = 5,
    /// From encoded to written: the batch of the wake-up is completed and given to the kernel.
    Write = 6,
    /// The rest of the total, which belongs to no phase.
    Unaccounted = 7,
}

/// All phases, in the order in which they are shown; `unaccounted` last.
pub const PHASES: [Phase; 8] = [
    Phase::Receive,
    Phase::Parse,
    Phase::Route,
    Phase::Queue,
    Phase::Execute,
    Phase::Encode,
    Phase::Write,
    Phase::Unaccounted,
];

impl Phase {
    /// The label of this phase for [`pellucid_thread::set_phase`].
    #[must_use]
    pub const fn label(self) -> u8 {
        self as u8 + 1
    }

    /// The name, as in headers, metrics and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Receive => "receive",
            Phase::Parse => "parse",
            Phase::Route => "route",
            Phase::Queue => "queue",
            Phase::Execute => "execute",
            Phase::Encode => "encode",
            Phase::Write => "write",
            Phase::Unaccounted => "unaccounted",
        }
    }
}

/// A part of `execute`, defined by the store: a slot below [`crate::PARTS_MAX`], whose name is in
/// [`crate::Names::parts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part(u8);

impl Part {
    /// The part in `slot`.
    ///
    /// # Panics
    /// If the slot is not below [`crate::PARTS_MAX`]; in a constant, this fails the build.
    #[must_use]
    pub const fn new(slot: u8) -> Part {
        assert!((slot as usize) < crate::PARTS_MAX, "the slot is below PARTS_MAX");
        Part(slot)
    }

    /// The slot.
    #[must_use]
    pub const fn slot(self) -> usize {
        self.0 as usize
    }
}

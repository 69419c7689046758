//! The peer protocol: the frames that nodes of a cluster exchange, and their encoding.
//!
//! A frame is a length, the CRC-32C of the body, and the body: fixed fields and a variable end;
//! docs/format.md has the tables. An ask is a request from one node to another, mostly to the owner
//! of a key. The requesting node chooses its number, and the answer repeats it, so answers may
//! arrive in any order. All integers are little-endian. Received bytes are not trusted: lengths
//! have limits, and an invalid frame ends the connection.

use std::fmt;

use pellucid_account::PARTS_MAX;
use pellucid_store::{Acknowledgement, Condition, KEY_LENGTH_MAX};

use crate::numbers::{numbers_of, u32_at};

/// The name of the protocol with its version, as in the `Upgrade` header. A node speaks one version
/// and refuses all others, so every change of the frames needs a new version number.
pub const PROTOCOL: &str = "pellucid-peer/3";
/// The prefix of the names of all versions of the protocol.
pub const PROTOCOL_OF_ANY_VERSION: &str = "pellucid-peer/";

/// Length in bytes of the prefix of a frame: the length of its body, and its checksum.
pub const PREFIX_BYTES: usize = 8;
/// Length in bytes of an ask's fixed fields, with the prefix.
pub const ASK_BYTES: usize = 72;
/// Length in bytes of an answer's fixed fields, with the prefix.
pub const ANSWER_BYTES: usize = 96;
/// Limit in bytes of a key and its value together, or of a payload. It is above what any setting
/// allows, because nodes may have different settings. Memory is allocated only for bytes that have
/// arrived.
pub const CONTENT_BYTES_MAX: usize = 1 << 30;
/// Limit of a frame in bytes: an ask with all its optional fields, which are longer than the fixed
/// fields of an answer.
pub(crate) const FRAME_BYTES_MAX: usize =
    ASK_BYTES + 3 + TABLE_NAME_BYTES_MAX + 2 + TRACE_STATE_BYTES_MAX + CONTENT_BYTES_MAX;
/// Offset of [`OwnerTimes::reply_ns`] in an answer.
pub(crate) const REPLY_NS_AT: usize = 60;

pub(crate) const ANSWER: u8 = 0x81;
pub(crate) const PONG: u8 = 0x82;
/// Limit of a table's name in bytes.
pub const TABLE_NAME_BYTES_MAX: usize = 255;
/// Limit of a `tracestate` in bytes: W3C Trace Context requires that at least 512 characters are
/// propagated.
pub const TRACE_STATE_BYTES_MAX: usize = 512;

pub(crate) const HAS_LIFETIME: u8 = 1;
pub(crate) const HAS_TRACE: u8 = 2;
pub(crate) const HAS_TABLE: u8 = 4;
pub(crate) const HAS_TRACE_STATE: u8 = 8;

/// The kind of ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AskKind {
    /// Reads the object of the key.
    Get = 1,
    /// Reads the head of the key's object.
    Head = 2,
    /// Puts the value under the key.
    Put = 3,
    /// Deletes the key.
    Delete = 4,
    /// Writes a batch. The value is its text, as in the API.
    Batch = 5,
    /// Reads a page of a range; see [`crate::RangeAsk`].
    Range = 6,
    /// Asks for a sign of life, which is a [`Frame::Pong`].
    Ping = 7,
    /// Writes several operations, which are the value; see [`crate::PartOperation`].
    Write = 8,
}

impl AskKind {
    /// All kinds in the order of their numbers, which begin at 1.
    pub(crate) const ALL: [AskKind; 8] = [
        AskKind::Get,
        AskKind::Head,
        AskKind::Put,
        AskKind::Delete,
        AskKind::Batch,
        AskKind::Range,
        AskKind::Ping,
        AskKind::Write,
    ];
}

/// The table of an ask, if it is not that of the entity API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskTable<'a> {
    /// The name of the table.
    pub name: &'a str,
    /// Length in bytes of the key's prefix that determines its owner.
    pub part_length: u16,
}

/// The trace of a request, and the span of the asking node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskTrace<'a> {
    /// The trace's id; not zero.
    pub trace: u128,
    /// The parent of the owner's span; not zero.
    pub span: u64,
    /// The `tracestate` of other systems, in printable ASCII; empty for none.
    pub state: &'a str,
}

/// One ask: a request to the owner of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask<'a> {
    /// The number of the ask, chosen by the requesting node; the answer has the same number.
    pub id: u64,
    /// The kind of the ask.
    pub kind: AskKind,
    /// The durability that a write needs before it is acknowledged.
    pub acknowledgement: Acknowledgement,
    /// The condition of a write.
    pub condition: Condition,
    /// The lifetime of a put's entry in milliseconds; `None` if it has no end.
    pub lifetime_ms: Option<u64>,
    /// The time in milliseconds, from the arrival of the ask at its owner, after which the asker no
    /// longer needs the answer.
    pub wait_ms: u32,
    /// The trace of the request.
    pub trace: Option<AskTrace<'a>>,
    /// The table; `None` for that of the entity API.
    pub table: Option<AskTable<'a>>,
    /// The key; empty for batches, writes and pings.
    pub key: &'a [u8],
    /// The value; see [`AskKind`].
    pub value: &'a [u8],
}

/// The status of an ask at its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AnswerStatus {
    /// The key was found.
    Found = 0,
    /// The key is not there.
    Missing = 1,
    /// The write is done.
    Written = 2,
    /// A condition does not hold. `detail` is the index of the operation, `sequence` the current
    /// sequence number of its key, or zero if the key is not there.
    ConditionFailed = 3,
    /// The request is invalid, so a retry cannot succeed. The payload has the reason, as in all
    /// statuses below except `Page`.
    Unacceptable = 4,
    /// The store has no space.
    Full = 5,
    /// Stored bytes are damaged.
    Corruption = 6,
    /// The store has stopped taking writes.
    ReadOnly = 7,
    /// Too many requests wait already.
    Busy = 8,
    /// Any other failure.
    Failed = 9,
    /// The key belongs to another node. An ask is never forwarded a second time.
    NotOwner = 10,
    /// The time of the ask was over before it was begun.
    Late = 11,
    /// A page of a range; `detail` is 1 if it is the last one.
    Page = 12,
}

/// The times of an ask at its owner, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerTimes {
    /// From the wake-up of the event loop to the end of the read that completed the ask.
    pub receive_ns: u32,
    /// Waiting behind other asks of the same read, or for another thread.
    pub queue_ns: u32,
    /// In the store.
    pub execute_ns: u32,
    /// From the store's result until the answer was sent.
    pub reply_ns: u32,
    /// The parts of `execute_ns`, numbered as in `pellucid_embedded::parts`.
    pub parts_ns: [u32; PARTS_MAX],
}

/// Nanoseconds for a field of [`OwnerTimes`]; longer durations become its largest value (4.3 s).
#[must_use]
pub fn clipped_ns(duration_ns: u64) -> u32 {
    u32::try_from(duration_ns).unwrap_or(u32::MAX)
}

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The number of the ask.
    pub id: u64,
    /// The status of the ask.
    pub status: AnswerStatus,
    /// A number whose meaning depends on the status; see [`AnswerStatus`].
    pub detail: u32,
    /// The sequence number of the object that was found or written.
    pub sequence: u64,
    /// The time at which the object was written, in milliseconds since the Unix epoch.
    pub written_at_ms: u64,
    /// Length of the value in bytes.
    pub value_length: u64,
    /// The times of the ask at its owner.
    pub times: OwnerTimes,
    /// The value, the page, or the reason of a failure.
    pub payload: &'a [u8],
}

impl Answer<'_> {
    /// An answer with this number and status; all else is zero or empty.
    #[must_use]
    pub fn plain(id: u64, status: AnswerStatus) -> Answer<'static> {
        Answer {
            id,
            status,
            detail: 0,
            sequence: 0,
            written_at_ms: 0,
            value_length: 0,
            times: OwnerTimes::default(),
            payload: b"",
        }
    }
}

/// One frame of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A request to the owner of a key, or a ping.
    Ask(Ask<'a>),
    /// An answer to any ask but a ping.
    Answer(Answer<'a>),
    /// The answer to the ping with this number.
    Pong(u64),
}

/// An invalid frame. The connection is closed: after a wrong length or checksum the next frame
/// cannot be found, and a malformed field means a peer with a defect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The frame is longer than the limit.
    TooLong {
        /// Length of the frame in bytes.
        bytes: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// The checksum does not match the body.
    Checksum,
    /// The named field is invalid.
    Malformed(&'static str),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::TooLong { bytes, max } => {
                write!(f, "a frame of {bytes} bytes; at most {max} are accepted")
            }
            FrameError::Checksum => f.write_str("a frame whose checksum does not fit its bytes"),
            FrameError::Malformed(what) => write!(f, "a frame with an invalid {what}"),
        }
    }
}

impl std::error::Error for FrameError {}

impl Ask<'_> {
    /// An ask of this kind; all else is zero, empty or none.
    #[must_use]
    pub fn plain(kind: AskKind) -> Ask<'static> {
        Ask {
            id: 0,
            kind,
            acknowledgement: Acknowledgement::Memory,
            condition: Condition::None,
            lifetime_ms: None,
            wait_ms: 0,
            trace: None,
            table: None,
            key: b"",
            value: b"",
        }
    }

    /// Appends the ask to `out`.
    ///
    /// # Panics
    /// If the key is longer than [`KEY_LENGTH_MAX`], the whole frame not below 4 GiB, the table's
    /// name longer than [`TABLE_NAME_BYTES_MAX`], or the trace's state longer than
    /// [`TRACE_STATE_BYTES_MAX`]. Callers check these limits before.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.key.len() <= KEY_LENGTH_MAX, "the API has checked the key");
        let begin = begin_frame(out, self.id);
        let (condition, sequence) = numbers_of(self.condition);
        let acknowledgement = match self.acknowledgement {
            Acknowledgement::Memory => 0,
            Acknowledgement::Os => 1,
            Acknowledgement::Disk => 2,
        };
        let mut flags = 0;
        flags |= if self.lifetime_ms.is_some() { HAS_LIFETIME } else { 0 };
        flags |= if self.trace.is_some() { HAS_TRACE } else { 0 };
        flags |= if self.table.is_some() { HAS_TABLE } else { 0 };
        let state = self.trace.map_or("", |of| of.state);
        assert!(state.len() <= TRACE_STATE_BYTES_MAX, "the trace's state was checked");
        flags |= if state.is_empty() { 0 } else { HAS_TRACE_STATE };
        let value_length = u32::try_from(self.value.len()).expect("a value is below 4 GiB");
        out.extend_from_slice(&[self.kind as u8, acknowledgement, condition, flags]);
        out.extend_from_slice(&self.wait_ms.to_le_bytes());
        out.extend_from_slice(&sequence.to_le_bytes());
        out.extend_from_slice(&self.lifetime_ms.unwrap_or(0).to_le_bytes());
        let (trace, span) = self.trace.map_or((0, 0), |of| (of.trace, of.span));
        out.extend_from_slice(&trace.to_le_bytes());
        out.extend_from_slice(&span.to_le_bytes());
        out.extend_from_slice(&(self.key.len() as u32).to_le_bytes());
        out.extend_from_slice(&value_length.to_le_bytes());
        if let Some(AskTable { name, part_length }) = self.table {
            let name_length = u8::try_from(name.len()).expect("the name of a table was checked");
            out.extend_from_slice(&part_length.to_le_bytes());
            out.push(name_length);
            out.extend_from_slice(name.as_bytes());
        }
        if !state.is_empty() {
            out.extend_from_slice(&(state.len() as u16).to_le_bytes());
            out.extend_from_slice(state.as_bytes());
        }
        out.extend_from_slice(self.key);
        out.extend_from_slice(self.value);
        finish_frame(out, begin);
    }

    /// The prefix of the key that determines its owner; `None` if the key is shorter than the
    /// table's prefix, so that the ask is invalid.
    #[must_use]
    pub fn owned_by(&self) -> Option<&[u8]> {
        match self.table {
            None => Some(self.key),
            Some(table) => self.key.get(..usize::from(table.part_length)),
        }
    }
}

impl Answer<'_> {
    /// Appends the answer to `out`, without its checksum. `finish_answer` adds it, once the time is
    /// known that the answer has waited to be sent.
    pub fn encode_unfinished(&self, out: &mut Vec<u8>) {
        let begin = begin_frame(out, self.id);
        out.extend_from_slice(&[ANSWER, self.status as u8, 0, 0]);
        out.extend_from_slice(&self.detail.to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.written_at_ms.to_le_bytes());
        out.extend_from_slice(&self.value_length.to_le_bytes());
        let OwnerTimes { receive_ns, queue_ns, execute_ns, reply_ns, parts_ns } = self.times;
        for ns in [receive_ns, queue_ns, execute_ns, reply_ns].into_iter().chain(parts_ns) {
            out.extend_from_slice(&ns.to_le_bytes());
        }
        out.extend_from_slice(self.payload);
        write_length(out, begin);
    }

    /// Appends the answer to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        self.encode_unfinished(out);
        finish_answer(&mut out[begin..], self.times.reply_ns);
    }
}

/// Completes an answer at the beginning of `bytes`: sets the time that it has waited to be sent,
/// and its checksum.
pub(crate) fn finish_answer(bytes: &mut [u8], reply_ns: u32) {
    let length = PREFIX_BYTES + u32_at(bytes, 0) as usize;
    bytes[REPLY_NS_AT..REPLY_NS_AT + 4].copy_from_slice(&reply_ns.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[PREFIX_BYTES..length]);
    bytes[4..PREFIX_BYTES].copy_from_slice(&checksum.to_le_bytes());
}

/// Appends the answer to a ping to `out`.
pub fn encode_pong(id: u64, out: &mut Vec<u8>) {
    let begin = begin_frame(out, id);
    out.extend_from_slice(&[PONG, 0, 0, 0]);
    finish_frame(out, begin);
}

/// Appends the prefix, yet empty, and the number of a frame. Returns the offset of the frame.
fn begin_frame(out: &mut Vec<u8>, id: u64) -> usize {
    let begin = out.len();
    out.extend_from_slice(&[0; PREFIX_BYTES]);
    out.extend_from_slice(&id.to_le_bytes());
    begin
}

fn write_length(out: &mut [u8], begin: usize) {
    let length = u32::try_from(out.len() - begin - PREFIX_BYTES).expect("a frame is below 4 GiB");
    out[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
}

fn finish_frame(out: &mut [u8], begin: usize) {
    write_length(out, begin);
    let checksum = crc32c::crc32c(&out[begin + PREFIX_BYTES..]);
    out[begin + 4..begin + PREFIX_BYTES].copy_from_slice(&checksum.to_le_bytes());
}

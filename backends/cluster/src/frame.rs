//! The peer protocol: what nodes of a cluster say to each other, as bytes.
//!
//! A frame is a length, a checksum of what follows, and a body of fixed fields with a variable end;
//! docs/format.md has the tables. Asks and answers meet by a number that the asker chooses, so that
//! answers may come in any order. All numbers are little-endian. Nothing that is read is trusted:
//! lengths have bounds, and a frame that cannot be right ends the connection.

use std::fmt;

use pellucid_account::PARTS_MAX;
use pellucid_store::{Acknowledgement, Condition, KEY_LENGTH_MAX};

use crate::numbers::{numbers_of, u32_at};

/// The name of the protocol with its version, as `Upgrade` has it. A node speaks one version, and
/// refuses connections of others: whoever changes what frames may be gives it another number.
pub const PROTOCOL: &str = "pellucid-peer/3";
/// The prefix of the names of all versions of the protocol.
pub const PROTOCOL_OF_ANY_VERSION: &str = "pellucid-peer/";

/// Bytes before a frame's body: its length and its checksum.
pub const PREFIX_BYTES: usize = 8;
/// Bytes of an ask before its key and value.
pub const ASK_BYTES: usize = 72;
/// Bytes of an answer before its payload.
pub const ANSWER_BYTES: usize = 96;
/// Bytes that a key and a value, or a payload, may have together: more than any setting allows, as
/// nodes may be set differently. Memory is taken only for what has come.
pub const CONTENT_BYTES_MAX: usize = 1 << 30;
/// Bytes that a frame may have: an ask with all that it may have beside key and value, which is
/// more than an answer has beside its payload.
pub(crate) const FRAME_BYTES_MAX: usize =
    ASK_BYTES + 3 + TABLE_NAME_BYTES_MAX + 2 + TRACE_STATE_BYTES_MAX + CONTENT_BYTES_MAX;
/// The offset in an answer of the time that it waited to be sent.
pub(crate) const REPLY_NS_AT: usize = 60;

pub(crate) const ANSWER: u8 = 0x81;
pub(crate) const PONG: u8 = 0x82;
/// Bytes that the name of a table may have.
pub const TABLE_NAME_BYTES_MAX: usize = 255;
/// Bytes that a trace's state may have: what W3C Trace Context asks for at least.
pub const TRACE_STATE_BYTES_MAX: usize = 512;

pub(crate) const HAS_LIFETIME: u8 = 1;
pub(crate) const HAS_TRACE: u8 = 2;
pub(crate) const HAS_TABLE: u8 = 4;
pub(crate) const HAS_TRACE_STATE: u8 = 8;

/// The kind of ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AskKind {
    /// The object of the key.
    Get = 1,
    /// The head of the key's object.
    Head = 2,
    /// To put the value under the key.
    Put = 3,
    /// To delete the key.
    Delete = 4,
    /// To write a batch, whose text is the value.
    Batch = 5,
    /// A page of a range; see [`crate::RangeAsk`].
    Range = 6,
    /// True if anybody is there.
    Ping = 7,
    /// To write several operations, which are the value; see [`crate::PartOperation`].
    Write = 8,
}

/// The table that an ask is about, if it is not the one of the entity API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOfAsk<'a> {
    /// Its name.
    pub name: &'a str,
    /// Bytes of the key's beginning by which it finds its owner.
    pub part_length: u16,
}

/// A trace that a request belongs to, and the span of whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceOfAsk<'a> {
    /// The trace; not zero.
    pub trace: u128,
    /// The span that the owner's is a child of; not zero.
    pub span: u64,
    /// Notes of other systems on the trace (`tracestate`), in printable ASCII; empty for none.
    pub state: &'a str,
}

/// One ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask<'a> {
    /// Chosen by the asker; the answer has the same.
    pub id: u64,
    /// The kind of ask.
    pub kind: AskKind,
    /// Of writes, what the acknowledgement has to mean.
    pub acknowledgement: Acknowledgement,
    /// Of writes, what must hold.
    pub condition: Condition,
    /// Of puts, how long the entry is there, in milliseconds.
    pub lifetime_ms: Option<u64>,
    /// The time for which the asker waits from now on, in milliseconds: later, nobody needs the
    /// answer.
    pub wait_ms: u32,
    /// The trace that it belongs to.
    pub trace: Option<TraceOfAsk<'a>>,
    /// The table that it is about; nothing for that of the entity API.
    pub table: Option<TableOfAsk<'a>>,
    /// The key; none for batches, writes and pings.
    pub key: &'a [u8],
    /// The value; see [`AskKind`].
    pub value: &'a [u8],
}

/// The status of an ask at its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AnswerStatus {
    /// It was read, and is there.
    Found = 0,
    /// It was read, and there is none.
    Missing = 1,
    /// It was written.
    Written = 2,
    /// A condition does not hold: `detail` is the index of the entry, `sequence` what it has, or
    /// zero if it is not there.
    ConditionFailed = 3,
    /// It cannot be fulfilled, now or ever; the payload says why, here and in those below.
    Unacceptable = 4,
    /// There is no room.
    Full = 5,
    /// Stored bytes are damaged.
    Corruption = 6,
    /// The store takes no writes any more.
    ReadOnly = 7,
    /// Too much waits already.
    Busy = 8,
    /// Anything else failed.
    Failed = 9,
    /// The key is not this node's: it is never forwarded twice.
    NotOwner = 10,
    /// Its time was over before it was begun.
    Late = 11,
    /// A page of a range; `detail` is 1 if it is the last.
    Page = 12,
}

/// The times of an ask at its owner, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerTimes {
    /// From the wake-up to the read that had all of it.
    pub receive_ns: u32,
    /// Behind others of the same read, or until another thread began.
    pub queue_ns: u32,
    /// In the store.
    pub execute_ns: u32,
    /// From the store's answer until it was sent.
    pub reply_ns: u32,
    /// Of `execute_ns`, the parts as `pellucid_embedded::parts` numbers them.
    pub parts_ns: [u32; PARTS_MAX],
}

impl OwnerTimes {
    /// All of it.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        [self.receive_ns, self.queue_ns, self.execute_ns, self.reply_ns]
            .into_iter()
            .map(u64::from)
            .sum()
    }
}

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The number of the ask.
    pub id: u64,
    /// The status.
    pub status: AnswerStatus,
    /// See [`AnswerStatus`].
    pub detail: u32,
    /// The sequence number of what was found or written.
    pub sequence: u64,
    /// The time at which it was written, in milliseconds since the Unix epoch.
    pub written_at_ms: u64,
    /// Length of the value in bytes.
    pub value_length: u64,
    /// Times at the owner.
    pub times: OwnerTimes,
    /// The value, or why there is none.
    pub payload: &'a [u8],
}

impl Answer<'_> {
    /// An answer that has nothing to tell but its status.
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

/// Anything that a connection may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// See [`Ask`].
    Ask(Ask<'a>),
    /// See [`Answer`].
    Answer(Answer<'a>),
    /// The answer to a ping of this number.
    Pong(u64),
}

/// Why bytes are no frame. The connection cannot go on, as nobody knows where the next one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// It would be longer than what is accepted.
    TooLong {
        /// Its length.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// The checksum is another one.
    Checksum,
    /// A field has a value that it cannot have.
    Malformed(&'static str),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::TooLong { bytes, max } => {
                write!(f, "a frame of {bytes} bytes, where {max} are accepted")
            }
            FrameError::Checksum => f.write_str("a frame whose checksum does not fit its bytes"),
            FrameError::Malformed(what) => write!(f, "a frame whose {what} cannot be"),
        }
    }
}

impl std::error::Error for FrameError {}

impl Ask<'_> {
    /// An ask that has nothing to say but its kind.
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
    /// If the key is longer than a store takes, the value beyond 4 GiB, a table's name beyond
    /// [`TABLE_NAME_BYTES_MAX`], or a trace's state beyond [`TRACE_STATE_BYTES_MAX`]: callers have
    /// checked.
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
        if let Some(TableOfAsk { name, part_length }) = self.table {
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

    /// The bytes by which the key finds its owner; nothing if the ask says what cannot be.
    #[must_use]
    pub fn owned_by(&self) -> Option<&[u8]> {
        match self.table {
            None => Some(self.key),
            Some(table) => self.key.get(..usize::from(table.part_length)),
        }
    }
}

impl Answer<'_> {
    /// Appends the answer to `out`, without its checksum: `finish_answer` puts it there, once it is
    /// known for how long the answer waited.
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

/// Notes in an answer at the beginning of `bytes` for how long it waited, and its checksum.
/// Returns its length in bytes.
pub(crate) fn finish_answer(bytes: &mut [u8], reply_ns: u32) -> usize {
    let length = PREFIX_BYTES + u32_at(bytes, 0) as usize;
    bytes[REPLY_NS_AT..REPLY_NS_AT + 4].copy_from_slice(&reply_ns.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[PREFIX_BYTES..length]);
    bytes[4..PREFIX_BYTES].copy_from_slice(&checksum.to_le_bytes());
    length
}

/// Appends the answer to a ping to `out`.
pub fn encode_pong(id: u64, out: &mut Vec<u8>) {
    let begin = begin_frame(out, id);
    out.extend_from_slice(&[PONG, 0, 0, 0]);
    finish_frame(out, begin);
}

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

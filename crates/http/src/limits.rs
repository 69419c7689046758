//! Every limit of the transport, by name.

use std::time::Duration;

/// Headers that one request may have.
pub const HEADERS_MAX: usize = 64;

/// Bytes that an event loop reads from a socket at a time, and the most that a connection may hold
/// unsent before its further requests wait.
pub const READ_BYTES_MAX: usize = 64 * 1024;

/// Connections that are read one after the other before the first of them is answered: enough for
/// the code of either to stay in the processor's caches, and few enough that the first does not
/// wait for long.
pub const AHEAD_CONNECTIONS_MAX: usize = 16;
/// Bytes for which there is room before a connection is read so; what has more is read on in its
/// turn.
pub const AHEAD_BYTES_MIN: usize = 16 * 1024;

/// How long a loop that is busy all the time looks away, so that it finds more at a time.
pub const GATHER_PAUSE: Duration = Duration::from_micros(20);
/// Connections that are enough to be served at once.
pub const GATHER_CONNECTIONS_MAX: usize = 32;
/// A loop makes such a pause if it was so many times as long at work lately as it was not.
pub const GATHER_WORK_TO_IDLE: u64 = 4;

/// A loop that found at least so many ready, and whose links have something to send, looks for more
/// to send with it first, so often at most: each time that a link sends costs both ends system
/// calls and a wake-up, for one request or for twenty.
pub const LINK_LOOK_READY_MIN: usize = 8;
/// See [`LINK_LOOK_READY_MIN`].
pub const LINK_LOOKS_MAX: usize = 4;

/// Connections whose responses are put by until others that became readable in the same wake-up
/// have theirs, and bytes of such responses: then all are written one after the other. Reading and
/// answering in one go and writing in another keeps the processor's caches with either, and a
/// client with many connections is woken once and not for each.
pub const BATCH_CONNECTIONS_MAX: usize = 32;
/// See [`BATCH_CONNECTIONS_MAX`].
pub const BATCH_BYTES_MAX: usize = 64 * 1024;
/// How long a response may be put by.
pub const BATCH_PAUSE_MAX: Duration = Duration::from_micros(100);

/// Responses that may wait unsent before the connection's further requests wait.
pub const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// Times in a row that one connection is served within a wake-up before its neighbours are.
pub const TURNS_MAX: usize = 16;

/// How long a request that was handed over goes on for a client that says that it sends no more.
/// Most of those have closed their sockets, and are gone (nginx and Go take all of them for it at
/// once); but HTTP/1.1 allows for one that waits for its answer still, as `nc -N` does.
pub const HALF_CLOSE_GRACE: Duration = Duration::from_secs(2);

/// Bytes that are read and thrown away after a refusal, so that the client gets to read it.
pub const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of one line within a chunked body: a chunk's size with its extensions, or a trailer.
pub const CHUNK_LINE_BYTES_MAX: usize = 4 * 1024;

/// Bodies that are compressed piece by piece at a time, over all event loops: each holds some 300
/// KiB. Beyond it, large bodies go out as they are.
pub const COMPRESSED_STREAMS_MAX: usize = 64;

/// A client that sends a large body at this rate or above is not taken for a slow one.
pub const BODY_BYTES_PER_SECOND_MIN: u64 = 16 * 1024;

/// The same for a client that takes its responses. It is so low that as many clients as may be
/// connected, with large responses for all, pass it over a slow network.
pub const RESPONSE_BYTES_PER_SECOND_MIN: u64 = 4 * 1024;

/// Limits of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request's head: request line and headers. Beyond it: 431, or 414 where already
    /// the request line is longer.
    pub head_bytes: usize,
    /// Connections open at a time. Beyond it, a new connection is closed at once.
    pub connections: usize,
    /// Requests that may wait for the store or be streamed at a time. Beyond it: 503.
    pub requests_in_flight: usize,
    /// Streams of HTTP/2 that a connection may have open at a time. A client is told, and a stream
    /// beyond it is refused.
    pub streams: usize,
    /// Bytes of request bodies held at a time, over all connections. Beyond it: 503.
    pub body_bytes_in_flight: usize,
    /// Bytes from which on a body is compressed for a client that asks for it; zero for never.
    pub compressed_from_bytes: usize,
    /// How long a connection may be open with nothing to do.
    pub idle: Duration,
    /// How long a client may take to send one request, or to take in one response, without any
    /// progress on our side's terms.
    pub exchange: Duration,
    /// Bytes a second that a client takes of its responses at least, on the whole and as long as
    /// any wait for it; it may be late by `exchange`. Who is slower is cut. Zero for none.
    pub response_bytes_per_second: u64,
    /// How long a client may take from its connection to the end of its TLS handshake.
    pub handshake: Duration,
    /// How long a stop waits for requests in flight.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            head_bytes: 16 * 1024,
            connections: 16 * 1024,
            requests_in_flight: 4 * 1024,
            streams: 128,
            body_bytes_in_flight: 192 * 1024 * 1024,
            compressed_from_bytes: 4 * 1024,
            idle: Duration::from_secs(300),
            exchange: Duration::from_secs(30),
            response_bytes_per_second: RESPONSE_BYTES_PER_SECOND_MIN,
            handshake: Duration::from_secs(10),
            stop: Duration::from_secs(10),
        }
    }
}

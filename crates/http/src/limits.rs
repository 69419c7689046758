//! Every limit of the transport, by name.

use std::time::Duration;

use pellucid_budget::Budget;

/// The most lines of headers that a request may be let have ([`Limits::headers`]).
pub const HEADERS_MAX: usize = 128;

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

/// The pause of a loop that is busy all the time, so that it finds more at a time.
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

/// Connections whose responses wait until others that became readable in the same wake-up
/// have theirs, and bytes of such responses: then all are written one after the other. Reading and
/// answering in one go and writing in another keeps the processor's caches with either, and a
/// client with many connections is woken once and not for each.
pub const BATCH_CONNECTIONS_MAX: usize = 32;
/// See [`BATCH_CONNECTIONS_MAX`].
pub const BATCH_BYTES_MAX: usize = 64 * 1024;
/// The longest wait of a response for the others.
pub const BATCH_PAUSE_MAX: Duration = Duration::from_micros(100);

/// Responses that may wait unsent before the connection's further requests wait.
pub const OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// Unsent bytes of a connection that count for no budget: small responses go out also where memory
/// is short, and as many connections as there may be hold little of them.
pub const OUTPUT_BYTES_FREE: usize = 16 * 1024;
/// A response beyond this is taken from the budget before it waits for its client; where the budget
/// has no room, the answer is 503.
pub const RESPONSE_BYTES_FREE: usize = READ_BYTES_MAX;

/// Times in a row that one connection is served within a wake-up before its neighbours are.
pub const TURNS_MAX: usize = 16;

/// Time for a request that was handed over and whose client says that it sends no more.
/// Most of those have closed their sockets, and are gone (nginx and Go take all of them for it at
/// once); but HTTP/1.1 allows for one that waits for its answer still, as `nc -N` does.
pub const HALF_CLOSE_GRACE: Duration = Duration::from_secs(2);

/// Bytes that are read and thrown away after a refusal, so that the client gets to read it.
pub const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// Bodies that are compressed piece by piece at a time, over all event loops: each holds some 300
/// KiB. Beyond it, large bodies go out as they are.
pub const COMPRESSED_STREAMS_MAX: usize = 64;

/// A client that sends a large body at this rate or above is not taken for a slow one. It may be
/// late by [`Limits::exchange`], whatever it sent before.
pub const BODY_BYTES_PER_SECOND_MIN: u64 = 16 * 1024;

/// Bytes of a body that are taken from no budget, so that connections which send next to nothing
/// keep nobody else from sending.
pub const BODY_BYTES_FREE: usize = 16 * 1024;

/// TLS handshakes that a loop goes on with in one wake-up, after all else: the signature of one
/// takes up to a millisecond (RSA), in which the others' requests wait.
pub const HANDSHAKES_PER_TURN_MAX: usize = 2;
/// Connections of a loop that may wait for that. Beyond it, a new one is closed.
pub const HANDSHAKES_WAITING_MAX: usize = 4_096;

/// The share of all connections that one address has, unless it is said: one part in so many.
const ADDRESSES_MIN: usize = 4;

/// The same for a client that takes its responses. It is so low that as many clients as may be
/// connected, with large responses for all, pass it over a slow network.
pub const RESPONSE_BYTES_PER_SECOND_MIN: u64 = 4 * 1024;

/// Limits of a listener.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a request's head: request line and headers. Beyond it: 431, or 414 where already
    /// the request line is longer.
    pub head_bytes: usize,
    /// Lines of headers of a request, [`HEADERS_MAX`] at most. Beyond it: 431.
    pub headers: usize,
    /// Connections open at a time. Beyond it, a new connection is closed at once.
    pub connections: usize,
    /// Connections open at a time from one address, or one network of 64 bits (IPv6). Beyond it, a
    /// new one is closed at once.
    pub connections_per_address: usize,
    /// The same for each address of this machine's loopback, where proxies are, and for Unix
    /// sockets, all together.
    pub connections_of_loopback: usize,
    /// Requests that may wait for the store or be streamed at a time. Beyond it: 503.
    pub requests_in_flight: usize,
    /// Streams of HTTP/2 that a connection may have open at a time. A client is told, and a stream
    /// beyond it is refused.
    pub streams: usize,
    /// Bytes of request bodies held at a time, over all connections. Beyond it: 503.
    pub body_bytes_in_flight: usize,
    /// The same for the streams of one connection.
    pub body_bytes_per_connection: usize,
    /// The same for all connections from one address.
    pub body_bytes_per_address: usize,
    /// The same for all requests of one account, where the service says whose they are.
    pub body_bytes_per_account: usize,
    /// Memory that bodies which come in and responses that wait for their clients may take, beside
    /// what else counts for it. Beyond it: 503, or the end of a connection whose client does not
    /// take its responses.
    pub memory: Budget,
    /// Bytes from which on a body is compressed for a client that asks for it; zero for never.
    pub compressed_from_bytes: usize,
    /// Time that a connection may be open with nothing to do.
    pub idle: Duration,
    /// Time that a client has to send one request, or to take in one response, without any
    /// progress on our side's terms.
    pub exchange: Duration,
    /// Bytes a second that a client takes of its responses at least, on the whole and as long as
    /// any wait for it; it may be late by `exchange`. Who is slower is cut. Zero for none.
    pub response_bytes_per_second: u64,
    /// Time that a client has from its connection to the end of its TLS handshake.
    pub handshake: Duration,
    /// Time that a stop waits for requests in flight.
    pub stop: Duration,
}

impl Limits {
    /// Bounds the connections of all addresses together, and those of each with them.
    pub fn set_connections(&mut self, connections: usize) {
        self.connections = connections;
        self.connections_of_loopback = connections;
        self.connections_per_address = connections.div_ceil(ADDRESSES_MIN);
    }

    /// Bounds the bodies that come in together, of which the largest has `largest_bytes`. A single
    /// client gets most of them, so that a large body passes, and something stays for others.
    pub fn set_bodies(&mut self, bytes: usize, largest_bytes: usize) {
        let single = (bytes / 8 * 7).max(largest_bytes).min(bytes);
        self.body_bytes_in_flight = bytes;
        self.body_bytes_per_connection = single;
        self.body_bytes_per_address = single;
        self.body_bytes_per_account = single;
    }
}

impl Default for Limits {
    fn default() -> Limits {
        const CONNECTIONS: usize = 16 * 1024;
        const BODY_BYTES: usize = 192 * 1024 * 1024;
        const BODY_BYTES_OF_ONE: usize = BODY_BYTES / 8 * 7;
        Limits {
            head_bytes: 16 * 1024,
            headers: 64,
            connections: CONNECTIONS,
            connections_per_address: CONNECTIONS / ADDRESSES_MIN,
            connections_of_loopback: CONNECTIONS,
            requests_in_flight: 4 * 1024,
            streams: 128,
            body_bytes_in_flight: BODY_BYTES,
            body_bytes_per_connection: BODY_BYTES_OF_ONE,
            body_bytes_per_address: BODY_BYTES_OF_ONE,
            body_bytes_per_account: BODY_BYTES_OF_ONE,
            memory: Budget::unbounded(),
            compressed_from_bytes: 4 * 1024,
            idle: Duration::from_secs(300),
            exchange: Duration::from_secs(30),
            response_bytes_per_second: RESPONSE_BYTES_PER_SECOND_MIN,
            handshake: Duration::from_secs(10),
            stop: Duration::from_secs(10),
        }
    }
}

//! The limits of the transport: constants, and the configurable [`Limits`].

use std::time::Duration;

use pellucid_budget::Budget;

/// Bytes of empty lines that are skipped before a request. Further ones belong to its head, so that
/// the limits of a head end a connection that sends nothing else.
pub(crate) const EMPTY_LINE_BYTES_MAX: u8 = 64;

/// The upper bound of [`Limits::headers`], the header lines of one request.
pub const HEADERS_MAX: usize = 128;

/// Bytes that an event loop reads from a socket at a time, and the most that a connection may hold
/// unsent before its further requests wait.
pub const READ_BYTES_MAX: usize = 64 * 1024;

/// Connections that are read one after the other before the first of them is answered. It is large
/// enough for the code of reading, and of answering, to stay in the processor's caches, and small
/// enough that the first connection does not wait for long.
pub const AHEAD_CONNECTIONS_MAX: usize = 16;
/// Free bytes that the buffer must have before a connection is read ahead. A connection that has
/// more to read is read on in its turn.
pub(crate) const AHEAD_BYTES_MIN: usize = 16 * 1024;

/// The pause of a busy loop, so that it finds more ready connections at a time.
pub(crate) const GATHER_PAUSE: Duration = Duration::from_micros(20);
/// Ready connections from which on a loop makes no pause to gather more.
pub(crate) const GATHER_CONNECTIONS_MAX: usize = 32;
/// The ratio of recent work to recent idle time from which on a loop makes such a pause.
pub(crate) const GATHER_WORK_TO_IDLE: u64 = 4;

/// Ready connections from which on a loop whose links have something to send first looks for more
/// to send with it: each sending of a link costs both ends system calls and a wake-up, for one
/// request or for twenty.
pub const LINK_LOOK_READY_MIN: usize = 8;
/// The most such looks before the links send; see [`LINK_LOOK_READY_MIN`].
pub(crate) const LINK_LOOKS_MAX: usize = 4;

/// The most connections in a batch. Their responses wait until the other connections that became
/// readable in the same wake-up have theirs; then all are written one after the other. Answering in
/// one pass and writing in another keeps the code of each pass in the processor's caches, and a
/// client with many connections is woken once and not for each.
pub(crate) const BATCH_CONNECTIONS_MAX: usize = 32;
/// The most bytes of responses in a batch; see [`BATCH_CONNECTIONS_MAX`].
pub(crate) const BATCH_BYTES_MAX: usize = 64 * 1024;
/// The longest time that a response waits in a batch.
pub(crate) const BATCH_PAUSE_MAX: Duration = Duration::from_micros(100);

/// Unsent response bytes of a connection beyond which its further requests wait.
pub(crate) const OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// Unsent bytes of a connection that are taken from no budget. So small responses go out even when
/// memory is short. Even with the most connections, their sum is small.
pub(crate) const OUTPUT_BYTES_FREE: usize = 16 * 1024;
/// A response beyond this is taken from the budget before it waits for its client; where the budget
/// has no room, the answer is 503.
pub(crate) const RESPONSE_BYTES_FREE: usize = READ_BYTES_MAX;

/// Times in a row that one connection is served within a wake-up before its neighbours are.
pub(crate) const TURNS_MAX: usize = 16;

/// The time for which a client that has sent FIN still counts as waiting for the answer to a
/// request that was handed over. Most such clients have closed their sockets and are gone (nginx
/// and Go treat all of them so at once). But HTTP/1.1 allows a client to close only its sending
/// side and wait for the answer, as `nc -N` does.
pub const HALF_CLOSE_GRACE: Duration = Duration::from_secs(2);

/// Bytes that are read and thrown away after a refusal, so that the client can read the refusal.
pub(crate) const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// Bodies that are compressed piece by piece at a time, over all event loops: each holds some 300
/// KiB. Beyond it, large bodies go out as they are.
pub(crate) const COMPRESSED_STREAMS_MAX: usize = 64;

/// The lowest rate at which a client may send a large body. It may pause for up to
/// [`Limits::exchange`] at any time.
pub(crate) const BODY_BYTES_PER_SECOND_MIN: u64 = 16 * 1024;

/// Bytes of a body that are taken from no budget, so that connections with small bodies do not
/// block others.
pub(crate) const BODY_BYTES_FREE: usize = 16 * 1024;

/// TLS handshakes that a loop continues in one wake-up, after all other work. The signature of one
/// handshake takes up to a millisecond (RSA), during which other requests wait.
pub const HANDSHAKES_PER_TURN_MAX: usize = 2;
/// Connections of a loop that may wait for their handshake. Beyond it, a new one is closed.
pub(crate) const HANDSHAKES_WAITING_MAX: usize = 4_096;

/// The divisor of the default share of one address: it may have one part in so many of all
/// connections, so that at least this many addresses can be served.
const ADDRESSES_MIN: usize = 4;

/// The default of [`Limits::response_bytes_per_second`], the lowest rate at which a client may take
/// its responses. It is so low that even the most clients, all with large responses, reach it over
/// a slow network.
pub(crate) const RESPONSE_BYTES_PER_SECOND_MIN: u64 = 4 * 1024;

/// Limits of a listener.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a request's head: request line and headers. Beyond it: 431, or 414 if the request
    /// line alone is longer.
    pub head_bytes: usize,
    /// Header lines of a request, [`HEADERS_MAX`] at most. Beyond it: 431.
    pub headers: usize,
    /// Connections open at a time. Beyond it, a new connection is closed at once.
    pub connections: usize,
    /// Connections open at a time from one IPv4 address, or one IPv6 /64 network. Beyond it, a new
    /// one is closed at once.
    pub connections_per_address: usize,
    /// Connections open at a time from each loopback address, where proxies are, and from all Unix
    /// sockets together.
    pub connections_of_loopback: usize,
    /// Requests that may wait for the store or be streamed at a time. Beyond it: 503.
    pub requests_in_flight: usize,
    /// HTTP/2 streams that a connection may have open at a time. The client is told this number; a
    /// stream beyond it is refused.
    pub streams: usize,
    /// Bytes of request bodies held at a time, over all connections. Beyond it: 503.
    pub body_bytes_in_flight: usize,
    /// Bytes of request bodies held at a time for the streams of one connection. Beyond it: 503.
    pub body_bytes_per_connection: usize,
    /// Bytes of request bodies held at a time for all connections from one address. Beyond it: 503.
    pub body_bytes_per_address: usize,
    /// Bytes of request bodies held at a time for all requests of one account, where the service
    /// names the account. Beyond it: 503.
    pub body_bytes_per_account: usize,
    /// The server's memory budget, from which incoming bodies and unsent responses are taken; other
    /// parts of the server share it. Beyond it: 503, or the end of a connection whose client does
    /// not take its responses.
    pub memory: Budget,
    /// The body length in bytes from which on it is compressed for a client that asks for it; zero
    /// for never.
    pub compressed_from_bytes: usize,
    /// Time that a connection may be open without a request.
    pub idle: Duration,
    /// Time that a client has to send the head or a small body of a request; the longest pause
    /// within a large body; and the longest time without progress while responses wait for it.
    pub exchange: Duration,
    /// The lowest average rate at which a client must take its responses while any wait for it; it
    /// may be late by `exchange`. A slower client is cut. Zero for no such limit.
    pub response_bytes_per_second: u64,
    /// Time that a client has from its connection to the end of its TLS handshake.
    pub handshake: Duration,
    /// Time for which a stopping server waits for requests in flight.
    pub stop: Duration,
}

impl Limits {
    /// Sets the limit of connections, and derives those per address and of loopback from it.
    pub fn set_connections(&mut self, connections: usize) {
        self.connections = connections;
        self.connections_of_loopback = connections;
        self.connections_per_address = connections.div_ceil(ADDRESSES_MIN);
    }

    /// Sets the limit of body bytes in flight to `bytes`, and derives those per connection, address
    /// and account from it. A single client gets most of them, or `largest_bytes` if that is more,
    /// so that a large body passes and something is left for others.
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

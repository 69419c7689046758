//! One connection: what it holds between two turns of its event loop.

use std::collections::VecDeque;

use mio::net::TcpStream;
use pellucid_account::{Flight, Record, RequestFacts, Timeline};
use pellucid_clock::Ticks;

use crate::chunked::ChunkedDecoder;
use crate::client_watch::ClientWatch;
use crate::event_loop::Turn;
use crate::gather::Peer;
use crate::http2;
use crate::response::{Manner, Streamed};
use crate::service::BodySource;
use crate::taking::Taking;
use crate::tls::Session;

/// A connection. While it is idle it holds no buffer: requests are parsed and responses written in
/// buffers of the event loop, and only what is left over moves here.
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    /// What stands between socket and buffers on a listener with TLS.
    pub(crate) tls: Option<Box<Session>>,
    pub(crate) generation: u32,
    /// Number of the connection on this server, for the account.
    pub(crate) number: u32,
    /// Bytes that were read and not yet parsed.
    pub(crate) input: Vec<u8>,
    /// Fewer bytes of input than this hold no whole request, so parsing them again is pointless.
    pub(crate) wanted_bytes: usize,
    /// The request whose chunked body is coming in.
    pub(crate) chunked: Option<Box<ChunkedRequest>>,
    /// Bytes that the kernel has not taken yet.
    pub(crate) output: Vec<u8>,
    /// Responses that end within `output`, or at a position of the buffer being written.
    pub(crate) finished: VecDeque<Finished>,
    pub(crate) stage: Stage,
    /// Responses of this wake-up are put by, to be written with those of other connections.
    pub(crate) is_put_by: bool,
    /// The connection ends when the output is out.
    pub(crate) closing: Closing,
    /// What this connection holds of the budget for bodies.
    pub(crate) reserved_bytes: usize,
    /// When the first byte of the incomplete request arrived.
    pub(crate) begun: Option<Begun>,
    /// What profiles know the incomplete request by, if it was sampled; or zero.
    pub(crate) early: u64,
    /// When anything last went in or out.
    pub(crate) progress_at: Ticks,
    /// How fast the client takes its responses.
    pub(crate) taking: Taking,
    /// It is known which protocol the client speaks.
    pub(crate) is_settled: bool,
    /// Since when it is known that the peer sends no more.
    pub(crate) ended_at: Option<Ticks>,
    /// The peer neither sends nor takes any more: the connection was reset, or closed by both.
    pub(crate) is_gone: bool,
    /// All that the kernel had was read, and no event has come since: reading again would be a
    /// system call for nothing.
    pub(crate) is_drained: bool,
}

/// What the connection is doing.
pub(crate) enum Stage {
    /// Reading and answering requests.
    Serving,
    /// A request was handed over; nothing is read until it is back.
    Waiting(ParkingPlace),
    /// A response is streamed; nothing is read until it is out.
    Streaming(Box<Streaming>),
    /// Streams of HTTP/2, each a request of its own.
    Http2(Box<http2::Session>),
    /// The service takes the connection over once its last response is out.
    Leaving,
    /// The last response is out; what the client still sends is thrown away for a while, because
    /// closing at once would make the kernel discard the response.
    Lingering { left_bytes: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    No,
    /// All that the client sent was read.
    Cleanly,
    /// The client may still be sending what we will not read.
    AfterLinger,
    /// The socket failed.
    AtOnce,
}

/// A request whose body comes in chunks.
pub(crate) struct ChunkedRequest {
    pub(crate) head: Vec<u8>,
    pub(crate) decoder: ChunkedDecoder,
    /// Bytes that the request took on the wire.
    pub(crate) wire_bytes: usize,
}

/// A request that was handed over.
pub(crate) struct Parked {
    pub(crate) timeline: Timeline,
    pub(crate) facts: RequestFacts,
    pub(crate) manner: Manner,
    /// Shows the request among those under way.
    pub(crate) flight: Flight,
    /// Told when the client is gone, where somebody wants to know.
    pub(crate) watch: Option<ClientWatch>,
}

/// Places that a loop keeps for the next requests that are handed over.
pub(crate) const SPARE_PLACES_MAX: usize = 64;

/// Where a request is parked: memory that its loop uses again for the next one.
pub(crate) type ParkingPlace = Box<Option<Parked>>;

/// A response that is streamed.
pub(crate) struct Streaming {
    pub(crate) source: Box<dyn BodySource>,
    pub(crate) framing: Streamed,
    pub(crate) timeline: Timeline,
    pub(crate) facts: RequestFacts,
    pub(crate) keep_alive: bool,
    /// Shows the request among those under way.
    pub(crate) _flight: Flight,
}

/// A response that is encoded; it is written once everything before `end` is.
pub(crate) struct Finished {
    /// None where accounting is off.
    pub(crate) record: Option<Record>,
    pub(crate) end: usize,
    /// What the connection had spent encrypting when it was encoded, in ticks.
    pub(crate) encrypted_ticks: u64,
}

/// When a request began to come in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) arrived: Ticks,
    pub(crate) attended: Ticks,
    /// On the loop's clock also where accounting is off, for time limits.
    pub(crate) at: Ticks,
    /// What the connection had spent decrypting until then, in ticks.
    pub(crate) decrypted_ticks: u64,
}

impl Connection {
    pub(crate) fn new(socket: TcpStream, number: u32, generation: u32, now: Ticks) -> Connection {
        Connection {
            socket,
            tls: None,
            generation,
            number,
            input: Vec::new(),
            wanted_bytes: 0,
            chunked: None,
            output: Vec::new(),
            finished: VecDeque::new(),
            stage: Stage::Serving,
            is_put_by: false,
            closing: Closing::No,
            reserved_bytes: 0,
            begun: None,
            early: 0,
            progress_at: now,
            taking: Taking::default(),
            is_settled: false,
            ended_at: None,
            is_gone: false,
            is_drained: false,
        }
    }

    /// Notes an event: what it says of the peer, and that there may be something to read.
    #[inline]
    pub(crate) fn note_event(&mut self, peer: Peer, woke: Ticks) {
        if peer != Peer::Open {
            self.ended_at.get_or_insert(woke);
            self.is_gone |= peer == Peer::Gone;
        }
        self.is_drained = false;
    }

    /// Whether it is known that the peer sends no more: then a read brings the end, or an error.
    #[inline]
    pub(crate) fn is_ended(&self) -> bool {
        self.ended_at.is_some()
    }

    /// Whether only the socket's failure is left to be told: nothing that the client has sent will
    /// be read, and nothing that is sent arrives.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_gone && matches!(self.stage, Stage::Waiting(_) | Stage::Streaming(_))
    }

    /// A request whose first byte the wake-up of `turn` has brought.
    #[inline]
    pub(crate) fn begins(&self, turn: Turn) -> Begun {
        let Turn { woke, attended, .. } = turn;
        let decrypted_ticks = self.tls.as_ref().map_or(0, |tls| tls.decrypted_before_ticks());
        Begun { arrived: woke, attended, at: woke, decrypted_ticks }
    }

    /// What was spent encrypting until now, in ticks.
    #[inline]
    pub(crate) fn encrypted_ticks(&self) -> u64 {
        self.tls.as_ref().map_or(0, |tls| tls.encrypted_ticks())
    }

    /// Whether something waits until the kernel takes it.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.output.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Whether the client has all of its responses that there are.
    pub(crate) fn has_caught_up(&self) -> bool {
        let is_sending = match &self.stage {
            Stage::Streaming(_) => true,
            Stage::Http2(session) => session.is_sending(),
            _ => false,
        };
        !is_sending && !self.has_unsent()
    }

    /// Whether its next step takes so long that others have their turn first.
    pub(crate) fn is_costly(&self) -> bool {
        match &self.stage {
            Stage::Streaming(streaming) => streaming.source.is_costly(),
            Stage::Http2(session) => session.is_costly(),
            _ => false,
        }
    }

    /// Whether the next request may be looked at.
    pub(crate) fn may_serve(&self) -> bool {
        matches!(self.stage, Stage::Serving)
            && self.closing == Closing::No
            && self.output.is_empty()
    }

    /// Whether all that there is to do is to read the next request and to answer it.
    pub(crate) fn may_be_read_ahead(&self) -> bool {
        let is_plain = self.tls.is_none() && self.is_settled;
        is_plain && !self.is_put_by && self.finished.is_empty() && self.is_idle()
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.may_serve() && self.begun.is_none() && self.input.is_empty() && self.chunked.is_none()
    }

    /// Keeps what of `input` was not used. `input` is the connection's own buffer, taken out.
    pub(crate) fn put_back(&mut self, mut input: Vec<u8>, used: usize) {
        assert!(self.input.is_empty(), "the input was taken out to be parsed");
        input.drain(..used);
        if !input.is_empty() {
            self.input = input;
        }
    }
}

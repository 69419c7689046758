//! A sharded cluster: every key on one of several nodes, and any node takes any request.
//!
//! A node that is asked for a key of another's forwards the request and the other's answer back. In
//! the study that this comes from, forwarding was everything: a client of HTTP with its own
//! threads, its allocations and its locks. Here an event loop has one connection to each peer
//! ([`Peers`]), on which many asks are under way at once; an ask is a frame in that connection's
//! buffer, sent with others at the end of the wake-up, and its answer completes the request on the
//! same loop. The owner's loop serves frames as it serves requests ([`Callers`]).
//!
//! The crate knows neither HTTP nor which APIs there are; `server` brings these.

mod addresses;
mod board;
mod callers;
mod clipped;
mod cluster;
mod frame;
mod handshake;
mod link;
mod outcome;
mod peers;
mod range;
mod remembered;
mod slab;
mod socket;
mod timer;

pub use board::{PeerFigures, PeerState, PeerView};
pub use callers::{CallerId, Callers, Reply, SERVED_LATER_MAX};
pub use clipped::clipped_ns;
pub use cluster::{Cluster, ClusterOptions, IN_FLIGHT_DEFAULT, News, WAIT_DEFAULT};
pub use frame::{
    ANSWER_BYTES, ASK_BYTES, Answer, AnswerStatus, Ask, AskKind, CONTENT_BYTES_MAX, Frame,
    FrameError, OwnerTimes, PREFIX_BYTES, PROTOCOL, TraceOfAsk, decode, encode_pong, frame_length,
};
pub use handshake::{Hello, PEER_PATH, Refused, Welcome};
pub use outcome::{Asked, Failure, Outcome, Times};
pub use peers::Peers;
pub use range::{PAGE_BYTES, Page, PageEntry, RangeAsk};
pub use remembered::{Remembered, RememberedError};

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

#![forbid(unsafe_code)]

mod addresses;
mod board;
mod callers;
mod clipped;
mod cluster;
mod decode;
mod frame;
mod handshake;
mod link;
mod merge;
mod numbers;
mod operations;
mod outcome;
mod outlet;
mod owner;
mod peers;
mod range;
mod remembered;
mod session;
mod slab;
mod socket;

pub use board::{PeerFigures, PeerState, PeerView};
pub use callers::{CallerId, Callers, Reply, SERVED_LATER_MAX};
pub use clipped::clipped_ns;
pub use cluster::{Cluster, ClusterOptions, GUEST, IN_FLIGHT_DEFAULT, News, WAIT_DEFAULT};
pub use decode::decode;
pub use frame::{
    ANSWER_BYTES, ASK_BYTES, Answer, AnswerStatus, Ask, AskKind, CONTENT_BYTES_MAX, Frame,
    FrameError, OwnerTimes, PREFIX_BYTES, PROTOCOL, PROTOCOL_OF_ANY_VERSION, TABLE_NAME_BYTES_MAX,
    TRACE_STATE_BYTES_MAX, TableOfAsk, TraceOfAsk, encode_pong,
};
pub use handshake::{Greeted, Hello, PEER_PATH, Refused};
pub use merge::{MergedEntry, RangePages};
pub use operations::PartOperation;
pub use outcome::{Asked, Failure, Outcome, Times};
pub use owner::{
    FORWARD_PARTS, NETWORK, OWNER_JOURNAL, OWNER_LEDGER, OWNER_OTHER, OWNER_QUEUE, OWNER_RECEIVE,
    OWNER_WAIT, OwnerAnswer, PEER_WAIT,
};
pub use peers::Peers;
pub use range::{PAGE_BYTES, Page, PageEntry, RangeAsk};
pub use remembered::{Held, Remembered, RememberedError};
pub use session::{BUNDLE_BYTES_MAX, KeyShare, Opener, Parties, Sealer, Session, Side};

//! A sharded cluster: each key lives on one of several nodes, and any node accepts any request.
//!
//! A node that receives a request for another node's key forwards it to that node, the key's owner,
//! and returns the owner's answer. In the study behind this design, forwarding dominated the cost:
//! it used an HTTP client with its own threads, allocations and locks. Here each event loop has one
//! connection to each peer ([`Peers`]), with many asks in flight at once. An ask is a frame in that
//! connection's buffer. All frames of a wake-up are sent together at its end, and the answer
//! completes the request on the same loop. The owner's loop serves frames as it serves requests
//! ([`Callers`]).
//!
//! The crate knows nothing of HTTP or of the APIs; the `server` crate adds both.

#![forbid(unsafe_code)]

mod addresses;
mod callers;
mod cluster;
mod decode;
mod frame;
mod handshake;
mod link;
mod merge;
mod numbers;
mod operations;
mod outcome;
mod owner;
mod peer_status;
mod peers;
mod range;
mod sealed_writer;
mod session;
mod slab;
mod socket;
mod stored_node_list;

pub use callers::{Callers, DeferredAsk, Reply, SERVED_LATER_MAX};
pub use cluster::{Cluster, ClusterEvent, ClusterOptions, GUEST, IN_FLIGHT_DEFAULT, WAIT_DEFAULT};
pub use decode::decode;
pub use frame::{
    ANSWER_BYTES, ASK_BYTES, Answer, AnswerStatus, Ask, AskKind, AskTable, AskTrace,
    CONTENT_BYTES_MAX, Frame, FrameError, OwnerTimes, PREFIX_BYTES, PROTOCOL,
    PROTOCOL_OF_ANY_VERSION, TABLE_NAME_BYTES_MAX, TRACE_STATE_BYTES_MAX, clipped_ns, encode_pong,
};
pub use handshake::{HandshakeRefusal, Hello, PEER_PATH, UnverifiedCaller};
pub use merge::{MergedEntry, RangePages};
pub use operations::PartOperation;
pub use outcome::{AskTimes, Failure, Outcome, SendResult};
pub use owner::{
    FORWARD_PARTS, NETWORK, OWNER_JOURNAL, OWNER_LEDGER, OWNER_OTHER, OWNER_QUEUE, OWNER_RECEIVE,
    OWNER_WAIT, OwnerAnswer, PEER_WAIT,
};
pub use peer_status::{PeerFigures, PeerState, PeerView};
pub use peers::Peers;
pub use range::{PAGE_BYTES, Page, PageEntry, RangeAsk, VALUE_BYTES_MAX};
pub use session::{KeyDerivationInputs, KeyShare, Opener, RECORD_BYTES_MAX, Sealer, Session, Side};
pub use stored_node_list::{NodeListError, StoreContents, StoredNodeList};

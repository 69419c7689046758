//! The HTTP transport: connections, parsing, limits, event loops.
//!
//! One event loop per core owns its connections and runs each request to completion on its own
//! thread: in the study that Pellucid comes from, handing a request to another thread and back cost
//! a third of its time. Only work that would block leaves the thread, and the request's account
//! shows it. The transport knows nothing about the requests that it serves: a [`Service`] answers
//! them.
//!
//! Every buffer, wait and count has a limit with a name; see [`Limits`].

#![forbid(unsafe_code)]

mod abort_reason;
mod acceptor;
mod accounts;
mod batch;
mod bodies;
mod body_source;
mod caller;
mod client_watch;
mod clients;
mod compression;
mod connection;
mod disconnects;
mod dispatch;
mod event_loop;
mod h1;
mod h2;
mod limits;
mod links;
mod listener;
mod loop_load;
mod mailbox;
mod output;
mod pace;
#[cfg(test)]
mod protocol_tests;
mod read_ahead;
mod ready_list;
mod refusal;
mod request;
mod response;
mod server;
mod service;
mod shared_state;
mod slots;
mod socket;
mod socket_file;
mod tls;
mod transport;
mod workspace;

/// The address of a listener.
pub use pellucid_client::http::Address as ListenAddress;

pub use abort_reason::AbortReason;
pub use acceptor::descriptors_max;
pub use body_source::{BodySource, FillResult, ServiceResult};
pub use client_watch::ClientWatch;
pub use clients::ClientOrigin;
pub use compression::{Coding, CompressionFigures, plain_tag};
pub use disconnects::{DisconnectCounts, DisconnectFigures, DisconnectReason};
pub use h1::chunked::ChunkedDecoder;
pub use h1::encode::write_decimal;
pub use h1::parse::{Framing, Head, HeaderSpace, parse};
pub use limits::{
    AHEAD_CONNECTIONS_MAX, HALF_CLOSE_GRACE, HANDSHAKES_PER_TURN_MAX, HEADERS_MAX,
    LINK_LOOK_READY_MIN, Limits, READ_BYTES_MAX,
};
pub use links::{LinkContext, LinkEvent};
pub use listener::{Listener, listen};
pub use mailbox::{Admission, AdmissionSender, BodyWaker, Completer, Messenger, Ticket};
pub use refusal::{Denial, Refusal};
pub use request::{Header, Request};
pub use response::Response;
pub use server::{Endpoint, Server, ServerGauge};
pub use service::{AdmissionContext, Exchange, Service};
pub use shared_state::ServerStats;
pub use tls::{CertificateError, Certificates, TlsFigures};

//! The ways in which a request ends before its response is sent.

use crate::disconnects::DisconnectReason;

/// The reason for which a request ends before its response is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortReason {
    /// The client has closed or reset its connection, or its HTTP/2 stream.
    ClientGone,
    /// The server has cut the connection or the stream: it stops, has no memory for unsent
    /// responses, or the client violated the protocol.
    Cut,
    /// The client took its response too slowly, or took nothing of it.
    TimedOut,
    /// The source of the response's body could not complete it.
    Failed,
}

impl From<DisconnectReason> for AbortReason {
    fn from(cut: DisconnectReason) -> AbortReason {
        match cut {
            DisconnectReason::Idle
            | DisconnectReason::HandshakeSlow
            | DisconnectReason::RequestSlow
            | DisconnectReason::ResponseStalled
            | DisconnectReason::ResponseSlow => AbortReason::TimedOut,
            DisconnectReason::Full
            | DisconnectReason::Address
            | DisconnectReason::Handshakes
            | DisconnectReason::System
            | DisconnectReason::Stopping
            | DisconnectReason::Memory => AbortReason::Cut,
        }
    }
}

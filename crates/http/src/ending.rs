//! The ways in which a request ends before its response is sent.

use crate::cuts::Cut;

/// The reason for which a request ends before its response is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
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

impl From<Cut> for Ending {
    fn from(cut: Cut) -> Ending {
        match cut {
            Cut::Idle
            | Cut::HandshakeSlow
            | Cut::RequestSlow
            | Cut::ResponseStalled
            | Cut::ResponseSlow => Ending::TimedOut,
            Cut::Full
            | Cut::Address
            | Cut::Handshakes
            | Cut::System
            | Cut::Stopping
            | Cut::Memory => Ending::Cut,
        }
    }
}

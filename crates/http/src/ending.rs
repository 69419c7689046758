//! Endings of requests whose responses do not get out.

use crate::cuts::Cut;

/// The reason for which a request ends before its response is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client has closed or reset its connection, or its stream of HTTP/2.
    ClientGone,
    /// The server has cut the connection, or the stream: it stops, has no memory for what the
    /// client leaves lying, or does not bear with what the client sends.
    Cut,
    /// The client took its response too slowly, or nothing of it.
    TimedOut,
    /// The body of the response broke off at its source.
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

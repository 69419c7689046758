//! The parts of phases that the transport measures.

use crate::phase::Phase;

/// A part of one of the phases around `execute`: it lies within its phase, and is never longer.
/// The parts of `execute` are the store's ([`crate::Part`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TransportPart {
    /// Decrypting what was read while the request came in: part of `receive`.
    Decrypt = 0,
    /// Compressing the response: part of `encode`.
    Compress = 1,
    /// Encrypting what was written until the response was out: part of `write`.
    Encrypt = 2,
}

/// All of them, in the order of a request.
pub const TRANSPORT_PARTS: [TransportPart; 3] =
    [TransportPart::Decrypt, TransportPart::Compress, TransportPart::Encrypt];

impl TransportPart {
    /// The name in headers, metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TransportPart::Decrypt => "decrypt",
            TransportPart::Compress => "compress",
            TransportPart::Encrypt => "encrypt",
        }
    }

    /// The phase that it is a part of.
    #[must_use]
    pub const fn phase(self) -> Phase {
        match self {
            TransportPart::Decrypt => Phase::Receive,
            TransportPart::Compress => Phase::Encode,
            TransportPart::Encrypt => Phase::Write,
        }
    }

    /// The part of `phase`, if it has one.
    #[must_use]
    pub fn of(phase: Phase) -> Option<TransportPart> {
        TRANSPORT_PARTS.into_iter().find(|part| part.phase() == phase)
    }

    /// The part of the phase of this name, if it has one.
    #[must_use]
    pub fn of_named(phase: &str) -> Option<TransportPart> {
        TRANSPORT_PARTS.into_iter().find(|part| part.phase().name() == phase)
    }
}

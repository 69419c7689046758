//! The parts of phases that the transport measures: cryptography and compression.

use crate::compact_duration::CompactDuration;
use crate::phase::Phase;

/// A part of one of the phases around `execute`: it lies within its phase, and is never longer.
/// The parts of `execute` are the store's ([`crate::Part`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TransportPart {
    /// Decrypting the input while the request came in: part of `receive`.
    Decrypt = 0,
    /// Compressing the response: part of `encode`.
    Compress = 1,
    /// Encrypting the output until the response was sent: part of `write`.
    Encrypt = 2,
}

/// All parts, in the order in which they occur in a request.
pub const TRANSPORT_PARTS: [TransportPart; 3] =
    [TransportPart::Decrypt, TransportPart::Compress, TransportPart::Encrypt];

impl TransportPart {
    /// The name, as in headers, metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TransportPart::Decrypt => "decrypt",
            TransportPart::Compress => "compress",
            TransportPart::Encrypt => "encrypt",
        }
    }

    /// The phase to which it belongs.
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

/// The transport's times of one request, in one word: 16 bits for each part. Most requests have no
/// such parts, and the word is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TransportTicks(u64);

impl TransportTicks {
    /// The bits of each part.
    pub(crate) const PART_BITS: u32 = 16;
    /// The bits of all parts.
    const BITS: u32 = Self::PART_BITS * TRANSPORT_PARTS.len() as u32;

    /// The times in the lower bits of `bits`; the other bits are ignored.
    #[inline]
    pub(crate) fn from_bits(bits: u64) -> TransportTicks {
        TransportTicks(bits & ((1 << Self::BITS) - 1))
    }

    #[inline]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn set(&mut self, part: TransportPart, ticks: u64) {
        let at = part as u32 * Self::PART_BITS;
        self.0 &= !(u64::from(u16::MAX) << at);
        self.0 |= u64::from(CompactDuration::of(ticks).bits()) << at;
    }

    /// Ticks of a part, within 0.05 %.
    #[inline]
    pub(crate) fn get(self, part: TransportPart) -> u64 {
        CompactDuration::from_bits((self.0 >> (part as u32 * Self::PART_BITS)) as u16).ticks()
    }
}

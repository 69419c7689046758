//! Responses whose bodies wait for their clients' windows.

use std::task::{Context, Waker};

use bytes::Bytes;
use h2::{Reason, SendStream};
use pellucid_account::{Flight, RequestFacts, Timeline, TransportPart};
use pellucid_budget::Share;
use pellucid_clock::Ticks;

use crate::failures::fill;
use crate::requests::saturating_u32;
use crate::service::{BodySource, Filled};
use crate::taking::Taking;

/// A response whose body waits for the client's window.
pub(super) struct Sending {
    pub(super) stream: SendStream<Bytes>,
    /// Bytes that are there and not given to the protocol.
    pub(super) pending: Bytes,
    /// What brings more; nothing if `pending` is the end.
    pub(super) source: Option<Box<dyn BodySource>>,
    pub(super) timeline: Timeline,
    pub(super) facts: RequestFacts,
    pub(super) progress_at: Ticks,
    /// How fast the client takes it. Streams of one connection share its rate, so what a stream
    /// takes counts as often as there are streams.
    pub(super) taking: Taking,
    /// What it holds of the server's memory, beyond a piece.
    pub(super) memory: Option<Share>,
    /// Whether it counts as a request in flight.
    pub(super) is_counted: bool,
    /// Shows the request among those under way.
    pub(super) _flight: Flight,
}

/// What the protocol took of a response.
pub(super) enum Sent {
    /// The client's window is closed.
    Nothing,
    Bytes(usize),
    /// These, and it was all.
    Last(usize),
    /// The client has given the stream up, or we have.
    Gone,
}

impl Sending {
    /// Gives the protocol the next piece, as far as the client's window takes it.
    pub(super) fn step(&mut self) -> Sent {
        if self.pending.is_empty()
            && let Some(source) = &mut self.source
        {
            let mut piece = Vec::new();
            let filled = fill(&mut **source, &mut piece);
            let piece_bytes = saturating_u32(piece.len());
            self.facts.response_bytes = self.facts.response_bytes.saturating_add(piece_bytes);
            self.pending = Bytes::from(piece);
            match filled {
                Filled::More => {}
                Filled::Waiting if self.pending.is_empty() => return Sent::Nothing,
                Filled::Waiting => {}
                Filled::Last => {
                    let ticks = source.compress_ticks();
                    self.timeline.set_transport_part(TransportPart::Compress, ticks);
                    self.source = None;
                }
                Filled::Broken => {
                    self.stream.send_reset(Reason::INTERNAL_ERROR);
                    return Sent::Gone;
                }
            }
        }
        self.stream.reserve_capacity(self.pending.len());
        let count = self.stream.capacity().min(self.pending.len());
        if count == 0 && !self.pending.is_empty() {
            let closed = self.stream.poll_reset(&mut Context::from_waker(Waker::noop()));
            return if closed.is_ready() { Sent::Gone } else { Sent::Nothing };
        }
        let piece = self.pending.split_to(count);
        let is_last = self.pending.is_empty() && self.source.is_none();
        match self.stream.send_data(piece, is_last) {
            Err(_) => Sent::Gone,
            Ok(()) if is_last => Sent::Last(count),
            Ok(()) => Sent::Bytes(count),
        }
    }

    /// Notes what the client took of this one among `streams` that are sent.
    pub(super) fn note_taken(&mut self, count: usize, streams: usize, now: Ticks) {
        let shared = (count as u64).saturating_mul(streams as u64);
        self.taking.note(shared, !self.pending.is_empty(), now);
    }
}

//! Responses whose bodies wait for the flow-control windows of their clients.

use std::task::{Context, Waker};

use bytes::Bytes;
use h2::{Reason, SendStream};
use pellucid_account::{InFlightGuard, TransportPart};
use pellucid_budget::Share;
use pellucid_clock::Ticks;

use crate::accounts::{Trace, saturating_u32};
use crate::body_source::{BodySource, FillResult};
use crate::dispatch::fill_contained;
use crate::pace::Pace;

/// A response whose body waits for the client's window.
pub(super) struct PendingResponse {
    pub(super) stream: SendStream<Bytes>,
    /// Bytes that are ready and not yet given to the protocol.
    pub(super) pending: Bytes,
    /// The source of further pieces; none if `pending` is the last one.
    pub(super) source: Option<Box<dyn BodySource>>,
    pub(super) trace: Trace,
    /// The pace at which the client takes the response. Streams of one connection share its rate,
    /// so the bytes of a stream are multiplied by the number of streams.
    pub(super) pace: Pace,
    /// The part of the server's memory that a large response holds; none for one that is sent in
    /// pieces.
    pub(super) memory: Option<Share>,
    /// True if it counts as a request in flight.
    pub(super) is_counted: bool,
    /// Shows the request among those under way.
    pub(super) _flight: InFlightGuard,
}

/// The result of giving the protocol a part of a response.
pub(super) enum SendResult {
    /// The client's window is closed.
    Nothing,
    /// The protocol took this many bytes, and more follow.
    Bytes(usize),
    /// The protocol took this many bytes, the last ones.
    Last(usize),
    /// The client has reset the stream.
    Gone,
    /// The source could not complete the body.
    Broken,
}

impl PendingResponse {
    /// Gives the protocol as much of the next piece as the client's window allows.
    pub(super) fn step(&mut self) -> SendResult {
        if self.pending.is_empty()
            && let Some(source) = &mut self.source
        {
            let mut piece = Vec::new();
            let filled = fill_contained(&mut **source, &mut piece);
            let piece_bytes = saturating_u32(piece.len());
            let facts = &mut self.trace.facts;
            facts.response_bytes = facts.response_bytes.saturating_add(piece_bytes);
            self.pending = Bytes::from(piece);
            match filled {
                FillResult::More => {}
                FillResult::Waiting if self.pending.is_empty() => return self.nothing(),
                FillResult::Waiting => {}
                FillResult::Last => {
                    let ticks = source.compress_ticks();
                    self.trace.timeline.set_transport_part(TransportPart::Compress, ticks);
                    self.source = None;
                }
                FillResult::Broken => {
                    self.stream.send_reset(Reason::INTERNAL_ERROR);
                    return SendResult::Broken;
                }
            }
        }
        self.stream.reserve_capacity(self.pending.len());
        let count = self.stream.capacity().min(self.pending.len());
        if count == 0 && !self.pending.is_empty() {
            return self.nothing();
        }
        let piece = self.pending.split_to(count);
        let is_last = self.pending.is_empty() && self.source.is_none();
        match self.stream.send_data(piece, is_last) {
            Err(_) => SendResult::Gone,
            Ok(()) if is_last => SendResult::Last(count),
            Ok(()) => SendResult::Bytes(count),
        }
    }

    /// The result if nothing can be given now: the stream waits, or it is gone.
    fn nothing(&mut self) -> SendResult {
        let closed = self.stream.poll_reset(&mut Context::from_waker(Waker::noop()));
        if closed.is_ready() { SendResult::Gone } else { SendResult::Nothing }
    }

    /// Notes that the client took `count` bytes of this response, one of `streams` that are sent.
    /// It waits for the client only if it took none: else the rest may wait for other streams.
    pub(super) fn note_taken(&mut self, count: usize, streams: usize, now: Ticks) {
        let shared = (count as u64).saturating_mul(streams as u64);
        self.pace.note(shared, count == 0 && !self.pending.is_empty(), now);
    }
}

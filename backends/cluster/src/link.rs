//! The link to one peer: its connection, and the asks that wait for it or are in flight.

use std::collections::VecDeque;
use std::ops::Range;

use mio::net::TcpStream;
use pellucid_clock::Ticks;

use crate::sealed_writer::SealedWriter;
use crate::session::{KeyShare, Opener};

/// An output buffer with a larger capacity is freed once it is empty.
const OUT_KEPT_BYTES: usize = 1024 * 1024;

/// A connection and its stage.
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    pub(crate) stage: Stage,
    /// The deadline of the handshake.
    pub(crate) by: Ticks,
    /// True if the peer has closed its sending direction; bytes sent before may still be unread.
    pub(crate) is_read_closed: bool,
}

/// The stage of a connection.
pub(crate) enum Stage {
    /// The kernel is connecting.
    Connecting,
    /// The HTTP request is being sent, or its response is awaited.
    Greeting(Box<HandshakeExchange>),
    /// This node's proof was sent; the peer's verdict is awaited.
    Proving,
    /// The handshake is complete: asks can be sent.
    Ready,
}

/// The HTTP request of the handshake, and its response.
pub(crate) struct HandshakeExchange {
    /// The request.
    pub(crate) hello: Vec<u8>,
    /// Bytes of the request that the kernel has taken.
    pub(crate) sent: usize,
    pub(crate) share: KeyShare,
    /// The bytes of the response so far.
    pub(crate) input: Vec<u8>,
}

/// The encryption of both directions of a connection.
pub(crate) struct Channel {
    pub(crate) writer: SealedWriter,
    pub(crate) opener: Opener,
}

/// The link of one event loop to one peer.
#[derive(Default)]
pub(crate) struct Link {
    pub(crate) connection: Option<Connection>,
    /// The time of the next attempt, while there is no connection.
    pub(crate) retry_at: Ticks,
    /// The encrypted channel; `None` until the keys are derived.
    pub(crate) channel: Option<Box<Channel>>,
    /// The reason of the last failure, while the peer counts as unreachable; `None` if it does not.
    pub(crate) down: Option<String>,
    /// The peer's count of inbound connections when the last attempt began.
    pub(crate) inbound_tried: u64,
    /// The peer's count of inbound connections when the last failed attempt began.
    pub(crate) inbound_seen: u64,
    /// Number of attempts that have failed in a row.
    pub(crate) failures: u32,
    /// Number of attempts that have failed at all. The next is at the address with this number, so
    /// that a lost connection is made again at the same address.
    pub(crate) failures_ever: usize,
    /// Encoded frames for the socket.
    pub(crate) out: Vec<u8>,
    /// Bytes of `out` that are encrypted; they can no longer be taken back.
    pub(crate) written: usize,
    /// The asks in `out` that the kernel has not taken completely, and their ranges, in order.
    pub(crate) unsent: VecDeque<(u64, Range<usize>)>,
    /// True while the kernel takes no more bytes.
    pub(crate) is_blocked: bool,
    /// Number of asks that are neither answered nor given up.
    pub(crate) in_flight: usize,
    /// The time at which bytes last arrived.
    pub(crate) heard: Ticks,
    /// The time at which a ping was sent, if no bytes have arrived since.
    pub(crate) pinged: Option<Ticks>,
}

impl Link {
    pub(crate) fn new(now: Ticks) -> Link {
        Link { retry_at: now, heard: now, ..Link::default() }
    }

    /// True if asks can be sent.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.connection, Some(Connection { stage: Stage::Ready, .. }))
    }

    /// Bytes of frames that the kernel has not taken.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.out.len() - self.delivered()
    }

    /// Bytes of `out` that the kernel has taken, up to the end of a record: the peer can have
    /// decrypted these, and no others.
    pub(crate) fn delivered(&self) -> usize {
        self.written - self.channel.as_ref().map_or(0, |channel| channel.writer.undelivered_bytes())
    }

    /// Removes frames from `out` that the kernel has taken, and frees memory that is seldom needed.
    pub(crate) fn drain_sent(&mut self) {
        if self.waiting_bytes() == 0 {
            self.out.clear();
            if self.out.capacity() > OUT_KEPT_BYTES {
                self.out = Vec::new();
            }
            self.written = 0;
            return;
        }
        // An ask that the kernel has taken a part of stays whole: `unsent` has its range, and
        // `withdraw` finds out by its beginning that it must not be taken back.
        let begun = self.unsent.front().map_or(usize::MAX, |(_, place)| place.start);
        let done = begun.min(self.delivered());
        if done > OUT_KEPT_BYTES {
            self.out.drain(..done);
            for (_, place) in &mut self.unsent {
                *place = place.start - done..place.end - done;
            }
            self.written -= done;
        }
    }

    /// Removes the asks from `out` for which `is_over` is true, because nobody waits for their
    /// answer any more. An ask that is encrypted in part stays: the rest of its frame has to
    /// follow.
    pub(crate) fn withdraw(&mut self, mut is_over: impl FnMut(u64) -> bool) {
        let Link { out, unsent, written, .. } = self;
        // Bytes removed so far, and the offset of the bytes behind the last removed ask.
        let (mut gone, mut from) = (0, 0);
        unsent.retain_mut(|(id, place)| {
            if place.start < *written || !is_over(*id) {
                *place = place.start - gone..place.end - gone;
                return true;
            }
            if gone > 0 {
                out.copy_within(from..place.start, from - gone);
            }
            (gone, from) = (gone + place.len(), place.end);
            false
        });
        if gone > 0 {
            out.copy_within(from.., from - gone);
            out.truncate(out.len() - gone);
        }
    }

    /// Resets the state of a lost connection, but keeps the asks: they can still be sent on the
    /// next connection if this one never became ready.
    pub(crate) fn reset(&mut self) {
        self.channel = None;
        (self.is_blocked, self.pinged) = (false, None);
    }

    /// Removes all asks of a lost connection.
    pub(crate) fn forget_asks(&mut self) {
        self.out.clear();
        self.unsent.clear();
        (self.written, self.in_flight) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link whose buffer has these pieces; a piece with a number is an ask.
    fn link(pieces: &[(Option<u64>, &[u8])]) -> Link {
        let mut link = Link::new(Ticks(0));
        for (id, bytes) in pieces {
            let begin = link.out.len();
            link.out.extend_from_slice(bytes);
            if let Some(id) = id {
                link.unsent.push_back((*id, begin..link.out.len()));
            }
        }
        link
    }

    fn asks(link: &Link) -> Vec<(u64, &[u8])> {
        link.unsent.iter().map(|(id, place)| (*id, &link.out[place.clone()])).collect()
    }

    /// Regression: such asks stayed in the buffer, so a write was sent long after it was answered
    /// with 504.
    #[test]
    fn asks_without_a_waiter_are_taken_back_unless_sent_in_part() {
        let mut link = link(&[
            (Some(1), b"11"),
            (Some(2), b"222"),
            (None, b"ping"),
            (Some(3), b"3"),
            (Some(4), b"4444"),
            (None, b"pong"),
            (Some(5), b"55"),
        ]);
        // The kernel has all of the first and a byte of the second.
        link.unsent.pop_front();
        link.written = 3;
        link.withdraw(|id| [2, 3, 5].contains(&id));
        assert_eq!(link.out, b"11222ping4444pong");
        assert_eq!(asks(&link), [(2, &b"222"[..]), (4, b"4444")]);
        assert_eq!(link.written, 3);
        link.withdraw(|_| false);
        link.withdraw(|id| id == 4);
        assert_eq!((&link.out[..], asks(&link).len()), (&b"11222pingpong"[..], 1));
    }

    #[test]
    fn taking_back_all_asks_empties_the_buffer() {
        let mut link = link(&[(Some(1), b"11"), (Some(2), b"222")]);
        link.withdraw(|_| true);
        assert!(link.out.is_empty() && link.unsent.is_empty() && link.waiting_bytes() == 0);
    }

    #[test]
    fn sent_bytes_are_drained_up_to_an_ask_sent_in_part() {
        let long = vec![1; OUT_KEPT_BYTES + 2];
        let mut link = link(&[(Some(1), &long), (Some(2), &long), (Some(3), b"3")]);
        link.unsent.pop_front();
        link.written = long.len() + 5;
        link.drain_sent();
        assert_eq!((link.written, link.out.len()), (5, long.len() + 1));
        assert_eq!(asks(&link), [(2, &long[..]), (3, b"3")]);
        // Nobody waits for the ask any more, but the peer may have its beginning.
        link.withdraw(|_| true);
        assert_eq!(asks(&link), [(2, &long[..])]);
    }
}

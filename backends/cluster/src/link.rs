//! One connection to a peer: what stands between asks and the socket.

use std::collections::VecDeque;
use std::ops::Range;

use mio::net::TcpStream;
use pellucid_clock::Ticks;

use crate::outlet::Outlet;
use crate::session::{KeyShare, Opener};

/// An output buffer that has grown beyond this is given back.
const OUT_KEPT_BYTES: usize = 1024 * 1024;

/// A connection, and how far it is.
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    pub(crate) stage: Stage,
    /// The time by which it has to be ready.
    pub(crate) by: Ticks,
}

/// The stage of a connection.
pub(crate) enum Stage {
    /// The kernel is connecting.
    Connecting,
    /// The protocol was asked for.
    Greeting(Box<Greeting>),
    /// It was proven that this node is one of the cluster; what the peer says to that is to come.
    Proving,
    /// Asks are sent.
    Ready,
}

/// The request for the protocol.
pub(crate) struct Greeting {
    pub(crate) hello: Vec<u8>,
    /// Bytes of it that the kernel has.
    pub(crate) sent: usize,
    pub(crate) share: KeyShare,
    /// The bytes of the answer so far.
    pub(crate) input: Vec<u8>,
}

/// Both directions of a connection whose keys are agreed.
pub(crate) struct Channel {
    pub(crate) outlet: Outlet,
    pub(crate) opener: Opener,
}

pub(crate) struct Link {
    pub(crate) connection: Option<Connection>,
    /// Where there is none, the time at which one is tried.
    pub(crate) retry_at: Ticks,
    /// The sealed channel; nothing until keys are agreed.
    pub(crate) channel: Option<Box<Channel>>,
    /// Why the peer is taken for unreachable; nothing as long as that is not known.
    pub(crate) down: Option<String>,
    /// Times that the peer had called when the last attempt began.
    pub(crate) calls_tried: u64,
    /// The same of the last attempt that failed.
    pub(crate) calls_seen: u64,
    /// Attempts that failed, one after the other.
    pub(crate) failures: u32,
    /// Asks for the socket.
    pub(crate) out: Vec<u8>,
    /// Bytes of `out` that are sealed, all of which the kernel gets.
    pub(crate) written: usize,
    /// Asks in `out` that the kernel does not have all of, and where they lie, in their order.
    pub(crate) unsent: VecDeque<(u64, Range<usize>)>,
    /// The kernel takes no more for now.
    pub(crate) is_blocked: bool,
    pub(crate) in_flight: usize,
    /// The time at which anything last came.
    pub(crate) heard: Ticks,
    /// The time at which a ping was sent that nothing came after.
    pub(crate) pinged: Option<Ticks>,
}

impl Link {
    pub(crate) fn new(now: Ticks) -> Link {
        Link {
            connection: None,
            retry_at: now,
            channel: None,
            down: None,
            calls_tried: 0,
            calls_seen: 0,
            failures: 0,
            out: Vec::new(),
            written: 0,
            unsent: VecDeque::new(),
            is_blocked: false,
            in_flight: 0,
            heard: now,
            pinged: None,
        }
    }

    /// True if asks are sent.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.connection, Some(Connection { stage: Stage::Ready, .. }))
    }

    /// Bytes that wait for the kernel.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.out.len() - self.written + self.held_bytes()
    }

    /// Bytes that are sealed and wait for the kernel.
    pub(crate) fn held_bytes(&self) -> usize {
        self.channel.as_ref().map_or(0, |channel| channel.outlet.held())
    }

    /// Forgets what the kernel has, and gives back memory that is seldom needed.
    pub(crate) fn drain_sent(&mut self) {
        if self.waiting_bytes() == 0 {
            self.out.clear();
            if self.out.capacity() > OUT_KEPT_BYTES {
                self.out = Vec::new();
            }
            self.written = 0;
            return;
        }
        // An ask that the kernel has a part of stays whole, or it could not be told from others.
        let begun = self.unsent.front().map_or(self.written, |(_, place)| place.start);
        let done = begun.min(self.written);
        if done > OUT_KEPT_BYTES {
            self.out.drain(..done);
            for (_, place) in &mut self.unsent {
                *place = place.start - done..place.end - done;
            }
            self.written -= done;
        }
    }

    /// Takes back the asks that `is_over` says nobody waits for, as far as the kernel has nothing
    /// of them. Of those that it has a part of, the rest has to follow.
    pub(crate) fn withdraw(&mut self, mut is_over: impl FnMut(u64) -> bool) {
        let Link { out, unsent, written, .. } = self;
        // Bytes taken out so far, and where what stays behind them begins.
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

    /// Forgets a connection that is gone. Asks stay, as after one on which none were sent.
    pub(crate) fn reset(&mut self) {
        self.channel = None;
        (self.is_blocked, self.pinged) = (false, None);
    }

    /// Forgets the asks of a connection that is gone.
    pub(crate) fn forget_asks(&mut self) {
        self.out.clear();
        self.unsent.clear();
        (self.written, self.in_flight) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link whose buffer has these pieces; those with a number are asks.
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

    /// They stayed in the buffer, and a write went out long after it was answered with 504.
    #[test]
    fn asks_that_nobody_waits_for_are_taken_back_unless_the_kernel_has_a_part() {
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
    fn all_of_them_leave_nothing_that_waits() {
        let mut link = link(&[(Some(1), b"11"), (Some(2), b"222")]);
        link.withdraw(|_| true);
        assert!(link.out.is_empty() && link.unsent.is_empty() && link.waiting_bytes() == 0);
    }

    #[test]
    fn what_the_kernel_has_is_forgotten_up_to_the_ask_that_it_has_a_part_of() {
        let long = vec![1; OUT_KEPT_BYTES + 2];
        let mut link = link(&[(Some(1), &long), (Some(2), &long), (Some(3), b"3")]);
        link.unsent.pop_front();
        link.written = long.len() + 5;
        link.drain_sent();
        assert_eq!((link.written, link.out.len()), (5, long.len() + 1));
        assert_eq!(asks(&link), [(2, &long[..]), (3, b"3")]);
        // Nobody waits for it any more, but the peer has its beginning.
        link.withdraw(|_| true);
        assert_eq!(asks(&link), [(2, &long[..])]);
    }
}

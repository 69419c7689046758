//! One connection to a peer: what stands between asks and the socket.

use std::collections::VecDeque;

use mio::net::TcpStream;
use pellucid_clock::Ticks;

/// An output buffer that has grown beyond this is given back.
const OUT_KEPT_BYTES: usize = 1024 * 1024;

/// How far a connection is.
pub(crate) enum Stage {
    /// There is none; one is tried at this time.
    Absent { retry_at: Ticks },
    /// The kernel is connecting.
    Connecting { socket: TcpStream, by: Ticks },
    /// The protocol was asked for.
    Greeting { socket: TcpStream, by: Ticks, hello: Vec<u8>, sent: usize },
    /// Asks are sent.
    Ready { socket: TcpStream },
}

pub(crate) struct Link {
    pub(crate) stage: Stage,
    /// Why the peer is taken for unreachable; nothing as long as that is not known.
    pub(crate) down: Option<String>,
    /// Attempts that failed, one after the other.
    pub(crate) failures: u32,
    /// Bytes that were read and are no whole frame.
    pub(crate) input: Vec<u8>,
    /// Asks for the socket.
    pub(crate) out: Vec<u8>,
    /// Bytes of `out` that the kernel has.
    pub(crate) written: usize,
    /// Asks in `out` and where they end.
    pub(crate) unsent: VecDeque<(u64, usize)>,
    /// The kernel takes no more for now.
    pub(crate) is_blocked: bool,
    pub(crate) in_flight: usize,
    /// When anything last came.
    pub(crate) heard: Ticks,
    /// When a ping was sent that nothing came after.
    pub(crate) pinged: Option<Ticks>,
}

impl Link {
    pub(crate) fn new(now: Ticks) -> Link {
        Link {
            stage: Stage::Absent { retry_at: now },
            down: None,
            failures: 0,
            input: Vec::new(),
            out: Vec::new(),
            written: 0,
            unsent: VecDeque::new(),
            is_blocked: false,
            in_flight: 0,
            heard: now,
            pinged: None,
        }
    }

    /// Bytes that wait for the kernel.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.out.len() - self.written
    }

    /// Forgets what the kernel has, and gives back memory that is seldom needed.
    pub(crate) fn drain_sent(&mut self) {
        if self.written == self.out.len() {
            self.out.clear();
            if self.out.capacity() > OUT_KEPT_BYTES {
                self.out = Vec::new();
            }
            self.written = 0;
        } else if self.written > OUT_KEPT_BYTES {
            self.out.drain(..self.written);
            self.unsent.iter_mut().for_each(|(_, end)| *end -= self.written);
            self.written = 0;
        }
    }

    /// Forgets everything of a connection that is gone.
    pub(crate) fn reset(&mut self) {
        self.input = Vec::new();
        self.out.clear();
        self.unsent.clear();
        self.written = 0;
        (self.is_blocked, self.pinged) = (false, None);
    }
}

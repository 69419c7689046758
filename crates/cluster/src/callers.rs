//! The connections of peers to one event loop, and the asks that come by them.

use std::sync::Arc;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use pellucid_clock::{Clock, Ticks};

use crate::board::add;
use crate::clipped::clipped_ns;
use crate::cluster::{Cluster, News};
use crate::decode::{decode, frame_length};
use crate::frame::{Answer, Ask, AskKind, FRAME_BYTES_MAX, Frame, encode_pong, seal_answer};
use crate::socket::{Received, receive, send_some, tune};

/// Bytes that are read at a time.
const READ_BYTES: usize = 64 * 1024;
/// Connections that one event loop serves.
const CALLERS_MAX: usize = 4_096;
/// Bytes that may wait unsent before no more is read of a caller.
const OUT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// An output buffer that has grown beyond this is given back.
const OUT_KEPT_BYTES: usize = 1024 * 1024;
/// Asks of one caller that may wait for the medium; beyond it they are refused as busy.
pub const SERVED_LATER_MAX: usize = 4_096;

/// A caller of one event loop; never another one's after it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerId {
    slot: usize,
    generation: u32,
}

struct Caller<R> {
    socket: TcpStream,
    node: usize,
    generation: u32,
    input: Vec<u8>,
    out: Vec<u8>,
    written: usize,
    /// Answers in `out` that are not sealed: where they are, since when, and what is recorded.
    unsealed: Vec<(usize, Ticks, R)>,
    /// Asks whose answers come later.
    later: usize,
    is_blocked: bool,
    is_paused: bool,
    is_dirty: bool,
}

/// Where the answer to an ask goes.
pub struct Reply<'a, R> {
    /// Of whom it is.
    pub caller: CallerId,
    /// When the read that completed it returned.
    pub received: Ticks,
    /// Until when it waited behind others of the same read.
    pub waited_until: Option<Ticks>,
    /// Bytes of its frame.
    pub ask_bytes: usize,
    /// Whether as many asks as may be wait for the medium.
    pub is_full: bool,
    out: &'a mut Vec<u8>,
    unsealed: &'a mut Vec<(usize, Ticks, R)>,
    later: &'a mut usize,
}

impl<R> Reply<'_, R> {
    /// Answers. The answer was there at `executed`; `record` comes back when it is sent.
    pub fn answer(&mut self, answer: &Answer<'_>, executed: Ticks, record: R) {
        self.unsealed.push((self.out.len(), executed, record));
        answer.encode_unsealed(self.out);
    }

    /// Notes that the answer comes later, by [`Callers::reply`].
    pub fn later(&mut self) {
        *self.later += 1;
    }
}

/// See the module. `R` is what is recorded of each ask once its answer is sent.
pub struct Callers<R> {
    cluster: Arc<Cluster>,
    clock: Clock,
    callers: Vec<Option<Caller<R>>>,
    generations: Vec<u32>,
    dirty: Vec<usize>,
    scratch: Vec<u8>,
    token: fn(usize) -> Token,
}

impl<R> Callers<R> {
    /// No callers yet. `token` gives the token of the caller of a number.
    #[must_use]
    pub fn new(cluster: Arc<Cluster>, clock: Clock, token: fn(usize) -> Token) -> Callers<R> {
        Callers {
            cluster,
            clock,
            callers: Vec::new(),
            generations: Vec::new(),
            dirty: Vec::new(),
            scratch: vec![0; READ_BYTES],
            token,
        }
    }

    /// Takes a connection over that was upgraded for the node at place `node`. Gives its number, if
    /// there is room; what was `unread` is looked at by [`Callers::ready`].
    pub fn adopt(
        &mut self,
        mut socket: TcpStream,
        unread: Vec<u8>,
        node: usize,
        registry: &Registry,
    ) -> Option<usize> {
        let free = self.callers.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.callers.len());
        if slot >= CALLERS_MAX {
            return None;
        }
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut socket, (self.token)(slot), interest).ok()?;
        tune(&socket);
        if slot == self.callers.len() {
            self.callers.push(None);
            self.generations.push(0);
        }
        self.callers[slot] = Some(Caller {
            socket,
            node,
            generation: self.generations[slot],
            input: unread,
            out: Vec::new(),
            written: 0,
            unsealed: Vec::new(),
            later: 0,
            is_blocked: false,
            is_paused: false,
            is_dirty: false,
        });
        Some(slot)
    }

    /// Reads what a caller has sent; `serve` answers each ask, and gives a reading of the clock
    /// from when it was done.
    pub fn ready(
        &mut self,
        slot: usize,
        registry: &Registry,
        serve: &mut dyn FnMut(&mut Reply<'_, R>, Ask<'_>) -> Ticks,
    ) {
        let Some(place) = self.callers.get_mut(slot) else { return };
        let Some(mut caller) = place.take() else { return };
        caller.is_blocked = false;
        match self.attend(slot, &mut caller, serve) {
            Ok(()) => {
                self.mark(slot, &mut caller);
                self.callers[slot] = Some(caller);
            }
            Err(reason) => self.discard(slot, caller, registry, &reason),
        }
    }

    fn attend(
        &mut self,
        slot: usize,
        caller: &mut Caller<R>,
        serve: &mut dyn FnMut(&mut Reply<'_, R>, Ask<'_>) -> Ticks,
    ) -> Result<(), String> {
        if !caller.input.is_empty() {
            let input = std::mem::take(&mut caller.input);
            let received = self.clock.now();
            let used = self.take_frames(slot, caller, &input, received, serve)?;
            caller.input = input;
            caller.input.drain(..used);
        }
        loop {
            caller.is_paused = caller.out.len() - caller.written > OUT_BYTES_MAX;
            if caller.is_paused {
                return Ok(());
            }
            let received = receive(&caller.socket, &mut self.scratch);
            let count = match received.map_err(|error| error.to_string())? {
                Received::Bytes(count) => count,
                Received::Nothing => return Ok(()),
                Received::End => return Err(String::new()),
            };
            let received = self.clock.now();
            let scratch = std::mem::take(&mut self.scratch);
            let taken = if caller.input.is_empty() {
                self.take_frames(slot, caller, &scratch[..count], received, serve).map(|used| {
                    caller.input.extend_from_slice(&scratch[used..count]);
                })
            } else {
                caller.input.extend_from_slice(&scratch[..count]);
                let input = std::mem::take(&mut caller.input);
                self.take_frames(slot, caller, &input, received, serve).map(|used| {
                    caller.input = input;
                    caller.input.drain(..used);
                })
            };
            let filled = count == scratch.len();
            self.scratch = scratch;
            taken?;
            if !filled {
                return Ok(());
            }
        }
    }

    fn take_frames(
        &mut self,
        slot: usize,
        caller: &mut Caller<R>,
        bytes: &[u8],
        received: Ticks,
        serve: &mut dyn FnMut(&mut Reply<'_, R>, Ask<'_>) -> Ticks,
    ) -> Result<usize, String> {
        let (mut used, mut waited_until) = (0, None);
        let mut served = 0;
        let outcome = loop {
            let rest = &bytes[used..];
            match frame_length(rest, FRAME_BYTES_MAX) {
                Err(error) => break Err(error.to_string()),
                Ok(Some(length)) if rest.len() >= length => {}
                Ok(_) => break Ok(used),
            }
            let (frame, length) = match decode(rest, FRAME_BYTES_MAX) {
                Ok(Some(decoded)) => decoded,
                Ok(None) => break Ok(used),
                Err(error) => break Err(error.to_string()),
            };
            used += length;
            match frame {
                Frame::Ask(ask) if ask.kind == AskKind::Ping => {
                    encode_pong(ask.id, &mut caller.out);
                }
                Frame::Ask(ask) => {
                    let mut reply = Reply {
                        caller: CallerId { slot, generation: caller.generation },
                        received,
                        waited_until,
                        ask_bytes: length,
                        is_full: caller.later >= SERVED_LATER_MAX,
                        out: &mut caller.out,
                        unsealed: &mut caller.unsealed,
                        later: &mut caller.later,
                    };
                    waited_until = Some(serve(&mut reply, ask));
                    served += 1;
                }
                Frame::Answer(_) | Frame::Pong(_) => {
                    break Err("it answers where it has to ask".to_owned());
                }
            }
        };
        if served > 0 {
            add(&self.cluster.board(caller.node).counters.served, served);
        }
        outcome
    }

    /// Where the answer to an ask goes that was put off, if its caller is still there.
    pub fn reply<T>(
        &mut self,
        id: CallerId,
        answer: impl FnOnce(&mut Reply<'_, R>) -> T,
    ) -> Option<T> {
        let mut caller = self.callers.get_mut(id.slot)?.take()?;
        let is_same = caller.generation == id.generation;
        let done = is_same.then(|| {
            caller.later = caller.later.saturating_sub(1);
            let now = self.clock.now();
            let done = answer(&mut Reply {
                caller: id,
                received: now,
                waited_until: None,
                ask_bytes: 0,
                is_full: false,
                out: &mut caller.out,
                unsealed: &mut caller.unsealed,
                later: &mut caller.later,
            });
            self.mark(id.slot, &mut caller);
            done
        });
        self.callers[id.slot] = Some(caller);
        done
    }

    fn mark(&mut self, slot: usize, caller: &mut Caller<R>) {
        if !caller.is_dirty && caller.out.len() > caller.written && !caller.is_blocked {
            caller.is_dirty = true;
            self.dirty.push(slot);
        }
    }

    /// Whether there are answers to send.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Sends the answers that there are; `sink` gets what is recorded of each.
    pub fn settle(&mut self, registry: &Registry, sink: &mut dyn FnMut(R, Ticks)) {
        while let Some(slot) = self.dirty.pop() {
            let Some(mut caller) = self.callers.get_mut(slot).and_then(Option::take) else {
                continue;
            };
            caller.is_dirty = false;
            let sent = self.send(&mut caller, sink);
            match sent {
                Ok(()) => self.callers[slot] = Some(caller),
                Err(reason) => self.discard(slot, caller, registry, &reason),
            }
        }
    }

    fn send(
        &mut self,
        caller: &mut Caller<R>,
        sink: &mut dyn FnMut(R, Ticks),
    ) -> Result<(), String> {
        let now = self.clock.now();
        for (at, executed, _) in &caller.unsealed {
            let reply_ns = clipped_ns(self.clock.nanoseconds(now.since(*executed)));
            seal_answer(&mut caller.out[*at..], reply_ns);
        }
        let sent = send_some(&caller.socket, &caller.out[caller.written..]);
        let written = self.clock.now();
        caller.unsealed.drain(..).for_each(|(_, _, record)| sink(record, written));
        caller.written += sent.map_err(|error| error.to_string())?;
        if caller.written == caller.out.len() {
            caller.out.clear();
            caller.written = 0;
            if caller.out.capacity() > OUT_KEPT_BYTES {
                caller.out = Vec::new();
            }
        } else {
            caller.is_blocked = true;
            if caller.written > OUT_KEPT_BYTES {
                caller.out.drain(..caller.written);
                caller.written = 0;
            }
        }
        Ok(())
    }

    fn discard(&mut self, slot: usize, mut caller: Caller<R>, registry: &Registry, reason: &str) {
        // A descriptor that is closed is forgotten by the kernel anyway.
        let _ = registry.deregister(&mut caller.socket);
        self.generations[slot] = self.generations[slot].wrapping_add(1);
        if !reason.is_empty() {
            let who = match caller.node == self.cluster.own() {
                true => "a guest".to_owned(),
                false => format!("the peer {}", self.cluster.url(caller.node)),
            };
            let line = format!("a connection of {who} was closed: {reason}");
            self.cluster.log(News::Bad(&line));
        }
    }
}

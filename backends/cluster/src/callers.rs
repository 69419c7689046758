//! The connections of peers to one event loop, and the asks that come by them.

use std::sync::Arc;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use pellucid_clock::{Clock, Ticks};

use crate::board::add;
use crate::clipped::clipped_ns;
use crate::cluster::{Cluster, News};
use crate::decode::decode;
use crate::frame::{Answer, Ask, AskKind, FRAME_BYTES_MAX, Frame, encode_pong, finish_answer};
use crate::handshake::Greeted;
use crate::outlet::Outlet;
use crate::session::Opener;
use crate::socket::{Received, receive, tune};

/// Bytes that are read at a time.
const READ_BYTES: usize = 64 * 1024;
/// Connections that one event loop serves.
const CALLERS_MAX: usize = 4_096;
/// Callers of one event loop that have greeted and proven nothing. Beyond it, the first of them
/// goes.
const GREETED_MAX: usize = 64;
/// The longest time that a caller may take to prove itself.
const PROOF_WAIT: Duration = Duration::from_secs(5);
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

/// The state of a caller.
enum Standing {
    /// It has said this, and proven nothing.
    Greeted { from: String, to: String, since: Ticks },
    /// It knows the secret, and is the node at this place; a guest, where this node is.
    Met { node: usize },
}

struct Caller<R> {
    socket: TcpStream,
    standing: Standing,
    generation: u32,
    /// Elsewhere while it is used.
    opener: Option<Box<Opener>>,
    outlet: Outlet,
    out: Vec<u8>,
    /// Bytes of `out` that are sealed.
    written: usize,
    /// Answers in `out` that lack how long they waited: where they are, since when, and what is
    /// recorded.
    unfinished: Vec<(usize, Ticks, R)>,
    /// Asks whose answers come later.
    later: usize,
    is_blocked: bool,
    is_paused: bool,
    is_dirty: bool,
}

impl<R> Caller<R> {
    /// The destination of the answer to an ask of it, received now and alone.
    fn reply(&mut self, caller: CallerId, received: Ticks) -> Reply<'_, R> {
        Reply {
            caller,
            received,
            waited_until: None,
            ask_bytes: 0,
            is_full: false,
            out: &mut self.out,
            unfinished: &mut self.unfinished,
            later: &mut self.later,
        }
    }

    /// Bytes that wait for the kernel.
    fn waiting_bytes(&self) -> usize {
        self.out.len() - self.written + self.outlet.held()
    }
}

/// The destination of the answer to an ask.
pub struct Reply<'a, R> {
    /// Of whom it is.
    pub caller: CallerId,
    /// The time at which the read that completed it returned.
    pub received: Ticks,
    /// The time until which it waited behind others of the same read.
    pub waited_until: Option<Ticks>,
    /// Bytes of its frame.
    pub ask_bytes: usize,
    /// True if as many asks as may be wait for the medium.
    pub is_full: bool,
    out: &'a mut Vec<u8>,
    unfinished: &'a mut Vec<(usize, Ticks, R)>,
    later: &'a mut usize,
}

impl<R> Reply<'_, R> {
    /// Answers. The answer was there at `executed`; `record` comes back when it is sent.
    pub fn answer(&mut self, answer: &Answer<'_>, executed: Ticks, record: R) {
        self.unfinished.push((self.out.len(), executed, record));
        answer.encode_unfinished(self.out);
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
    /// What is recorded of answers whose callers were gone before they were sent.
    unsent: Vec<R>,
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
            unsent: Vec::new(),
            scratch: vec![0; READ_BYTES],
            token,
        }
    }

    /// Takes a connection over whose caller has greeted. Gives its number, if there is room.
    pub fn adopt(
        &mut self,
        mut socket: TcpStream,
        greeted: Greeted,
        registry: &Registry,
    ) -> Option<usize> {
        self.make_room(registry);
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
        let Greeted { session, from, to } = greeted;
        self.callers[slot] = Some(Caller {
            socket,
            standing: Standing::Greeted { from, to, since: self.clock.now() },
            generation: self.generations[slot],
            opener: Some(Box::new(session.opener)),
            outlet: Outlet::new(session.sealer),
            out: Vec::new(),
            written: 0,
            unfinished: Vec::new(),
            later: 0,
            is_blocked: false,
            is_paused: false,
            is_dirty: false,
        });
        Some(slot)
    }

    /// Ends the connection of the one that greeted first and has proven nothing, if there are as
    /// many of these as may be: strangers must not keep nodes out.
    fn make_room(&mut self, registry: &Registry) {
        let mut greeted = 0;
        let mut first: Option<(Ticks, usize)> = None;
        for (slot, caller) in self.callers.iter().enumerate() {
            if let Some(Caller { standing: Standing::Greeted { since, .. }, .. }) = caller {
                greeted += 1;
                if first.is_none_or(|(before, _)| since.0 < before.0) {
                    first = Some((*since, slot));
                }
            }
        }
        if let (true, Some((_, slot))) = (greeted >= GREETED_MAX, first) {
            self.end(slot, registry, "");
        }
    }

    /// Ends the connections of those who have proven nothing for too long.
    pub fn tick(&mut self, registry: &Registry) {
        let (now, wait) = (self.clock.now(), self.clock.ticks(PROOF_WAIT.as_nanos() as u64));
        for slot in 0..self.callers.len() {
            if let Some(Caller { standing: Standing::Greeted { since, .. }, .. }) =
                &self.callers[slot]
                && now.since(*since) >= wait
            {
                self.end(slot, registry, "");
            }
        }
    }

    fn end(&mut self, slot: usize, registry: &Registry, reason: &str) {
        if let Some(caller) = self.callers[slot].take() {
            self.discard(slot, caller, registry, reason);
        }
    }

    /// Takes out what is recorded of answers that were not sent, as their callers are gone.
    pub fn take_unsent(&mut self) -> impl Iterator<Item = R> + '_ {
        self.unsent.drain(..)
    }

    /// Reads what a caller has sent, behind what was `unread`; `serve` answers each ask, and gives
    /// a reading of the clock from when it was done.
    pub fn ready(
        &mut self,
        slot: usize,
        unread: Vec<u8>,
        registry: &Registry,
        serve: &mut dyn FnMut(&mut Reply<'_, R>, Ask<'_>) -> Ticks,
    ) {
        let Some(place) = self.callers.get_mut(slot) else { return };
        let Some(mut caller) = place.take() else { return };
        caller.is_blocked = false;
        let attended = match self.cluster.distrust() {
            Some(why) => Err(why.to_owned()),
            None => self.attend(slot, &mut caller, unread, serve),
        };
        match attended {
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
        mut unread: Vec<u8>,
        serve: &mut dyn FnMut(&mut Reply<'_, R>, Ask<'_>) -> Ticks,
    ) -> Result<(), String> {
        if !unread.is_empty() {
            let received = self.clock.now();
            self.take_bundles(slot, caller, &mut unread, received, serve)?;
        }
        loop {
            caller.is_paused = caller.waiting_bytes() > OUT_BYTES_MAX;
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
            let mut scratch = std::mem::take(&mut self.scratch);
            let bytes = &mut scratch[..count];
            let taken = self.take_bundles(slot, caller, bytes, received, serve);
            let filled = count == scratch.len();
            self.scratch = scratch;
            taken?;
            if !filled {
                return Ok(());
            }
        }
    }

    /// Opens what a caller has sent: first its proof, and then asks.
    fn take_bundles(
        &mut self,
        slot: usize,
        caller: &mut Caller<R>,
        bytes: &mut [u8],
        received: Ticks,
        serve: &mut dyn FnMut(&mut Reply<'_, R>, Ask<'_>) -> Ticks,
    ) -> Result<(), String> {
        let Some(mut opener) = caller.opener.take() else { return Ok(()) };
        let taken = opener.open(bytes, &mut |opened| match caller.standing {
            Standing::Greeted { .. } => self.prove(caller, opened).map(|()| opened.len()),
            Standing::Met { node } => self.take_frames(slot, caller, node, opened, received, serve),
        });
        caller.opener = Some(opener);
        match (&caller.standing, taken) {
            // What it is said to be, it has not said itself.
            (Standing::Greeted { from, .. }, Err(reason)) if !reason.is_empty() => {
                self.cluster.note_refused(from, &Cluster::unproven(from));
                Err(String::new())
            }
            (_, taken) => taken,
        }
    }

    /// Takes a caller's proof, and says what comes of it.
    fn prove(&mut self, caller: &mut Caller<R>, list: &[u8]) -> Result<(), String> {
        let Standing::Greeted { from, to, .. } = &caller.standing else { return Ok(()) };
        match self.cluster.judge(from, to, list) {
            Ok(node) => {
                // Before it hears of it: whoever asks it knows that this node is to be reached.
                self.cluster.board(node).note_call();
                let sent = caller.outlet.send_first(&caller.socket, b"");
                sent.map_err(|_| String::new())?;
                caller.standing = Standing::Met { node };
                Ok(())
            }
            Err(what) => {
                self.cluster.note_why(from, &what);
                // Whether it hears of it or not, this is the end.
                let _ = caller.outlet.send_first(&caller.socket, what.as_bytes());
                Err(String::new())
            }
        }
    }

    fn take_frames(
        &mut self,
        slot: usize,
        caller: &mut Caller<R>,
        node: usize,
        bytes: &[u8],
        received: Ticks,
        serve: &mut dyn FnMut(&mut Reply<'_, R>, Ask<'_>) -> Ticks,
    ) -> Result<usize, String> {
        let (mut used, mut waited_until) = (0, None);
        let mut served = 0;
        let outcome = loop {
            let (frame, length) = match decode(&bytes[used..], FRAME_BYTES_MAX) {
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
                    let id = CallerId { slot, generation: caller.generation };
                    let is_full = caller.later >= SERVED_LATER_MAX;
                    let reply = caller.reply(id, received);
                    let mut reply = Reply { waited_until, ask_bytes: length, is_full, ..reply };
                    waited_until = Some(serve(&mut reply, ask));
                    served += 1;
                }
                Frame::Answer(_) | Frame::Pong(_) => {
                    break Err("it answers where it has to ask".to_owned());
                }
            }
        };
        if served > 0 {
            add(&self.cluster.board(node).counters.served, served);
        }
        outcome
    }

    /// The destination of the answer to an ask that was put off, if its caller is still there.
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
            let done = answer(&mut caller.reply(id, now));
            self.mark(id.slot, &mut caller);
            done
        });
        self.callers[id.slot] = Some(caller);
        done
    }

    fn mark(&mut self, slot: usize, caller: &mut Caller<R>) {
        if !caller.is_dirty && caller.waiting_bytes() > 0 && !caller.is_blocked {
            caller.is_dirty = true;
            self.dirty.push(slot);
        }
    }

    /// True if there are answers to send.
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
        for (at, executed, _) in &caller.unfinished {
            let reply_ns = clipped_ns(self.clock.nanoseconds(now.since(*executed)));
            finish_answer(&mut caller.out[*at..], reply_ns);
        }
        let sent = caller.outlet.send(&caller.socket, &caller.out, &mut caller.written);
        let written = self.clock.now();
        caller.unfinished.drain(..).for_each(|(_, _, record)| sink(record, written));
        sent.map_err(|error| error.to_string())?;
        if caller.waiting_bytes() == 0 {
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
        self.unsent.extend(caller.unfinished.drain(..).map(|(_, _, record)| record));
        self.generations[slot] = self.generations[slot].wrapping_add(1);
        if !reason.is_empty() {
            let who = match caller.standing {
                Standing::Greeted { .. } => "a caller that has proven nothing".to_owned(),
                Standing::Met { node } if node == self.cluster.own() => "a guest".to_owned(),
                Standing::Met { node } => format!("the peer {}", self.cluster.url(node)),
            };
            let line = format!("a connection of {who} was closed: {reason}");
            self.cluster.log(News::Bad(&line));
        }
    }
}

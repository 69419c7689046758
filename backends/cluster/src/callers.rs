//! The connections from peers and guests to one event loop, and the asks that arrive on them.

use std::sync::Arc;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use pellucid_clock::{Clock, Ticks};

use crate::cluster::{Cluster, ClusterEvent};
use crate::decode::decode;
use crate::frame::{
    Answer, Ask, AskKind, FRAME_BYTES_MAX, Frame, clipped_ns, encode_pong, finish_answer,
};
use crate::handshake::UnverifiedCaller;
use crate::peer_status::add;
use crate::sealed_writer::SealedWriter;
use crate::session::Opener;
use crate::socket::{ReadOutcome, receive, tune};

/// Limit of one read in bytes.
const READ_BYTES: usize = 64 * 1024;
/// Limit of the connections that one event loop serves.
const CALLERS_MAX: usize = 4_096;
/// Limit of the callers of one event loop that have not proven themselves. Beyond it, the oldest of
/// these connections is closed.
const GREETED_MAX: usize = 64;
/// The longest time that a caller may take to prove itself.
const PROOF_WAIT: Duration = Duration::from_secs(5);
/// Limit of a caller's unsent bytes. Beyond it, no more is read from the caller, and no ask that
/// was read is served.
const OUT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// An output buffer with a larger capacity is freed once it is empty.
const OUT_KEPT_BYTES: usize = 1024 * 1024;
/// Limit of a caller's reads of keys that are answered later. At this limit, no ask is served until
/// one of them is answered: each may add a large value to the unsent bytes. Pages of ranges do not
/// count, as one may take many times as long as any other ask.
const READS_LATER_MAX: usize = 16;
/// Limit of the unsent bytes to which a value is added that another thread has read. Beyond it, the
/// ask is refused as busy: the values of all reads could be large.
const DEFERRED_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Limit of a caller's asks that are answered later. Further ones are refused as busy.
pub const SERVED_LATER_MAX: usize = 4_096;

/// The identity of a caller at one event loop. It is not reused by a later caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallerId {
    slot: usize,
    generation: u32,
}

/// An ask that is answered later, by [`Callers::reply`].
#[derive(Debug)]
pub struct DeferredAsk {
    caller: CallerId,
    is_read: bool,
}

/// Numbers of a caller's asks that are answered later.
#[derive(Default)]
struct DeferredCounts {
    all: usize,
    /// Those that read a key.
    reads: usize,
}

/// The state of a caller.
enum CallerState {
    /// It has sent these names, and has not yet proven itself.
    Greeted { from: String, to: String, since: Ticks },
    /// It has proven that it knows the secret, and is the node at this index; for a guest, the
    /// index is that of this node.
    Met { node: usize },
}

/// One connection from a peer or a guest.
struct Caller<R> {
    socket: TcpStream,
    standing: CallerState,
    generation: u32,
    /// Decrypts records; `None` while it is in use.
    opener: Option<Box<Opener>>,
    writer: SealedWriter,
    out: Vec<u8>,
    /// Bytes of `out` that are encrypted.
    written: usize,
    /// Answers in `out` without their waiting time and checksum: the offset, the start of the wait,
    /// and the record for the account.
    unfinished: Vec<(usize, Ticks, R)>,
    /// The asks that are answered later.
    later: DeferredCounts,
    /// The time at which asks were read that are not served yet, because too much waits.
    unserved_since: Option<Ticks>,
    /// True while the kernel takes no more bytes.
    is_blocked: bool,
    /// True while nothing is read, because too much is unsent.
    is_paused: bool,
    /// True if [`Callers::settle`] has answers to send to it.
    is_dirty: bool,
    /// True if it has closed its sending direction; bytes sent before may still be unread.
    is_read_closed: bool,
}

impl<R> Caller<R> {
    /// The destination of an answer to this caller. `received` is the time at which the ask was
    /// read; the ask has not waited behind others.
    fn reply(&mut self, caller: CallerId, received: Ticks) -> Reply<'_, R> {
        Reply {
            caller,
            received,
            waited_until: None,
            ask_bytes: 0,
            is_full: false,
            is_read: false,
            out: &mut self.out,
            unfinished: &mut self.unfinished,
            later: &mut self.later,
        }
    }

    /// Bytes of frames that the kernel has not taken.
    fn waiting_bytes(&self) -> usize {
        self.out.len() - self.written + self.writer.undelivered_bytes()
    }

    /// True if no further ask may be served until the kernel has taken bytes, or reads are done.
    fn is_full(&self) -> bool {
        self.waiting_bytes() > OUT_BYTES_MAX || self.later.reads >= READS_LATER_MAX
    }
}

/// The destination of the answer to an ask.
pub struct Reply<'a, R> {
    caller: CallerId,
    /// The time at which the read that completed the ask returned.
    pub received: Ticks,
    /// The end of the wait behind other asks of the same read; `None` for the first of them.
    pub waited_until: Option<Ticks>,
    /// Length of the ask's frame in bytes.
    pub ask_bytes: usize,
    /// True if the limit of asks that are answered later is reached; in [`Callers::reply`], if too
    /// many bytes wait for the caller, so that the answer must be a short one.
    pub is_full: bool,
    /// True if the ask reads a key.
    is_read: bool,
    out: &'a mut Vec<u8>,
    unfinished: &'a mut Vec<(usize, Ticks, R)>,
    later: &'a mut DeferredCounts,
}

impl<R> Reply<'_, R> {
    /// Answers the ask. `executed` is the time at which the store had the result; `record` is
    /// passed to the `sink` of [`Callers::settle`] when the answer is sent.
    pub fn answer(&mut self, answer: &Answer<'_>, executed: Ticks, record: R) {
        self.unfinished.push((self.out.len(), executed, record));
        answer.encode_unfinished(self.out);
    }

    /// Takes back the last [`Reply::answer`], so that the ask can be answered otherwise. Returns
    /// the record.
    pub fn take_back(&mut self) -> Option<R> {
        let (begin, _, record) = self.unfinished.pop()?;
        self.out.truncate(begin);
        Some(record)
    }

    /// Counts the ask as one that is answered later, by [`Callers::reply`].
    pub fn later(&mut self) -> DeferredAsk {
        self.later.all += 1;
        self.later.reads += usize::from(self.is_read);
        DeferredAsk { caller: self.caller, is_read: self.is_read }
    }
}

/// The connections from peers and guests to one event loop. `R` is the record for the account of
/// each ask, which is kept until the answer is sent.
pub struct Callers<R> {
    cluster: Arc<Cluster>,
    clock: Clock,
    callers: Vec<Option<Caller<R>>>,
    generations: Vec<u32>,
    dirty: Vec<usize>,
    /// The records of answers whose callers were gone before the answers were sent.
    unsent: Vec<R>,
    scratch: Vec<u8>,
    token: fn(usize) -> Token,
}

impl<R> Callers<R> {
    /// An instance without callers. `token` gives the token of the caller with a number.
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

    /// Takes over a connection after the caller's greeting. Returns the caller's number, or `None`
    /// if there are too many connections.
    pub fn adopt(
        &mut self,
        mut socket: TcpStream,
        greeted: UnverifiedCaller,
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
        let UnverifiedCaller { session, from, to } = greeted;
        self.callers[slot] = Some(Caller {
            socket,
            standing: CallerState::Greeted { from, to, since: self.clock.now() },
            generation: self.generations[slot],
            opener: Some(Box::new(session.opener)),
            writer: SealedWriter::new(session.sealer),
            out: Vec::new(),
            written: 0,
            unfinished: Vec::new(),
            later: DeferredCounts::default(),
            unserved_since: None,
            is_blocked: false,
            is_paused: false,
            is_dirty: false,
            is_read_closed: false,
        });
        Some(slot)
    }

    /// Closes the oldest connection that has not proven itself, if their limit is reached:
    /// strangers must not keep nodes out.
    fn make_room(&mut self, registry: &Registry) {
        let mut greeted = 0;
        let mut first: Option<(Ticks, usize)> = None;
        for (slot, caller) in self.callers.iter().enumerate() {
            if let Some(Caller { standing: CallerState::Greeted { since, .. }, .. }) = caller {
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

    /// Closes the connections that have not proven themselves in time. Sends pongs to the callers
    /// from which nothing is read because of their reads: a ping may wait behind unread asks.
    pub fn tick(&mut self, registry: &Registry) {
        let (now, wait) = (self.clock.now(), self.clock.ticks(PROOF_WAIT.as_nanos() as u64));
        for slot in 0..self.callers.len() {
            let Some(mut caller) = self.callers[slot].take() else { continue };
            if caller.is_paused && caller.waiting_bytes() == 0 {
                encode_pong(0, &mut caller.out);
                self.mark(slot, &mut caller);
            }
            let is_late = match caller.standing {
                CallerState::Greeted { since, .. } => now.since(since) >= wait,
                CallerState::Met { .. } => false,
            };
            self.callers[slot] = Some(caller);
            if is_late {
                self.end(slot, registry, "");
            }
        }
    }

    fn end(&mut self, slot: usize, registry: &Registry, reason: &str) {
        if let Some(caller) = self.callers[slot].take() {
            self.discard(slot, caller, registry, reason);
        }
    }

    /// Takes the records of answers that were not sent, because their callers are gone.
    pub fn take_unsent(&mut self) -> impl Iterator<Item = R> + '_ {
        self.unsent.drain(..)
    }

    /// Notes that a caller has closed its sending direction. Its connection is closed once all
    /// bytes are read.
    pub fn note_read_closed(&mut self, slot: usize) {
        if let Some(Some(caller)) = self.callers.get_mut(slot) {
            caller.is_read_closed = true;
        }
    }

    /// Reads from a caller, after the bytes `unread` that were read before. `serve` answers each
    /// ask, and returns the time at which it was done.
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
        // Asks that were read before come first, then `unread`.
        let received = caller.unserved_since.take().unwrap_or_else(|| self.clock.now());
        self.take_records(slot, caller, &mut unread, received, serve)?;
        loop {
            caller.is_paused = caller.is_full();
            if caller.is_paused {
                return Ok(());
            }
            let received = receive(&caller.socket, &mut self.scratch);
            let count = match received.map_err(|error| error.to_string())? {
                ReadOutcome::Bytes(count) => count,
                ReadOutcome::WouldBlock => return Ok(()),
                ReadOutcome::Closed => return Err(String::new()),
            };
            let received = self.clock.now();
            let mut scratch = std::mem::take(&mut self.scratch);
            let bytes = &mut scratch[..count];
            let taken = self.take_records(slot, caller, bytes, received, serve);
            let filled = count == scratch.len();
            self.scratch = scratch;
            taken?;
            if !filled && !caller.is_read_closed && !caller.is_full() {
                return Ok(());
            }
        }
    }

    /// Decrypts records of a caller: first its proof, then asks. Asks that were decrypted before,
    /// and not served because too much waited, come before those of `bytes`.
    fn take_records(
        &mut self,
        slot: usize,
        caller: &mut Caller<R>,
        bytes: &mut [u8],
        received: Ticks,
        serve: &mut dyn FnMut(&mut Reply<'_, R>, Ask<'_>) -> Ticks,
    ) -> Result<(), String> {
        let Some(mut opener) = caller.opener.take() else { return Ok(()) };
        let mut take = |opened: &[u8]| match caller.standing {
            CallerState::Greeted { .. } => self.prove(caller, opened).map(|()| opened.len()),
            CallerState::Met { node } => {
                self.take_frames(slot, caller, node, opened, received, serve)
            }
        };
        let taken = opener.take_kept(&mut take).and_then(|()| opener.open(bytes, &mut take));
        caller.opener = Some(opener);
        match (&caller.standing, taken) {
            // The caller has not proven its name, so the reason is noted as that of a stranger.
            (CallerState::Greeted { from, .. }, Err(reason)) if !reason.is_empty() => {
                self.cluster.note_refused(from, &Cluster::unproven(from));
                Err(String::new())
            }
            (_, taken) => taken,
        }
    }

    /// Checks a caller's proof, and sends it the verdict.
    fn prove(&mut self, caller: &mut Caller<R>, list: &[u8]) -> Result<(), String> {
        let CallerState::Greeted { from, to, .. } = &caller.standing else { return Ok(()) };
        match self.cluster.judge(from, to, list) {
            Ok(node) => {
                // Before the verdict is sent: once the caller reports the connection, this node
                // already tries to reach the caller.
                self.cluster.status(node).note_inbound_connection();
                let sent = caller.writer.send_first(&caller.socket, b"");
                sent.map_err(|_| String::new())?;
                caller.standing = CallerState::Met { node };
                Ok(())
            }
            Err(what) => {
                self.cluster.note_why(from, &what);
                // The connection is closed even if the verdict cannot be sent.
                let _ = caller.writer.send_first(&caller.socket, what.as_bytes());
                Err(String::new())
            }
        }
    }

    /// Serves the asks in the complete frames of `bytes`, until too much waits for the caller.
    /// Returns the length of the frames of these asks.
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
            if caller.is_full() {
                caller.unserved_since.get_or_insert(received);
                break Ok(used);
            }
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
                    let is_full = caller.later.all >= SERVED_LATER_MAX;
                    let is_read = ask.kind == AskKind::Get;
                    let reply = Reply { is_full, is_read, ..caller.reply(id, received) };
                    let mut reply = Reply { waited_until, ask_bytes: length, ..reply };
                    waited_until = Some(serve(&mut reply, ask));
                    served += 1;
                }
                Frame::Answer(_) | Frame::Pong(_) => {
                    break Err("it answers where it has to ask".to_owned());
                }
            }
        };
        if served > 0 {
            add(&self.cluster.status(node).counters.served, served);
        }
        outcome
    }

    /// Calls `answer` with the destination of the answer to an ask that is answered later. Returns
    /// `None` if the caller is gone.
    pub fn reply<T>(
        &mut self,
        ask: DeferredAsk,
        answer: impl FnOnce(&mut Reply<'_, R>) -> T,
    ) -> Option<T> {
        let DeferredAsk { caller: id, is_read } = ask;
        let mut caller = self.callers.get_mut(id.slot)?.take()?;
        let is_same = caller.generation == id.generation;
        let done = is_same.then(|| {
            caller.later.all -= 1;
            caller.later.reads -= usize::from(is_read);
            let is_full = caller.waiting_bytes() > DEFERRED_BYTES_MAX;
            let done = answer(&mut Reply { is_full, ..caller.reply(id, self.clock.now()) });
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

    /// Sends all answers that are ready. `sink` gets the record of each, and the time at which it
    /// was sent.
    pub fn settle(&mut self, registry: &Registry, sink: &mut dyn FnMut(R, Ticks)) {
        while let Some(slot) = self.dirty.pop() {
            let Some(mut caller) = self.callers.get_mut(slot).and_then(Option::take) else {
                continue;
            };
            caller.is_dirty = false;
            let sent = self.send(&mut caller, sink);
            match sent.and_then(|()| self.resume(slot, &mut caller, registry)) {
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
        let sent = caller.writer.send(&caller.socket, &caller.out, &mut caller.written);
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
            // At least half of the bytes were sent, so each byte is moved once on average.
            if caller.written > OUT_KEPT_BYTES && caller.written >= caller.out.len() / 2 {
                caller.out.drain(..caller.written);
                caller.written = 0;
            }
        }
        Ok(())
    }

    /// Orders a new event for a caller from which nothing was read because too much was unsent,
    /// once it is little: the bytes that it has sent before cause no further event.
    fn resume(
        &self,
        slot: usize,
        caller: &mut Caller<R>,
        registry: &Registry,
    ) -> Result<(), String> {
        if !caller.is_paused || caller.is_full() {
            return Ok(());
        }
        caller.is_paused = false;
        let interest = Interest::READABLE | Interest::WRITABLE;
        let ordered = registry.reregister(&mut caller.socket, (self.token)(slot), interest);
        ordered.map_err(|error| error.to_string())
    }

    fn discard(&mut self, slot: usize, mut caller: Caller<R>, registry: &Registry, reason: &str) {
        // A failure does not matter: the kernel removes a closed descriptor from epoll anyway.
        let _ = registry.deregister(&mut caller.socket);
        self.unsent.extend(caller.unfinished.drain(..).map(|(_, _, record)| record));
        self.generations[slot] = self.generations[slot].wrapping_add(1);
        if !reason.is_empty() {
            let who = match caller.standing {
                CallerState::Greeted { .. } => "a caller that has proven nothing".to_owned(),
                CallerState::Met { node } if node == self.cluster.own() => "a guest".to_owned(),
                CallerState::Met { node } => format!("the peer {}", self.cluster.url(node)),
            };
            let line = format!("a connection of {who} was closed: {reason}");
            self.cluster.log(ClusterEvent::Bad(&line));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use mio::{Events, Poll};
    use pellucid_clock::SimulatedClock;

    use super::*;
    use crate::frame::AnswerStatus;
    use crate::session::Sealer;
    use crate::session::tests::sessions;

    /// The longest wait for an event.
    const PATIENCE: Duration = Duration::from_secs(10);
    /// The time without an event after which no further one is expected.
    const QUIET: Duration = Duration::from_millis(50);
    /// The asks of the test, which are somewhat longer than one read.
    const ASKS: u64 = 70;
    const KEY: [u8; 1_000] = [b'k'; 1_000];

    /// One caller that has proven itself and has sent [`ASKS`] asks, and its other end.
    struct Connected {
        callers: Callers<()>,
        slot: usize,
        poll: Poll,
        events: Events,
        client: std::net::TcpStream,
    }

    fn connected(clock: Clock) -> Connected {
        connected_with(clock, |_| AskKind::Get)
    }

    /// As [`connected`]; `kind_of` tells the kind of each ask.
    fn connected_with(clock: Clock, kind_of: fn(u64) -> AskKind) -> Connected {
        let poll = Poll::new().unwrap();
        let mut callers = Callers::new(Cluster::first_of_two(Vec::new()), clock, Token);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        let (calling, session) = sessions();
        client.write_all(&asks(calling.sealer, kind_of)).unwrap();
        let greeted = UnverifiedCaller { session, from: String::new(), to: String::new() };
        let slot = callers.adopt(TcpStream::from_std(socket), greeted, poll.registry()).unwrap();
        callers.callers[slot].as_mut().unwrap().standing = CallerState::Met { node: 1 };
        Connected { callers, slot, poll, events: Events::with_capacity(16), client }
    }

    #[test]
    fn callers_without_a_proof_are_closed_beyond_their_number_and_their_time() {
        let simulated = SimulatedClock::leaked(0);
        let (poll, clock) = (Poll::new().unwrap(), Clock::simulated(simulated));
        let mut callers = Callers::<()>::new(Cluster::first_of_two(Vec::new()), clock, Token);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut clients = Vec::new();
        for _ in 0..=GREETED_MAX {
            simulated.advance_ns(1);
            clients.push(std::net::TcpStream::connect(address).unwrap());
            let (socket, _) = listener.accept().unwrap();
            socket.set_nonblocking(true).unwrap();
            let (_, session) = sessions();
            let greeted = UnverifiedCaller { session, from: String::new(), to: String::new() };
            callers.adopt(TcpStream::from_std(socket), greeted, poll.registry()).unwrap();
        }
        let open = |callers: &Callers<()>| callers.callers.iter().flatten().count();
        assert_eq!(open(&callers), GREETED_MAX);
        clients[0].set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(clients[0].read(&mut [0]).unwrap(), 0, "the oldest is closed");
        let wait_ns = PROOF_WAIT.as_nanos() as u64;
        for (waited_ns, left) in [(wait_ns / 2, GREETED_MAX), (wait_ns, 0)] {
            simulated.advance_ns(waited_ns);
            callers.tick(poll.registry());
            assert_eq!(open(&callers), left);
        }
    }

    /// Encrypted asks, which are somewhat longer than one read.
    fn asks(mut sealer: Sealer, kind_of: fn(u64) -> AskKind) -> Vec<u8> {
        let (mut frames, mut sealed) = (Vec::new(), Vec::new());
        (0..ASKS)
            .for_each(|id| Ask { id, key: &KEY, ..Ask::plain(kind_of(id)) }.encode(&mut frames));
        sealer.seal(&frames, &mut sealed);
        assert!(sealed.len() > READ_BYTES);
        sealed
    }

    /// Regression: the limit of a caller's unsent bytes was checked only once for each read, so a
    /// read of small asks with large answers exceeded it many times over.
    #[test]
    fn asks_of_one_read_are_served_as_their_answers_are_sent() {
        let clock = Clock::system();
        let Connected { mut callers, slot, mut poll, mut events, mut client } = connected(clock);
        let reader = std::thread::spawn(move || std::io::copy(&mut client, &mut std::io::sink()));
        let large = vec![0; 1 << 20];
        let mut served = 0;
        let mut serve = |reply: &mut Reply<'_, ()>, ask: Ask<'_>| {
            assert_eq!(ask.id, served);
            let answer = Answer { payload: &large, ..Answer::plain(ask.id, AnswerStatus::Found) };
            served += 1;
            let now = clock.now();
            reply.answer(&answer, now, ());
            now
        };
        let (begun, mut sent) = (Clock::monotonic().stopwatch(), 0);
        while sent < ASKS {
            assert!(u128::from(begun.elapsed_ns()) < PATIENCE.as_nanos(), "{sent} were sent");
            poll.poll(&mut events, Some(QUIET)).unwrap();
            for event in &events {
                callers.ready(event.token().0, Vec::new(), poll.registry(), &mut serve);
                let waiting = callers.callers[slot].as_ref().unwrap().waiting_bytes();
                assert!(waiting <= OUT_BYTES_MAX + 2 * large.len(), "{waiting} bytes wait");
            }
            callers.settle(poll.registry(), &mut |(), _| sent += 1);
        }
        drop(callers);
        reader.join().unwrap().unwrap();
    }

    /// Regression: the values of all reads that were answered later could wait for a slow caller
    /// at once; then those beyond 64 MiB were refused, although the caller read all the time.
    #[test]
    fn reads_that_are_answered_later_are_limited_in_number() {
        let clock = Clock::system();
        let Connected { mut callers, slot, mut poll, mut events, mut client } = connected(clock);
        let reader = std::thread::spawn(move || std::io::copy(&mut client, &mut std::io::sink()));
        let large = vec![0; 1 << 20];
        let (mut deferred, mut deferred_most, mut sent) = (Vec::new(), 0, 0);
        let begun = Clock::monotonic().stopwatch();
        while sent < ASKS {
            assert!(u128::from(begun.elapsed_ns()) < PATIENCE.as_nanos(), "{sent} were sent");
            poll.poll(&mut events, Some(QUIET)).unwrap();
            for event in &events {
                let token = event.token().0;
                callers.ready(token, Vec::new(), poll.registry(), &mut |reply, ask| {
                    assert!(!reply.is_full);
                    deferred.push((ask.id, reply.later()));
                    clock.now()
                });
            }
            deferred_most = deferred_most.max(deferred.len());
            if deferred.len() == READS_LATER_MAX && !callers.is_dirty() {
                callers.tick(poll.registry());
                assert!(callers.is_dirty(), "a ping may wait unread, and gets no pong");
            }
            for (id, ask) in deferred.drain(..) {
                let answer = Answer { payload: &large, ..Answer::plain(id, AnswerStatus::Found) };
                callers.reply(ask, |reply| reply.answer(&answer, clock.now(), ())).unwrap();
            }
            let waiting = callers.callers[slot].as_ref().unwrap().waiting_bytes();
            let waiting_max = OUT_BYTES_MAX + (READS_LATER_MAX + 1) * large.len();
            assert!(waiting <= waiting_max, "{waiting} bytes wait");
            callers.settle(poll.registry(), &mut |(), _| sent += 1);
        }
        assert_eq!(deferred_most, READS_LATER_MAX);
        drop(callers);
        reader.join().unwrap().unwrap();
    }

    /// Regression: pages of ranges counted as reads of keys. While as many as the limit waited for
    /// slow ones, up to a minute, nothing else of the caller was served.
    #[test]
    fn asks_are_served_beside_many_pages_of_ranges() {
        const PAGES: u64 = ASKS - 1;
        let clock = Clock::system();
        let kind_of = |id: u64| if id < PAGES { AskKind::Range } else { AskKind::Get };
        let Connected { mut callers, mut poll, mut events, client: _client, .. } =
            connected_with(clock, kind_of);
        let (begun, mut pages, mut is_served) = (Clock::monotonic().stopwatch(), 0, false);
        while !is_served {
            assert!(u128::from(begun.elapsed_ns()) < PATIENCE.as_nanos(), "{pages} were served");
            poll.poll(&mut events, Some(QUIET)).unwrap();
            for event in &events {
                let token = event.token().0;
                callers.ready(token, Vec::new(), poll.registry(), &mut |reply, ask| {
                    reply.later();
                    pages += u64::from(ask.kind == AskKind::Range);
                    is_served |= ask.kind == AskKind::Get;
                    clock.now()
                });
            }
        }
        assert_eq!(pages, PAGES);
    }

    /// Regression: the values of all reads that were answered later could be large together.
    #[test]
    fn a_value_is_refused_once_too_many_bytes_wait_for_a_caller() {
        let clock = Clock::system();
        let Connected { mut callers, slot, mut poll, mut events, client: _client } =
            connected(clock);
        poll.poll(&mut events, Some(PATIENCE)).unwrap();
        let mut deferred = Vec::new();
        callers.ready(slot, Vec::new(), poll.registry(), &mut |reply, _| {
            deferred.push(reply.later());
            clock.now()
        });
        for (waiting, is_full) in [(DEFERRED_BYTES_MAX, false), (DEFERRED_BYTES_MAX + 1, true)] {
            callers.callers[slot].as_mut().unwrap().out = vec![0; waiting];
            let refused = callers.reply(deferred.pop().unwrap(), |reply| reply.is_full);
            assert_eq!(refused, Some(is_full), "{waiting} bytes wait");
        }
    }

    /// Regression: what a caller had sent while too many bytes waited for it was read only at its
    /// next event. If the kernel then took all that waited at once, there was none, so the asks
    /// waited until the caller gave up the connection.
    #[test]
    fn a_paused_caller_is_read_on_once_its_answers_are_sent() {
        let clock = Clock::system();
        let Connected { mut callers, slot, mut poll, mut events, client: _client } =
            connected(clock);
        poll.poll(&mut events, Some(PATIENCE)).unwrap();
        let large = vec![0; OUT_BYTES_MAX + 1];
        let mut served = 0;
        let mut serve = |reply: &mut Reply<'_, ()>, ask: Ask<'_>| {
            let payload = if served == 0 { &large[..] } else { b"" };
            let answer = Answer { payload, ..Answer::plain(ask.id, AnswerStatus::Found) };
            served += 1;
            let now = clock.now();
            reply.answer(&answer, now, ());
            now
        };
        callers.ready(slot, Vec::new(), poll.registry(), &mut serve);
        let caller = callers.callers[slot].as_mut().unwrap();
        assert!(caller.is_paused && caller.is_dirty);
        // The read has made room in the socket for the rest of the asks.
        while poll.poll(&mut events, Some(QUIET)).is_ok_and(|()| !events.is_empty()) {}
        // The kernel takes all that is left at once.
        caller.unfinished.clear();
        caller.out.clear();
        encode_pong(0, &mut caller.out);
        callers.settle(poll.registry(), &mut |(), _| {});
        poll.poll(&mut events, Some(PATIENCE)).unwrap();
        assert!(events.iter().any(|event| event.token() == Token(slot) && event.is_readable()));
        callers.ready(slot, Vec::new(), poll.registry(), &mut serve);
        assert_eq!(served, ASKS);
    }
}

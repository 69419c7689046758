//! The connections of one event loop to its node's peers, and the asks in flight on them.

mod outbound_handshake;

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use pellucid_clock::{Clock, Ticks, Timer};

use crate::cluster::{Cluster, ClusterEvent};
use crate::decode::decode;
use crate::frame::{Answer, Ask, AskKind, FRAME_BYTES_MAX, Frame};
use crate::link::{Connection, Link, Stage};
use crate::outcome::{AskTimes, Failure, Outcome, SendResult};
use crate::peer_status::add;
use crate::slab::Slab;
use crate::socket::{ReadOutcome, receive};

/// Limit of one read in bytes.
const READ_BYTES: usize = 64 * 1024;
/// The interval of the timer that checks all time limits. A wait may exceed its limit by this much.
const TICK: Duration = Duration::from_millis(50);
/// Limit of the bytes that wait for a peer. Beyond it, requests for its keys are refused.
const OUT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The wait for a page of a range, in waits for a key: its owner may have to pass millions of
/// removed entries before the first of the page. Pings find out earlier if the owner is gone.
const PAGE_WAITS: u32 = 60;
/// The back-off of connection attempts: the first pause, which doubles each time, and the longest.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_millis(500);
/// The error for a peer that closes the connection after this node's proof.
const UNPROVEN: &str = "it does not take this node's proof: give every node the same \
                        --cluster-secret-file";
/// The number of all pings; no ask has it.
const PING_ID: u64 = u64::MAX;

/// A callback that gets the outcome of each ask, and the context that the loop keeps for it.
type Sink<'a, C> = dyn FnMut(C, Outcome<'_>) + 'a;

/// An ask in flight.
struct PendingAsk<C> {
    context: C,
    node: usize,
    asked: Ticks,
    /// The time at which the kernel had all of it.
    sent: Option<Ticks>,
    /// The limit of the wait for the answer.
    wait: Duration,
    /// The deadline of the answer.
    until: Ticks,
}

/// The connections of one event loop to its node's peers. `C` is the context that the loop keeps
/// for each ask.
pub struct Peers<C> {
    cluster: Arc<Cluster>,
    clock: Clock,
    index: usize,
    /// The links, by the node's index in the list; that of this node stays without a connection.
    links: Vec<Link>,
    under_way: Slab<PendingAsk<C>>,
    /// The peers with asks that [`Peers::settle`] has to send.
    dirty: Vec<usize>,
    scratch: Vec<u8>,
    token: fn(usize) -> Token,
    timer: Timer,
    /// The wait for the answer about a key.
    wait_ticks: u64,
    /// The time that the owner gets for it: no more than is waited.
    owner_wait_ms: u32,
    silence_ticks: u64,
}

impl<C> Peers<C> {
    /// Starts connecting to all peers. `token` gives the token of a link: number zero is the timer,
    /// number `n` the node at index `n - 1`.
    ///
    /// # Errors
    /// If the timer cannot be created.
    pub fn start(
        cluster: Arc<Cluster>,
        clock: Clock,
        index: usize,
        registry: &Registry,
        token: fn(usize) -> Token,
    ) -> io::Result<Peers<C>> {
        let timer = Timer::every(TICK)?;
        registry.register(&mut SourceFd(&timer.as_raw_fd()), token(0), Interest::READABLE)?;
        let now = clock.now();
        let nodes = 0..cluster.nodes().nodes().len();
        let ticks = |span: Duration| clock.ticks(span.as_nanos() as u64);
        let owner_wait = looked_at_in_time(cluster.options.wait);
        let mut peers = Peers {
            links: nodes.map(|_| Link::new(now)).collect(),
            under_way: Slab::new(),
            dirty: Vec::new(),
            scratch: vec![0; READ_BYTES],
            timer,
            wait_ticks: ticks(owner_wait),
            // Zero would be no limit.
            owner_wait_ms: u32::try_from(owner_wait.as_millis()).unwrap_or(u32::MAX).max(1),
            silence_ticks: ticks(cluster.options.silence),
            cluster,
            clock,
            index,
            token,
        };
        peers.retry(registry, now, &mut |_, _| {});
        Ok(peers)
    }

    /// Accepts an ask for the node at this index; [`Peers::settle`] sends it. A later call passes
    /// the outcome to its `sink`.
    ///
    /// # Errors
    /// If the peer is unreachable, or too many asks wait for it.
    ///
    /// # Panics
    /// If `node` is this node.
    pub fn ask(&mut self, node: usize, ask: Ask<'_>, context: C) -> SendResult {
        if let Some(failure) = self.refuses(node) {
            return Err(failure);
        }
        let link = &mut self.links[node];
        let status = self.cluster.status(node);
        let asked = self.clock.now();
        let waits = if ask.kind == AskKind::Range { PAGE_WAITS } else { 1 };
        let wait = self.cluster.options.wait.saturating_mul(waits);
        let ticks = self.wait_ticks.saturating_mul(u64::from(waits));
        let until = Ticks(asked.0.saturating_add(ticks));
        let pending = PendingAsk { context, node, asked, sent: None, wait, until };
        let id = self.under_way.insert(pending);
        let wait_ms = self.owner_wait_ms.saturating_mul(waits);
        let begin = link.out.len();
        Ask { id, wait_ms, ..ask }.encode(&mut link.out);
        if link.unsent.is_empty() && !link.is_blocked {
            self.dirty.push(node);
        }
        link.unsent.push_back((id, begin..link.out.len()));
        link.in_flight += 1;
        add(&status.counters.asked, 1);
        add(&status.counters.in_flight, 1);
        Ok(())
    }

    /// The reason why the node at this index accepts no ask now; `None` if it accepts asks. A
    /// refusal is counted.
    ///
    /// # Panics
    /// If `node` is this node.
    #[must_use]
    pub fn refuses(&self, node: usize) -> Option<Failure> {
        assert_ne!(node, self.cluster.own(), "a node does not ask itself");
        let link = &self.links[node];
        let (status, owner) = (self.cluster.status(node), || self.cluster.url(node).to_string());
        if let Some(failure) = self.unreachable(node) {
            add(&status.counters.unreachable, 1);
            return Some(failure);
        }
        let is_full = link.in_flight >= self.cluster.options.in_flight_max
            || link.waiting_bytes() > OUT_BYTES_MAX;
        is_full.then(|| {
            add(&status.counters.refused, 1);
            Failure::Full { owner: owner() }
        })
    }

    /// Handles an event of this link. `is_read_closed` is true if the peer has closed its sending
    /// direction.
    pub fn ready(
        &mut self,
        link: usize,
        is_read_closed: bool,
        registry: &Registry,
        sink: &mut Sink<'_, C>,
    ) {
        let now = self.clock.now();
        match link.checked_sub(1) {
            None => {
                self.timer.take();
                self.tick(registry, now, sink);
            }
            Some(node) => {
                if let (true, Some(link)) = (is_read_closed, self.links.get_mut(node))
                    && let Some(connection) = &mut link.connection
                {
                    connection.is_read_closed = true;
                }
                self.attend(node, registry, now, sink);
            }
        }
    }

    /// True if there are asks that [`Peers::settle`] has to send.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The reason why the node at this index is unreachable; `None` if that is not known. A node
    /// that has connected to this one since the failure does not count as unreachable: a new
    /// attempt begins soon, and asks wait for it within their time limit.
    #[must_use]
    pub fn unreachable(&self, node: usize) -> Option<Failure> {
        let link = &self.links[node];
        let reason = link.down.as_ref()?;
        if self.has_called(link, node) {
            return None;
        }
        let (owner, reason) = (self.cluster.url(node).to_string(), reason.clone());
        Some(Failure::Unreachable { owner, reason })
    }

    /// True if the node has connected to this one since the last failed attempt began. Then that
    /// failure is outdated: a new attempt is due, or under way.
    fn has_called(&self, link: &Link, node: usize) -> bool {
        self.cluster.status(node).inbound_connections() != link.inbound_seen
    }

    /// Sends all asks that were accepted since the last call.
    pub fn settle(&mut self, registry: &Registry, sink: &mut Sink<'_, C>) {
        while let Some(node) = self.dirty.pop() {
            self.flush(node, registry, sink);
        }
    }

    fn attend(&mut self, node: usize, registry: &Registry, now: Ticks, sink: &mut Sink<'_, C>) {
        let Some(link) = self.links.get(node) else { return };
        let was_ready = link.is_ready();
        let went = match link.connection.as_ref().map(|connection| &connection.stage) {
            None => return,
            Some(Stage::Connecting) => self.greet(node, now, sink),
            Some(Stage::Greeting(_)) => self.meet(node, now, sink),
            Some(Stage::Proving) => self.read(node, now, sink),
            Some(Stage::Ready) => {
                // Asks of this wake-up are not sent here, but together at its end.
                self.flush_blocked(node, registry, now, sink);
                self.read(node, now, sink)
            }
        };
        if let Err(reason) = went {
            return self.lose(node, registry, now, reason, sink);
        }
        // Asks that waited for the handshake are sent now: no further event would do it.
        let link = &self.links[node];
        if !was_ready && link.is_ready() && link.waiting_bytes() > 0 {
            self.flush(node, registry, sink);
        }
    }

    /// Reads from the peer, and delivers its answers.
    fn read(&mut self, node: usize, now: Ticks, sink: &mut Sink<'_, C>) -> Result<(), String> {
        loop {
            let link = &mut self.links[node];
            let Some(connection) = &link.connection else { return Ok(()) };
            let Connection { socket, stage, is_read_closed, .. } = connection;
            let is_read_closed = *is_read_closed;
            if !matches!(stage, Stage::Proving | Stage::Ready) {
                return Ok(());
            }
            let count = match receive(socket, &mut self.scratch).map_err(|e| e.to_string())? {
                ReadOutcome::Bytes(count) => count,
                ReadOutcome::WouldBlock => return Ok(()),
                ReadOutcome::Closed if matches!(stage, Stage::Proving) => {
                    return Err(UNPROVEN.to_owned());
                }
                ReadOutcome::Closed => return Err("it closed the connection".to_owned()),
            };
            (link.heard, link.pinged) = (now, None);
            let received = self.clock.now();
            add(&self.cluster.status(node).counters.received_bytes, count as u64);
            let mut scratch = std::mem::take(&mut self.scratch);
            let taken = self.take_records(node, &mut scratch[..count], received, sink);
            let filled = count == scratch.len();
            self.scratch = scratch;
            taken?;
            if !filled && !is_read_closed {
                return Ok(());
            }
        }
    }

    /// Decrypts records of the peer, and handles the verdict and the frames in them.
    fn take_records(
        &mut self,
        node: usize,
        bytes: &mut [u8],
        received: Ticks,
        sink: &mut Sink<'_, C>,
    ) -> Result<(), String> {
        let Some(mut channel) = self.links[node].channel.take() else { return Ok(()) };
        let taken = channel.opener.open(bytes, &mut |opened| {
            if self.prove(node, opened)? {
                return Ok(opened.len());
            }
            self.take_frames(node, opened, received, sink)
        });
        self.links[node].channel = Some(channel);
        taken
    }

    /// Delivers the answers in the complete frames of `bytes`. Returns the length of these frames.
    fn take_frames(
        &mut self,
        node: usize,
        bytes: &[u8],
        received: Ticks,
        sink: &mut Sink<'_, C>,
    ) -> Result<usize, String> {
        let mut used = 0;
        loop {
            let decoded = decode(&bytes[used..], FRAME_BYTES_MAX);
            let Some((frame, length)) = decoded.map_err(|error| error.to_string())? else {
                return Ok(used);
            };
            used += length;
            match frame {
                Frame::Pong(_) => {}
                Frame::Ask(_) => return Err("it asks where it has to answer".to_owned()),
                Frame::Answer(answer) => self.bring(node, answer, received, sink),
            }
        }
    }

    fn bring(&mut self, node: usize, answer: Answer<'_>, received: Ticks, sink: &mut Sink<'_, C>) {
        // The ask of this answer has expired, so the answer is dropped.
        if self.under_way.get_mut(answer.id).is_none_or(|waiting| waiting.node != node) {
            return;
        }
        let Some(waiting) = self.under_way.remove(answer.id) else { return };
        self.links[node].in_flight -= 1;
        let sent = waiting.sent.unwrap_or(waiting.asked);
        let counters = &self.cluster.status(node).counters;
        add(&counters.answered, 1);
        counters.in_flight.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        add(&counters.round_trip_total_ns, self.clock.nanoseconds(received.since(sent)));
        let times = AskTimes { asked: waiting.asked, sent, received };
        sink(waiting.context, Outcome::Answered(answer, times));
    }

    /// Sends what waits for a peer. Returns the number of bytes that the kernel has taken.
    fn flush(&mut self, node: usize, registry: &Registry, sink: &mut Sink<'_, C>) -> usize {
        let link = &mut self.links[node];
        let Some(Connection { socket, stage: Stage::Ready, .. }) = &link.connection else {
            return 0;
        };
        if link.is_blocked || link.waiting_bytes() == 0 {
            return 0;
        }
        let Some(channel) = &mut link.channel else { return 0 };
        let sent = channel.writer.send(socket, &link.out, &mut link.written);
        let now = self.clock.now();
        // Also if an error followed: the peer may have executed these asks.
        let delivered = link.delivered();
        while let Some((id, place)) = link.unsent.front()
            && place.end <= delivered
        {
            let id = *id;
            link.unsent.pop_front();
            if let Some(waiting) = self.under_way.get_mut(id) {
                waiting.sent = Some(now);
            }
        }
        match sent {
            Ok(count) => {
                add(&self.cluster.status(node).counters.sent_bytes, count as u64);
                link.is_blocked = link.waiting_bytes() > 0;
                link.drain_sent();
                count
            }
            Err(error) => {
                self.lose(node, registry, now, error.to_string(), sink);
                0
            }
        }
    }

    /// Sends more after the kernel had taken no more. If it takes bytes now, the peer is there: the
    /// kernel has room again only because the peer has taken bytes. A ping may wait behind these,
    /// so it gets new time.
    fn flush_blocked(
        &mut self,
        node: usize,
        registry: &Registry,
        now: Ticks,
        sink: &mut Sink<'_, C>,
    ) {
        let was_blocked = std::mem::take(&mut self.links[node].is_blocked);
        if was_blocked && self.flush(node, registry, sink) > 0 {
            let link = &mut self.links[node];
            (link.heard, link.pinged) = (now, link.pinged.map(|_| now));
        }
    }

    /// Drops a connection, and schedules the next attempt. All asks in flight on it fail; but if it
    /// never became ready, and the peer has connected to this node meanwhile, they wait on.
    fn lose(
        &mut self,
        node: usize,
        registry: &Registry,
        now: Ticks,
        reason: String,
        sink: &mut Sink<'_, C>,
    ) {
        let link = &mut self.links[node];
        link.inbound_seen = link.inbound_tried;
        let pause = RETRY_MAX.min(RETRY_FIRST * 2_u32.pow(link.failures.min(8)));
        link.failures += 1;
        link.retry_at = Ticks(now.0 + self.clock.ticks(pause.as_nanos() as u64));
        let status = self.cluster.status(node);
        let was_ready = link.is_ready();
        add(&status.counters.broken, u64::from(was_ready));
        link.failures_ever = link.failures_ever.wrapping_add(usize::from(!was_ready));
        if let Some(mut connection) = link.connection.take() {
            // A failure does not matter: the kernel removes a closed descriptor from epoll anyway.
            let _ = registry.deregister(&mut connection.socket);
        }
        link.reset();
        let url = self.cluster.url(node);
        if status.note_down(self.index, &reason) {
            let line = format!("the peer {url} cannot be reached: {reason}");
            self.cluster.log(ClusterEvent::Bad(&line));
        }
        link.down = Some(reason.clone());
        if !was_ready && status.inbound_connections() != link.inbound_seen {
            return;
        }
        link.forget_asks();
        let owner = url.to_string();
        self.under_way.remove_if(
            |waiting| waiting.node == node,
            |waiting| {
                let (owner, reason) = (owner.clone(), reason.clone());
                status.counters.in_flight.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                let failure = if waiting.sent.is_some() {
                    add(&status.counters.lost, 1);
                    Failure::Lost { owner, reason }
                } else {
                    add(&status.counters.unreachable, 1);
                    Failure::Unreachable { owner, reason }
                };
                sink(waiting.context, Outcome::Failed(failure));
            },
        );
    }

    /// Checks everything that has a time limit.
    fn tick(&mut self, registry: &Registry, now: Ticks, sink: &mut Sink<'_, C>) {
        let distrust = self.cluster.distrust();
        for node in 0..self.links.len() {
            let Some(connection) = &self.links[node].connection else { continue };
            match (distrust, &connection.stage) {
                (Some(why), _) => self.lose(node, registry, now, why.to_owned(), sink),
                (None, Stage::Ready) => self.listen(node, registry, now, sink),
                (None, _) if now >= connection.by => {
                    let reason = "it does not answer".to_owned();
                    self.lose(node, registry, now, reason, sink);
                }
                (None, _) => {}
            }
        }
        self.retry(registry, now, sink);
        self.expire(now, sink);
    }

    /// Sends a ping to a silent peer, and drops its connection if it stays silent.
    fn listen(&mut self, node: usize, registry: &Registry, now: Ticks, sink: &mut Sink<'_, C>) {
        let was_pinged =
            self.links[node].pinged.is_some_and(|at| now.since(at) >= self.silence_ticks);
        if was_pinged {
            // If this loop was delayed, the answer may be in the socket already.
            if let Err(reason) = self.read(node, now, sink) {
                return self.lose(node, registry, now, reason, sink);
            }
            // The kernel may have room for which it gives no event yet.
            self.flush_blocked(node, registry, now, sink);
        }
        let link = &mut self.links[node];
        if !link.is_ready() {
            return;
        }
        match link.pinged {
            Some(at) if now.since(at) >= self.silence_ticks => {
                let silence = self.cluster.options.silence.as_millis();
                let reason = format!("it has been silent for {silence} ms");
                self.lose(node, registry, now, reason, sink);
            }
            None if now.since(link.heard) >= self.silence_ticks / 4 => {
                link.pinged = Some(now);
                Ask { id: PING_ID, ..Ask::plain(AskKind::Ping) }.encode(&mut link.out);
                self.flush(node, registry, sink);
            }
            _ => {}
        }
    }

    /// Starts the connection attempts that are due.
    fn retry(&mut self, registry: &Registry, now: Ticks, sink: &mut Sink<'_, C>) {
        for node in 0..self.links.len() {
            let link = &mut self.links[node];
            if node == self.cluster.own() || link.connection.is_some() {
                continue;
            }
            let inbound = self.cluster.status(node).inbound_connections();
            // A peer that has just connected to this node is running, so the pause is skipped.
            if now < link.retry_at && inbound == link.inbound_seen {
                continue;
            }
            link.inbound_tried = inbound;
            let address = match self.cluster.distrust() {
                Some(why) => Err(why.to_owned()),
                None => self.cluster.addresses.of(node, link.failures_ever),
            };
            match address {
                Err(reason) => self.lose(node, registry, now, reason, sink),
                Ok(address) => {
                    let by = Ticks(now.0 + self.silence_ticks.max(self.wait_ticks));
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    let connected = TcpStream::connect(address).and_then(|mut socket| {
                        registry.register(&mut socket, (self.token)(node + 1), interest)?;
                        Ok(socket)
                    });
                    match connected {
                        Ok(socket) => {
                            let stage = Stage::Connecting;
                            link.connection =
                                Some(Connection { socket, stage, by, is_read_closed: false });
                        }
                        Err(error) => self.lose(node, registry, now, error.to_string(), sink),
                    }
                }
            }
        }
    }

    /// Ends the asks whose time is over. Asks that are still unsent are taken back.
    fn expire(&mut self, now: Ticks, sink: &mut Sink<'_, C>) {
        let (links, cluster) = (&mut self.links, &self.cluster);
        let mut is_any_unsent = false;
        self.under_way.remove_if(
            |waiting| now >= waiting.until,
            |waiting| {
                is_any_unsent |= waiting.sent.is_none();
                links[waiting.node].in_flight -= 1;
                let counters = &cluster.status(waiting.node).counters;
                add(&counters.late, 1);
                counters.in_flight.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                let owner = cluster.url(waiting.node).to_string();
                let failure = Failure::Late { owner, waited: waiting.wait };
                sink(waiting.context, Outcome::Failed(failure));
            },
        );
        if is_any_unsent {
            let under_way = &self.under_way;
            links.iter_mut().for_each(|link| link.withdraw(|id| !under_way.contains(id)));
        }
    }
}

/// The time limit of an ask, somewhat below `wait`. Time limits are checked once a tick, and a tick
/// may be late; so the failure is still reported before `wait` is over.
fn looked_at_in_time(wait: Duration) -> Duration {
    wait.saturating_sub(TICK * 2).max(wait / 2)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use mio::{Events, Poll};
    use pellucid_clock::SimulatedClock;

    use super::*;
    use crate::frame::ASK_BYTES;
    use crate::link::Channel;
    use crate::sealed_writer::SealedWriter;
    use crate::session::tests::sessions;
    use crate::session::{RECORD_BYTES_MAX, SEALED_BYTES_MAX, Session};
    use crate::socket::tune;

    /// The longest wait for an expected event.
    const PATIENCE_NS: u64 = 10_000_000_000;

    /// The connections of a node whose peer has completed the handshake, and the peer's socket. The
    /// kernel holds little more than `send_buffer_bytes`.
    fn connected(
        poll: &Poll,
        clock: Clock,
        send_buffer_bytes: usize,
    ) -> (Peers<()>, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut cluster = Cluster::first_of_two(vec![listener.local_addr().unwrap()]);
        Arc::get_mut(&mut cluster).unwrap().options.wait = Duration::from_secs(3_600);
        let mut peers = Peers::start(cluster, clock, 0, poll.registry(), Token).unwrap();
        let (peer, _) = listener.accept().unwrap();
        let (Session { sealer, opener }, _) = sessions();
        let link = &mut peers.links[1];
        link.channel = Some(Box::new(Channel { writer: SealedWriter::new(sealer), opener }));
        let connection = link.connection.as_mut().unwrap();
        connection.stage = Stage::Ready;
        tune(&connection.socket);
        socket2::SockRef::from(&connection.socket).set_send_buffer_size(send_buffer_bytes).unwrap();
        (peers, peer)
    }

    /// Regression: only the first address of a name was tried, so a node that listens at another
    /// one was never reached.
    #[test]
    fn the_addresses_of_a_node_are_tried_in_turn() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        // No program listens at the first.
        let all = vec!["127.0.0.1:1".parse().unwrap(), listener.local_addr().unwrap()];
        let cluster = Cluster::first_of_two(all);
        let mut poll = Poll::new().unwrap();
        let mut events = Events::with_capacity(16);
        let clock = Clock::system();
        let mut peers = Peers::<()>::start(cluster, clock, 0, poll.registry(), Token).unwrap();
        let begun = Clock::monotonic().stopwatch();
        while listener.accept().is_err() {
            assert!(begun.elapsed_ns() < PATIENCE_NS, "the second address is not tried");
            poll.poll(&mut events, Some(TICK)).unwrap();
            for event in &events {
                let (link, is_read_closed) = (event.token().0, event.is_read_closed());
                peers.ready(link, is_read_closed, poll.registry(), &mut |(), _| {});
            }
        }
    }

    /// Regression: a ping waited behind a large ask, so a peer that read the ask all the time
    /// counted as silent, and its connection was dropped. Later that was so only for a peer that
    /// took less than a block of encrypted bytes at a time, or before the kernel gave an event.
    #[test]
    fn a_peer_that_takes_a_large_ask_is_not_silent() {
        let mut poll = Poll::new().unwrap();
        let mut events = Events::with_capacity(16);
        let time = SimulatedClock::leaked(1);
        let (mut peers, mut peer) = connected(&poll, Clock::simulated(time), 16 << 10);
        peer.set_nonblocking(true).unwrap();
        let silence = peers.cluster.options.silence;

        let large = Ask { key: b"k", value: &[0; 2 << 20], ..Ask::plain(AskKind::Put) };
        let mut buffer = vec![0; 256 << 10];
        let mut step = |peers: &mut Peers<()>, is_read: bool, is_told: bool| {
            let has_to_read = is_read && peers.links[1].is_blocked;
            let begun = Clock::monotonic().stopwatch();
            loop {
                while is_read && peer.read(&mut buffer).is_ok() {}
                poll.poll(&mut events, Some(Duration::from_millis(10))).unwrap();
                for event in events.iter().filter(|_| is_told) {
                    let (link, is_read_closed) = (event.token().0, event.is_read_closed());
                    peers.ready(link, is_read_closed, poll.registry(), &mut |(), _| {});
                }
                if !has_to_read || events.iter().any(|event| event.token() == Token(2)) {
                    break;
                }
                assert!(begun.elapsed_ns() < PATIENCE_NS, "the kernel takes no more");
            }
            peers.settle(poll.registry(), &mut |(), _| {});
            // Without events, the peer counts as silent by the next tick.
            let advance = if is_told { silence / 2 } else { silence };
            time.advance_ns(u64::try_from(advance.as_nanos()).unwrap());
            peers.ready(0, false, poll.registry(), &mut |(), _| {});
            let link = &peers.links[1];
            (link.is_ready(), link.waiting_bytes())
        };
        assert!(peers.ask(1, large, ()).is_ok());
        loop {
            let is_told = peers.links[1].waiting_bytes() > 1 << 20;
            let (is_ready, waiting) = step(&mut peers, true, is_told);
            assert!(is_ready, "{:?}", peers.unreachable(1));
            if waiting == 0 {
                break;
            }
        }
        assert!(peers.ask(1, large, ()).is_ok());
        let lost = (0..200).find(|_| !step(&mut peers, false, true).0);
        assert!(lost.is_some(), "a peer that takes no more is silent");
    }

    /// Regression: until the kernel had taken a whole block of encrypted bytes, all asks in it
    /// counted as those that the peer cannot have executed.
    #[test]
    fn asks_whose_records_a_lost_peer_may_have_are_lost() {
        const ASKS: u64 = 300;
        let value = [0; 8 << 10];
        let poll = Poll::new().unwrap();
        // Room for some records, but not for all asks.
        let clock = Clock::simulated(SimulatedClock::leaked(1));
        let (mut peers, _peer) = connected(&poll, clock, 64 << 10);
        for _ in 0..ASKS {
            let ask = Ask { key: b"k", value: &value, ..Ask::plain(AskKind::Put) };
            assert!(peers.ask(1, ask, ()).is_ok());
        }
        peers.settle(poll.registry(), &mut |(), _| {});
        let (now, reason, mut lost) = (peers.clock.now(), "it is off".to_owned(), 0);
        peers.lose(1, poll.registry(), now, reason, &mut |(), outcome| {
            lost += u64::from(matches!(outcome, Outcome::Failed(Failure::Lost { .. })));
        });
        let figures = peers.cluster.view(1).figures;
        let decrypted = figures.sent_bytes as usize / SEALED_BYTES_MAX * RECORD_BYTES_MAX;
        let complete = (decrypted / (ASK_BYTES + 1 + value.len())) as u64;
        assert!((1..ASKS).contains(&complete), "{figures:?}");
        assert_eq!((lost, figures.lost), (complete, complete));
        assert_eq!(figures.unreachable, ASKS - complete);
    }

    /// Regression: an owner was given the whole wait, and executed asks for which nobody waited any
    /// more.
    #[test]
    fn an_owner_is_given_no_more_time_than_is_waited_for_it() {
        let (poll, clock) = (Poll::new().unwrap(), Clock::simulated(SimulatedClock::leaked(1)));
        let (mut peers, _peer) = connected(&poll, clock, 64 << 10);
        for (kind, waits) in [(AskKind::Get, 1), (AskKind::Range, PAGE_WAITS)] {
            let begin = peers.links[1].out.len();
            assert!(peers.ask(1, Ask { key: b"k", ..Ask::plain(kind) }, ()).is_ok());
            let asked = decode(&peers.links[1].out[begin..], FRAME_BYTES_MAX).unwrap();
            let Some((Frame::Ask(ask), _)) = asked else { panic!("{asked:?}") };
            let waited = looked_at_in_time(peers.cluster.options.wait) * waits;
            assert_eq!(u128::from(ask.wait_ms), waited.as_millis());
        }
    }

    /// Regression: a page had the time of a key. A range with a longer stretch of removed entries
    /// failed at it, at each attempt.
    #[test]
    fn a_page_of_a_range_has_more_time_than_a_key() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut cluster = Cluster::first_of_two(vec![listener.local_addr().unwrap()]);
        Arc::get_mut(&mut cluster).unwrap().options.silence = Duration::from_secs(3_600);
        let (poll, time) = (Poll::new().unwrap(), SimulatedClock::leaked(1));
        let (wait, clock) = (cluster.options.wait, Clock::simulated(time));
        let mut peers = Peers::start(cluster, clock, 0, poll.registry(), Token).unwrap();
        for kind in [AskKind::Range, AskKind::Get] {
            assert!(peers.ask(1, Ask::plain(kind), kind).is_ok());
        }
        for (late, waited) in [(AskKind::Get, wait), (AskKind::Range, wait * PAGE_WAITS)] {
            time.advance_ns(waited.as_nanos() as u64);
            let mut outcomes = Vec::new();
            peers.ready(0, false, poll.registry(), &mut |kind, outcome| {
                let Outcome::Failed(failure) = outcome else { panic!("the peer has answered") };
                outcomes.push((kind, failure));
            });
            let owner = peers.cluster.url(1).to_string();
            assert_eq!(outcomes, [(late, Failure::Late { owner, waited })]);
        }
    }
}

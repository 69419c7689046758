//! The event loop, which owns its connections and runs each request to completion on its own
//! thread.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use pellucid_account::Recorder;
use pellucid_clock::{Clock, Ticks, Timer};
use pellucid_thread::LOOP_PHASE;

use crate::abort_reason::AbortReason;
use crate::acceptor::{AcceptedConnection, Acceptor, tune};
use crate::accounts::{Accounts, TurnTimestamps};
use crate::caller::Caller;
use crate::clients::ConnectionPermit;
use crate::connection::Connection;
use crate::disconnects::DisconnectReason;
use crate::dispatch::Dispatcher;
use crate::limits::{
    GATHER_PAUSE, HANDSHAKES_PER_TURN_MAX, HANDSHAKES_WAITING_MAX, LINK_LOOK_READY_MIN,
    LINK_LOOKS_MAX,
};
use crate::links::{LINKS, LinkContext, LinkEvent, TOKENS_OWN, link_of};
use crate::listener::Listener;
use crate::loop_load::{LoopLoad, sleep_to_the_point};
use crate::mailbox::{ConnectionId, Mailbox, Message, Ticket};
use crate::read_ahead::{PendingRead, ReadAhead};
use crate::ready_list::{PeerState, ReadyDescriptor, ReadyList};
use crate::service::Service;
use crate::shared_state::SharedState;
use crate::slots::Slots;
use crate::tls::Session;
use crate::transport::{ConnectionError, Step, StepResult, Transport};
use crate::workspace::{Workspace, empty};

/// The most events collected in one wake-up.
const EVENTS_MAX: usize = 1_024;
/// The time between two sweeps, which enforce the time limits.
const SWEEP_PAUSE: Duration = Duration::from_millis(250);

pub(crate) const WAKER: Token = Token(usize::MAX);
pub(crate) const LISTENER: Token = Token(usize::MAX - 1);
const TICKER: Token = Token(TOKENS_OWN);

/// The shortest sleep. A shorter rest of a pause is skipped, because a sleep has its own cost.
const SLEEP_MIN: Duration = Duration::from_micros(5);
/// The most rounds of sending of links in one wake-up; answers may lead to further requests.
const LINK_ROUNDS_MAX: usize = 16;

/// One event loop.
pub(crate) struct EventLoop<S: Service> {
    poll: Poll,
    acceptor: Acceptor,
    mailboxes: Vec<Arc<Mailbox<S::LoopMessage>>>,
    shared: Arc<SharedState>,
    clock: Clock,
    connections: Slots,
    /// The resources for the connection that has its turn.
    work: Workspace<S>,
    /// The reads of connections that are not answered yet.
    ahead: ReadAhead,
    /// The slots of connections that had more to do than a turn may take.
    again: Vec<usize>,
    /// A buffer for the messages that a turn of the service's links leads to.
    due: Vec<Message<S::LoopMessage>>,
    /// The TLS handshakes that wait for their turn. Only a few are continued per wake-up: computing
    /// one takes a hundred times as long as a request, and many new clients would delay all others.
    handshakes: VecDeque<ConnectionId>,
    /// The timer that becomes readable when a sweep is due.
    ticker: Timer,
    /// The time until which a stopping loop waits for requests in flight; none before the stop.
    stop_by: Option<Ticks>,
}

impl<S: Service> EventLoop<S> {
    /// Makes a loop, with the links of its service, on the thread that will run it. All calls that
    /// the system may refuse are made here, because a loop that ended later would leave its
    /// connections unanswered.
    ///
    /// # Errors
    /// If the system has no more descriptors.
    pub(crate) fn open(
        index: usize,
        poll: Poll,
        listeners: Vec<Listener>,
        mailboxes: Vec<Arc<Mailbox<S::LoopMessage>>>,
        shared: Arc<SharedState>,
        service: S,
        recorder: Recorder,
    ) -> io::Result<EventLoop<S>> {
        let ticker = Timer::every(SWEEP_PAUSE)?;
        let source = &mut SourceFd(&ticker.as_raw_fd());
        poll.registry().register(source, TICKER, Interest::READABLE)?;
        pellucid_thread::prepare_thread();
        // If this fails, requests may wait longer for background work.
        let _ = pellucid_thread::schedule_for_requests();
        sleep_to_the_point();
        let accounts = Accounts::new(index, Arc::clone(&shared), recorder);
        let dispatcher = Dispatcher::new(accounts, service, Arc::clone(&mailboxes[index]));
        let mut event_loop = EventLoop {
            poll,
            acceptor: Acceptor::new(listeners),
            mailboxes,
            clock: shared.clock,
            shared,
            connections: Slots::default(),
            work: Workspace::new(dispatcher),
            ahead: ReadAhead::default(),
            again: Vec::new(),
            due: Vec::new(),
            handshakes: VecDeque::new(),
            ticker,
            stop_by: None,
        };
        let now = event_loop.clock.now();
        event_loop.link_turn(now, |service, turn| service.begin(turn))?;
        Ok(event_loop)
    }

    #[inline]
    fn accounts(&mut self) -> &mut Accounts {
        &mut self.work.dispatcher.accounts
    }

    /// Runs until the loop is told to stop, and its connections have ended or the time for that is
    /// over.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let (mut ready, mut gather) = (ReadyList::default(), LoopLoad::new(&self.clock));
        let mut sweep_at = self.clock.now();
        let sweep_ticks = self.clock.ticks(SWEEP_PAUSE.as_nanos() as u64);
        loop {
            self.accounts().recorder().rest();
            pellucid_thread::set_phase(LOOP_PHASE);
            let is_busy = !self.again.is_empty() || !self.handshakes.is_empty();
            let pause = is_busy.then_some(Duration::ZERO);
            let looked = self.clock.now();
            let mut woke = self.wait_for_events(&mut events, pause);
            ready.add(&events, woke);
            if gather.is_due(looked, woke, &ready) && !is_busy {
                self.pause(woke);
                let again = self.wait_for_events(&mut events, Some(Duration::ZERO));
                gather.idle(woke, again);
                ready.add(&events, again);
                woke = again;
            }
            self.accounts().set_last(woke);
            self.work.dispatcher.refresh_date(woke);
            let mut found = ready.len();
            self.serve_ready(&mut ready, woke);
            for _ in 0..LINK_LOOKS_MAX {
                if found < LINK_LOOK_READY_MIN || !self.work.dispatcher.has_to_settle() {
                    break;
                }
                // The finished responses do not wait for the requests that this look may find.
                self.write_batch();
                woke = self.wait_for_events(&mut events, Some(Duration::ZERO));
                self.accounts().set_last(woke);
                ready.add(&events, woke);
                found = ready.len();
                self.serve_ready(&mut ready, woke);
            }
            self.settle_links(woke);
            self.write_batch();
            self.work.batch.open(false);
            self.go_on_with_handshakes(woke);
            let again = std::mem::take(&mut self.again);
            if !again.is_empty() {
                again.into_iter().for_each(|slot| self.take_turn(slot, woke, PeerState::Open));
                self.settle_links(woke);
            }
            // By this clock, a tick of the timer may come slightly early.
            if woke.since(sweep_at) >= sweep_ticks / 2 {
                sweep_at = woke;
                self.sweep(woke);
            }
            if self.is_over(woke) {
                self.end_connections();
                return;
            }
        }
    }

    /// Serves the descriptors that are ready.
    fn serve_ready(&mut self, ready: &mut ReadyList, woke: Ticks) {
        // With a single ready descriptor, responses are written at once.
        self.work.batch.open(ready.len() > 1);
        for ReadyDescriptor { token, peer, woke } in ready.drain() {
            if token.0 >= LINKS || !self.work.batch.is_open() {
                self.attend(token, peer, woke);
            } else if let Some(mut connection) =
                self.connections.take_if(token.0, Connection::may_be_read_ahead)
            {
                connection.note_event(peer, woke);
                let mut turn = TurnTimestamps::at(woke, self.work.dispatcher.accounts.last());
                match connection.read_ahead(self.ahead.room(), &mut turn, &mut self.work) {
                    Ok((count, filled)) => {
                        self.ahead.add((token.0, connection), count, filled, turn);
                        if self.ahead.is_full() {
                            self.serve_ahead(woke);
                        }
                    }
                    Err(turned) => self.settle(token.0, connection, turned),
                }
            } else {
                self.take_turn(token.0, woke, peer);
            }
            if self.work.batch.is_full() {
                self.write_batch();
            }
        }
        self.serve_ahead(woke);
        self.connections.reuse_freed();
    }

    /// Handles a descriptor at once: one of the loop's own, a link, or a connection.
    fn attend(&mut self, token: Token, peer: PeerState, woke: Ticks) {
        // Messages and time limits may concern connections that are read ahead, which must be back
        // in their slots before.
        self.serve_ahead(woke);
        match token {
            WAKER => self.take_messages(woke),
            LISTENER => self.accept(woke),
            TICKER => self.ticker.take(),
            token => match link_of(token) {
                Some(link) => {
                    let event = LinkEvent { link, is_read_closed: peer != PeerState::Open };
                    self.link_turn(woke, |service, turn| service.ready(event, turn));
                }
                None => self.take_turn(token.0, woke, peer),
            },
        }
    }

    /// Pauses for [`GATHER_PAUSE`] from `woke` on, and counts records of requests meanwhile. Under
    /// full load there are always some, and another thread that counted them would take the
    /// processor from this loop.
    fn pause(&mut self, woke: Ticks) {
        self.accounts().recorder().count_some();
        let taken = Duration::from_nanos(self.clock.nanoseconds(self.clock.now().since(woke)));
        let left = GATHER_PAUSE.saturating_sub(taken);
        if left >= SLEEP_MIN {
            std::thread::sleep(left);
        }
    }

    /// Waits for events, for at most `pause` if that is given. Returns the time after the wait.
    fn wait_for_events(&mut self, events: &mut Events, pause: Option<Duration>) -> Ticks {
        if let Err(error) = self.poll.poll(events, pause) {
            // By epoll_wait(2), this is the only error with a valid descriptor and buffer.
            assert_eq!(error.kind(), ErrorKind::Interrupted, "epoll: {error}");
            events.clear();
        }
        self.clock.now()
    }

    fn is_over(&self, now: Ticks) -> bool {
        let past = |stop_by: Ticks| self.connections.len() == 0 || now > stop_by;
        self.stop_by.is_some_and(past)
    }

    /// Ends the connections that are left when a stop is over.
    fn end_connections(&mut self) {
        for slot in 0..self.connections.bound() {
            if let Some(connection) = self.connections.take(slot) {
                connection.end(&self.work.dispatcher, DisconnectReason::Stopping.into());
            }
        }
    }

    fn take_messages(&mut self, woke: Ticks) {
        for message in self.work.dispatcher.mailbox().collect() {
            self.take_message(message, woke);
        }
    }

    fn take_message(&mut self, message: Message<S::LoopMessage>, woke: Ticks) {
        match message {
            Message::Accepted(socket, seat) => self.adopt(socket, seat, woke),
            Message::Judged(id, admission) => {
                self.with_connection_of(id, |work, connection| {
                    connection.judged(id.stream, admission);
                    connection.advance(work, woke)
                });
            }
            Message::Completed(id, later) => {
                self.accounts().uncount_in_flight();
                self.with_connection_of(id, |work, connection| {
                    connection.resume(id.stream, later, work)?;
                    connection.advance(work, woke)
                });
            }
            Message::GoOn(id) => {
                self.with_connection_of(id, |work, connection| connection.advance(work, woke));
            }
            Message::ToService(message) => {
                self.link_turn(woke, |service, turn| service.told(message, turn));
            }
            Message::Stop => {
                self.acceptor.stop();
                self.work.dispatcher.stop();
                let grace_ns = self.shared.limits.stop.as_nanos() as u64;
                self.stop_by = Some(Ticks(woke.0 + self.clock.ticks(grace_ns)));
                // A connection whose response is in the batch would look idle to the sweep.
                self.write_batch();
                self.sweep(woke);
            }
        }
    }

    /// Accepts the waiting connections, and gives each to the loop with the fewest.
    fn accept(&mut self, woke: Ticks) {
        for AcceptedConnection { socket, seat, owner } in self.acceptor.accept(&self.shared) {
            if owner == self.accounts().index() {
                self.adopt(socket, seat, woke);
            } else {
                self.mailboxes[owner].post(Message::Accepted(socket, seat));
            }
        }
    }

    /// Takes over a new connection, which is already counted among this loop's connections.
    fn adopt(&mut self, socket: std::net::TcpStream, seat: ConnectionPermit, woke: Ticks) {
        if let Err(cut) = self.try_adopt(TcpStream::from_std(socket), seat, woke) {
            self.shared.cuts.refused.add(cut);
            self.release_load();
        }
    }

    fn try_adopt(
        &mut self,
        mut socket: TcpStream,
        seat: ConnectionPermit,
        woke: Ticks,
    ) -> Result<(), DisconnectReason> {
        let id = self.connections.next();
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered =
            self.poll.registry().register(&mut socket, Token(id.slot as usize), interest);
        registered.map_err(|_| DisconnectReason::System)?;
        if self.stop_by.is_some() {
            return Err(DisconnectReason::Stopping);
        }
        tune(&socket, seat.address());
        let number = self.shared.connections_ever.fetch_add(1, Ordering::Relaxed) + 1;
        // Connections of Unix sockets are not encrypted: their bytes do not leave the machine.
        let certificates = self.shared.certificates.as_ref().filter(|_| seat.address().is_some());
        let tls =
            certificates.map(|certificates| Session::new(certificates.config()).map(Box::new));
        let tls = tls.transpose().map_err(|_| DisconnectReason::System)?;
        let caller = Caller::new(id, number as u32, seat, tls.is_some());
        let transport = Transport::new(socket, tls, woke);
        self.connections.insert(Box::new(Connection::new(caller, transport)));
        Ok(())
    }

    fn release_load(&mut self) {
        let index = self.accounts().index();
        self.shared.loads[index].fetch_sub(1, Ordering::Relaxed);
    }

    /// Gives a connection its turn; during its TLS handshake, puts it into the queue instead.
    fn take_turn(&mut self, slot: usize, woke: Ticks, peer: PeerState) {
        let Some(mut connection) = self.connections.take(slot) else { return };
        connection.note_event(peer, woke);
        let turned = match connection.is_handshaking() {
            true => self.queue_handshake(&mut connection),
            false => connection.advance(&mut self.work, woke),
        };
        self.settle(slot, connection, turned);
    }

    fn queue_handshake(&mut self, connection: &mut Connection) -> StepResult {
        if connection.is_queued {
            return Ok(Step::Blocked);
        }
        if self.handshakes.len() >= HANDSHAKES_WAITING_MAX {
            self.shared.cuts.refused.add(DisconnectReason::Handshakes);
            return Err(ConnectionError(DisconnectReason::Handshakes.into()));
        }
        connection.is_queued = true;
        self.handshakes.push_back(connection.id());
        Ok(Step::Blocked)
    }

    /// Continues the next handshakes in the queue. A connection that is gone, or has sent nothing,
    /// does not count.
    fn go_on_with_handshakes(&mut self, woke: Ticks) {
        let mut steps = 0;
        while steps < HANDSHAKES_PER_TURN_MAX {
            let Some(id) = self.handshakes.pop_front() else { return };
            let before = self.handshake_ns();
            self.with_connection_of(id, |work, connection| {
                connection.is_queued = false;
                connection.advance(work, woke)
            });
            steps += usize::from(self.handshake_ns() != before);
        }
    }

    /// The time that handshakes have taken on this loop so far.
    fn handshake_ns(&mut self) -> u64 {
        self.accounts().tls_meter().handshake_ns.load(Ordering::Relaxed)
    }

    /// Answers the requests that were read ahead.
    fn serve_ahead(&mut self, woke: Ticks) {
        if self.ahead.reads.is_empty() {
            return;
        }
        let ReadAhead { mut reads, buffer, .. } = std::mem::take(&mut self.ahead);
        for PendingRead { slot, mut connection, range, filled, turn } in reads.drain(..) {
            let turned = connection.serve_ahead(&buffer[range], filled, turn, &mut self.work, woke);
            self.settle(slot, connection, turned);
            if self.work.batch.is_full() {
                self.write_batch();
            }
        }
        self.ahead = ReadAhead::reusing(reads, buffer);
    }

    /// Writes the responses of the batch.
    fn write_batch(&mut self) {
        // The batch is closed meanwhile, so that nothing is added to it while it is written.
        let is_open = self.work.batch.open(false);
        let (mut parts, mut out) = self.work.batch.take();
        for (id, range) in parts.drain(..) {
            self.with_connection_of(id, |work, connection| {
                connection.write_batched(&out[range], work)?;
                Ok(Step::Blocked)
            });
        }
        empty(&mut out);
        self.work.batch.put_back(parts, out);
        self.work.batch.open(is_open);
    }

    /// Calls `step` with the connection in a slot, if it is there.
    #[inline]
    fn with_connection(
        &mut self,
        slot: usize,
        step: impl FnOnce(&mut Workspace<S>, &mut Connection) -> StepResult,
    ) {
        let Some(mut connection) = self.connections.take(slot) else { return };
        let turned = step(&mut self.work, &mut connection);
        self.settle(slot, connection, turned);
    }

    /// Calls `step` like [`EventLoop::with_connection`], if the slot still has the connection `id`.
    #[inline]
    fn with_connection_of(
        &mut self,
        id: ConnectionId,
        step: impl FnOnce(&mut Workspace<S>, &mut Connection) -> StepResult,
    ) {
        if self.connections.is_current(id) {
            self.with_connection(id.slot as usize, step);
        }
    }

    /// Puts a connection back into its slot after its turn, or ends it.
    #[inline]
    fn settle(&mut self, slot: usize, connection: Box<Connection>, turned: StepResult) {
        match turned {
            Ok(step) => {
                self.connections.put(slot, connection);
                if step == Step::Again {
                    self.again.push(slot);
                }
            }
            Err(ConnectionError(ending)) => self.end_connection(slot, *connection, ending),
        }
    }

    /// Ends a connection, or gives it to the service if that takes it over.
    #[cold]
    fn end_connection(&mut self, slot: usize, connection: Connection, ending: AbortReason) {
        self.release_load();
        self.connections.free(slot);
        if !connection.is_leaving() {
            return connection.end(&self.work.dispatcher, ending);
        }
        let ticket = Ticket(connection.id());
        let (mut socket, unread) = connection.into_parts();
        if self.poll.registry().deregister(&mut socket).is_ok() {
            let woke = self.clock.now();
            self.link_turn(woke, |service, turn| service.upgraded(ticket, socket, unread, turn));
        }
    }

    /// Gives the service a turn with its links, and takes the resulting messages.
    fn link_turn<T>(
        &mut self,
        woke: Ticks,
        turn: impl FnOnce(&mut S, &mut LinkContext<'_, S::LoopMessage>) -> T,
    ) -> T {
        let mut due = std::mem::take(&mut self.due);
        let registry = self.poll.registry();
        let done = self.work.dispatcher.turn_links(registry, &mut due, woke, turn);
        for message in due.drain(..) {
            self.take_message(message, woke);
        }
        self.due = due;
        done
    }

    /// Lets links send the output of this wake-up, and that of the requests completed by it.
    fn settle_links(&mut self, woke: Ticks) {
        for _ in 0..LINK_ROUNDS_MAX {
            if !self.link_turn(woke, |service, turn| service.settle(turn)) {
                return;
            }
        }
    }

    /// Enforces the time limits of all connections, and accepts connections that were left.
    fn sweep(&mut self, now: Ticks) {
        if self.acceptor.is_pending() {
            self.accept(now);
        }
        self.acceptor.forget_gone();
        for slot in 0..self.connections.bound() {
            self.with_connection(slot, |work, connection| connection.sweep(work, now));
        }
    }
}

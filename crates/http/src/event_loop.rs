//! The event loop: it owns its connections, and runs each request to completion on its own thread.

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

use crate::acceptor::{Accepted, Acceptor, tune};
use crate::accounts::{Accounts, Turn};
use crate::ahead::{Read, ReadAhead};
use crate::caller::Caller;
use crate::clients::Seat;
use crate::connection::Connection;
use crate::cuts::Cut;
use crate::dispatch::Dispatcher;
use crate::ending::Ending;
use crate::gather::{Gather, sleep_to_the_point};
use crate::limits::{
    GATHER_PAUSE, HANDSHAKES_PER_TURN_MAX, HANDSHAKES_WAITING_MAX, LINK_LOOK_READY_MIN,
    LINK_LOOKS_MAX,
};
use crate::links::{Due, LINKS, LinkTurn, TOKENS_OWN, link_of};
use crate::listener::Listener;
use crate::mailbox::{ConnectionId, Mailbox, Message, Ticket};
use crate::ready::{Peer, Ready, ReadyList};
use crate::service::Service;
use crate::shared::Shared;
use crate::slots::Slots;
use crate::tls::Session;
use crate::transport::{Closed, Step, Transport};
use crate::workspace::{Workspace, empty};

/// Events collected in one wake-up.
const EVENTS_MAX: usize = 1_024;
/// The time between two looks at time limits.
const SWEEP_PAUSE: Duration = Duration::from_millis(250);

pub(crate) const WAKER: Token = Token(usize::MAX);
pub(crate) const LISTENER: Token = Token(usize::MAX - 1);
const TICKER: Token = Token(TOKENS_OWN);

/// The rest of a pause that is shorter than this is not slept: a sleep has its own cost.
const SLEEP_MIN: Duration = Duration::from_micros(5);
/// Times in one wake-up that links are asked for more, as answers lead to requests.
const LINK_ROUNDS_MAX: usize = 16;

/// One event loop.
pub(crate) struct EventLoop<S: Service> {
    poll: Poll,
    acceptor: Acceptor,
    mailboxes: Vec<Arc<Mailbox<S::Later>>>,
    shared: Arc<Shared>,
    clock: Clock,
    connections: Slots,
    /// For the connection that has its turn.
    work: Workspace<S>,
    /// Reads of connections whose turn is still to come.
    ahead: ReadAhead,
    /// Connections that had more to do than a turn may take.
    again: Vec<usize>,
    /// TLS handshakes that wait for their turn, a few at a time: the computing of one takes a
    /// hundred times as long as a request, and a crowd of new clients would hold up everybody.
    handshakes: VecDeque<ConnectionId>,
    /// Becomes readable when it is time for a sweep.
    ticker: Timer,
    /// The end of the time for requests in flight, once the loop is to stop.
    stop_by: Option<Ticks>,
}

impl<S: Service> EventLoop<S> {
    /// Makes a loop on the thread that is to run it, with the links of its service. All that the
    /// system may refuse is here: a loop that ended later would leave its connections unanswered.
    ///
    /// # Errors
    /// If the system has no more descriptors.
    pub(crate) fn open(
        index: usize,
        poll: Poll,
        listeners: Vec<Listener>,
        mailboxes: Vec<Arc<Mailbox<S::Later>>>,
        shared: Arc<Shared>,
        service: S,
        recorder: Recorder,
    ) -> io::Result<EventLoop<S>> {
        let ticker = Timer::every(SWEEP_PAUSE)?;
        let source = &mut SourceFd(&ticker.as_raw_fd());
        poll.registry().register(source, TICKER, Interest::READABLE)?;
        pellucid_thread::prepare_thread();
        // Where it is refused, requests wait for background work as long as the kernel likes.
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

    /// Runs until it is told to stop and its connections are done.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let (mut ready, mut gather) = (ReadyList::default(), Gather::new(&self.clock));
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
                // Others need not wait for what else comes.
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
                again.into_iter().for_each(|slot| self.take_turn(slot, woke, Peer::Open));
                self.settle_links(woke);
            }
            // A tick may come a moment early by this clock.
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
        // A response that nothing else waits beside is written at once.
        self.work.batch.open(ready.len() > 1);
        for Ready { token, peer, woke } in ready.drain() {
            if token.0 >= LINKS || !self.work.batch.is_open() {
                self.attend(token, peer, woke);
            } else if let Some(mut connection) =
                self.connections.take_if(token.0, Connection::may_be_read_ahead)
            {
                connection.note_event(peer, woke);
                let mut turn = Turn::at(woke, self.work.dispatcher.accounts.last());
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

    /// Attends to a descriptor at once: one of the loop's own, or a connection that has its turn.
    fn attend(&mut self, token: Token, peer: Peer, woke: Ticks) {
        // Messages and time limits are for connections that are in their places.
        self.serve_ahead(woke);
        match token {
            WAKER => self.take_messages(woke),
            LISTENER => self.accept(woke),
            TICKER => self.ticker.take(),
            token => match link_of(token) {
                Some(link) => self.link_turn(woke, |s, turn| s.ready(link, turn)),
                None => self.take_turn(token.0, woke, peer),
            },
        }
    }

    /// Looks away for [`GATHER_PAUSE`] from `woke` on. Under full load there is always something to
    /// count, and any other thread that counted it would take the processor from this loop.
    fn pause(&mut self, woke: Ticks) {
        self.accounts().recorder().count_some();
        let taken = Duration::from_nanos(self.clock.nanoseconds(self.clock.now().since(woke)));
        let left = GATHER_PAUSE.saturating_sub(taken);
        if left >= SLEEP_MIN {
            std::thread::sleep(left);
        }
    }

    /// Looks for descriptors that are ready, waiting as long as `pause`; comes back with the time.
    fn wait_for_events(&mut self, events: &mut Events, pause: Option<Duration>) -> Ticks {
        if let Err(error) = self.poll.poll(events, pause) {
            // By epoll_wait(2), nothing else can be wrong with a descriptor and a buffer of ours.
            assert_eq!(error.kind(), ErrorKind::Interrupted, "epoll: {error}");
            events.clear();
        }
        self.clock.now()
    }

    fn is_over(&self, now: Ticks) -> bool {
        let past = |stop_by: Ticks| self.connections.len() == 0 || now > stop_by;
        self.stop_by.is_some_and(past)
    }

    /// Ends what the stop does not wait for any longer.
    fn end_connections(&mut self) {
        for slot in 0..self.connections.bound() {
            if let Some(connection) = self.connections.take(slot) {
                connection.end(&self.work.dispatcher, Cut::Stopping.into());
            }
        }
    }

    fn take_messages(&mut self, woke: Ticks) {
        for message in self.work.dispatcher.mailbox().collect() {
            match message {
                Message::Accepted(socket, seat) => self.adopt(socket, seat, woke),
                Message::Judged(id, admission) => {
                    self.with_connection_of(id, |work, connection| {
                        connection.judged(id.stream, admission);
                        connection.advance(work, woke)
                    });
                }
                Message::Completed(id, later) => self.resume(id, later, woke),
                Message::GoOn(id) => self.go_on(id, woke),
                Message::ToService(message) => {
                    self.link_turn(woke, |service, turn| service.told(message, turn));
                }
                Message::Stop => {
                    self.acceptor.stop();
                    self.work.dispatcher.stop();
                    let grace_ns = self.shared.limits.stop.as_nanos() as u64;
                    self.stop_by = Some(Ticks(woke.0 + self.clock.ticks(grace_ns)));
                    // A connection whose response is in the batch looks idle.
                    self.write_batch();
                    self.sweep(woke);
                }
            }
        }
    }

    /// Brings a request that was handed over back to the service, unless that ended in a panic.
    fn resume(&mut self, id: ConnectionId, later: Option<S::Later>, woke: Ticks) {
        self.accounts().uncount_in_flight();
        self.with_connection_of(id, |work, connection| {
            connection.resume(id.stream, later, work)?;
            connection.advance(work, woke)
        });
    }

    fn go_on(&mut self, id: ConnectionId, woke: Ticks) {
        self.with_connection_of(id, |work, connection| connection.advance(work, woke));
    }

    /// Accepts the connections that wait, each for the loop that has fewest.
    fn accept(&mut self, woke: Ticks) {
        for Accepted { socket, seat, owner } in self.acceptor.accept(&self.shared) {
            if owner == self.accounts().index() {
                self.adopt(socket, seat, woke);
            } else {
                self.mailboxes[owner].post(Message::Accepted(socket, seat));
            }
        }
    }

    /// Takes in a connection that counts among the loop's already.
    fn adopt(&mut self, socket: std::net::TcpStream, seat: Seat, woke: Ticks) {
        if let Err(cut) = self.try_adopt(TcpStream::from_std(socket), seat, woke) {
            self.shared.cuts.refused(cut);
            self.release_load();
        }
    }

    fn try_adopt(&mut self, mut socket: TcpStream, seat: Seat, woke: Ticks) -> Result<(), Cut> {
        let id = self.connections.next();
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered =
            self.poll.registry().register(&mut socket, Token(id.slot as usize), interest);
        registered.map_err(|_| Cut::System)?;
        if self.stop_by.is_some() {
            return Err(Cut::Stopping);
        }
        tune(&socket, seat.address());
        let number = self.shared.connections_ever.fetch_add(1, Ordering::Relaxed) + 1;
        // What comes through a file does not leave the machine.
        let certificates = self.shared.certificates.as_ref().filter(|_| seat.address().is_some());
        let tls =
            certificates.map(|certificates| Session::new(certificates.config()).map(Box::new));
        let tls = tls.transpose().map_err(|_| Cut::System)?;
        let caller = Caller::new(id, number as u32, seat, tls.is_some());
        let transport = Transport::new(socket, tls, woke);
        self.connections.insert(Box::new(Connection::new(caller, transport)));
        Ok(())
    }

    fn release_load(&mut self) {
        let index = self.accounts().index();
        self.shared.loads[index].fetch_sub(1, Ordering::Relaxed);
    }

    /// Gives a connection its turn, or, while it is in its handshake, a place in the queue for it.
    fn take_turn(&mut self, slot: usize, woke: Ticks, peer: Peer) {
        let Some(mut connection) = self.connections.take(slot) else { return };
        connection.note_event(peer, woke);
        let turned = match connection.is_handshaking() {
            true => self.queue_handshake(&mut connection),
            false => connection.advance(&mut self.work, woke),
        };
        self.settle(slot, connection, turned);
    }

    fn queue_handshake(&mut self, connection: &mut Connection) -> Result<Step, Closed> {
        if connection.is_queued {
            return Ok(Step::Blocked);
        }
        if self.handshakes.len() >= HANDSHAKES_WAITING_MAX {
            self.shared.cuts.refused(Cut::Handshakes);
            return Err(Closed(Cut::Handshakes.into()));
        }
        connection.is_queued = true;
        self.handshakes.push_back(connection.id());
        Ok(Step::Blocked)
    }

    /// Goes on with the handshakes whose turn it is. A connection that is gone, or sent nothing,
    /// takes none.
    fn go_on_with_handshakes(&mut self, woke: Ticks) {
        let mut steps = 0;
        while steps < HANDSHAKES_PER_TURN_MAX {
            let Some(id) = self.handshakes.pop_front() else { return };
            let before = self.handshake_ticks();
            self.with_connection_of(id, |work, connection| {
                connection.is_queued = false;
                connection.advance(work, woke)
            });
            steps += usize::from(self.handshake_ticks() != before);
        }
    }

    /// Ticks that handshakes took on this loop until now.
    fn handshake_ticks(&mut self) -> u64 {
        self.accounts().tls_meter().handshake_ticks.load(Ordering::Relaxed)
    }

    /// Answers the requests that were read ahead.
    fn serve_ahead(&mut self, woke: Ticks) {
        if self.ahead.reads.is_empty() {
            return;
        }
        let ReadAhead { mut reads, buffer, .. } = std::mem::take(&mut self.ahead);
        for Read { slot, mut connection, range, filled, turn } in reads.drain(..) {
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
        // No response that comes of it waits: this is not the place to write that.
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

    /// Has the connection in a slot take a step, if it is in its place.
    #[inline]
    fn with_connection(
        &mut self,
        slot: usize,
        step: impl FnOnce(&mut Workspace<S>, &mut Connection) -> Result<Step, Closed>,
    ) {
        let Some(mut connection) = self.connections.take(slot) else { return };
        let turned = step(&mut self.work, &mut connection);
        self.settle(slot, connection, turned);
    }

    /// As [`EventLoop::with_connection`], if the connection there is still the one that is meant.
    #[inline]
    fn with_connection_of(
        &mut self,
        id: ConnectionId,
        step: impl FnOnce(&mut Workspace<S>, &mut Connection) -> Result<Step, Closed>,
    ) {
        if self.connections.is_current(id) {
            self.with_connection(id.slot as usize, step);
        }
    }

    /// Puts a connection back that has had its turn, or ends it.
    #[inline]
    fn settle(&mut self, slot: usize, connection: Box<Connection>, turned: Result<Step, Closed>) {
        match turned {
            Ok(step) => {
                self.connections.put(slot, connection);
                if step == Step::Again {
                    self.again.push(slot);
                }
            }
            Err(Closed(ending)) => self.end_connection(slot, *connection, ending),
        }
    }

    /// Ends a connection, or gives it to the service if that takes it over.
    #[cold]
    fn end_connection(&mut self, slot: usize, connection: Connection, ending: Ending) {
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

    /// Gives the service a turn with its links, and does what came of it.
    fn link_turn<T>(
        &mut self,
        woke: Ticks,
        turn: impl FnOnce(&mut S, &mut LinkTurn<'_, S::Later>) -> T,
    ) -> T {
        let registry = self.poll.registry();
        let (done, mut due) = self.work.dispatcher.turn_links(registry, woke, turn);
        for due in due.drain(..) {
            match due {
                Due::Complete(id, later) => self.resume(id, Some(later), woke),
                Due::GoOn(id) => self.go_on(id, woke),
            }
        }
        self.work.dispatcher.put_back_due(due);
        done
    }

    /// Lets links send what the wake-up brought, and what came of that.
    fn settle_links(&mut self, woke: Ticks) {
        for _ in 0..LINK_ROUNDS_MAX {
            if !self.link_turn(woke, |service, turn| service.settle(turn)) {
                return;
            }
        }
    }

    /// Ends all that has taken too long.
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

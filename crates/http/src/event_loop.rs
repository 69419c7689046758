//! The event loop: it owns its connections, and runs each request to completion on its own thread.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::net::TcpListener;
use mio::{Events, Poll, Token};
use pellucid_account::Recorder;
use pellucid_clock::{Clock, Ticks};
use pellucid_thread::LOOP_PHASE;

use crate::acceptance::spare_descriptor;
use crate::ahead::ReadAhead;
use crate::batch::Batch;
use crate::client_watch::ClientWatch;
use crate::clients::Clients;
use crate::compression::Compressor;
use crate::connection::{Closing, Connection, Finished, ParkingPlace, SPARE_PLACES_MAX, Stage};
use crate::gather::{Gather, Peer, Ready, ReadyList, sleep_to_the_point};
use crate::lending::Buffers;
use crate::limits::{GATHER_PAUSE, LINK_LOOK_READY_MIN, LINK_LOOKS_MAX, Limits, TURNS_MAX};
use crate::links::{Due, LINKS, link_of};
use crate::output::SPARE_QUEUES_MAX;
use crate::response::DateLine;
use crate::server::Shared;
use crate::service::{ConnectionId, Letter, Mailbox, Service};
use crate::slots::Slots;
use crate::ticker::{SWEEP_PAUSE, Ticker};
use crate::tls::{WIRE_BYTES_MAX, add};

/// Events collected in one wake-up.
const EVENTS_MAX: usize = 1_024;

/// Tokens from here on are the loop's own.
pub(crate) const TOKENS_OWN: usize = usize::MAX - 2;
pub(crate) const WAKER: Token = Token(usize::MAX);
pub(crate) const LISTENER: Token = Token(usize::MAX - 1);
const TICKER: Token = Token(TOKENS_OWN);

/// What is left of a pause and shorter than this is not slept: a sleep has its own cost.
const SLEEP_MIN: Duration = Duration::from_micros(5);

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Keep,
    Drop,
}

/// The readings that the requests of one turn share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// The wake-up.
    pub(crate) woke: Ticks,
    /// When the loop turned to this connection.
    pub(crate) attended: Ticks,
    /// When the last read returned.
    pub(crate) received: Ticks,
    /// Until when what was read waited for what was read before it.
    pub(crate) waited_until: Option<Ticks>,
}

impl Turn {
    /// A turn in which nothing was read yet.
    pub(crate) fn at(woke: Ticks, attended: Ticks) -> Turn {
        Turn { woke, attended, received: attended, waited_until: None }
    }
}

pub(crate) struct EventLoop<S: Service> {
    pub(crate) index: usize,
    pub(crate) poll: Poll,
    pub(crate) listener: Option<TcpListener>,
    pub(crate) mailbox: Arc<Mailbox<S::Later>>,
    pub(crate) mailboxes: Vec<Arc<Mailbox<S::Later>>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) service: S,
    pub(crate) recorder: Recorder,
    pub(crate) clock: Clock,
    pub(crate) limits: Limits,
    pub(crate) connections: Slots,
    /// Where requests are read to and responses are encoded.
    pub(crate) buffers: Buffers,
    /// Where ciphertext is read to; empty without TLS.
    pub(crate) wire: Box<[u8]>,
    /// What was read for connections whose turn is still to come.
    pub(crate) ahead: ReadAhead,
    /// Responses that are written when the other connections of the wake-up have theirs.
    pub(crate) batch: Batch,
    /// Queues for the responses of connections that have none, so that idle ones hold no memory.
    pub(crate) spare_queues: Vec<VecDeque<Finished>>,
    /// Places for requests that are handed over.
    pub(crate) spare_places: Vec<ParkingPlace>,
    /// What bodies are compressed with.
    pub(crate) compressor: Compressor,
    pub(crate) date_line: DateLine,
    pub(crate) date_until: Ticks,
    /// Connections that had more to do than a turn may take.
    pub(crate) again: Vec<usize>,
    pub(crate) accept_again: bool,
    /// Of the loop that accepts: who is connected, and the descriptor with which it turns others
    /// away where there is no more.
    pub(crate) clients: Clients,
    pub(crate) spare_descriptor: Option<OwnedFd>,
    /// TLS handshakes that wait for their turn.
    pub(crate) handshakes: VecDeque<ConnectionId>,
    pub(crate) stop_by: Option<Ticks>,
    pub(crate) requests: u64,
    /// What a turn of the service's links led to.
    pub(crate) due: Vec<Due<S::Later>>,
    /// The last reading for the account: what follows a request at once begins where it ended.
    pub(crate) last: Ticks,
}

impl<S: Service> EventLoop<S> {
    pub(crate) fn new(
        index: usize,
        poll: Poll,
        listener: Option<TcpListener>,
        mailboxes: Vec<Arc<Mailbox<S::Later>>>,
        shared: Arc<Shared>,
        service: S,
        recorder: Recorder,
    ) -> EventLoop<S> {
        let clock = shared.clock;
        let spare_descriptor = listener.as_ref().and_then(|_| spare_descriptor());
        EventLoop {
            index,
            poll,
            listener,
            mailbox: Arc::clone(&mailboxes[index]),
            mailboxes,
            service,
            recorder,
            clock,
            limits: shared.limits.clone(),
            wire: vec![0; if shared.certificates.is_some() { WIRE_BYTES_MAX } else { 0 }].into(),
            compressor: Compressor::new(Arc::clone(&shared), index),
            shared,
            connections: Slots::default(),
            buffers: Buffers::default(),
            ahead: ReadAhead::default(),
            batch: Batch::new(&clock),
            spare_queues: Vec::with_capacity(SPARE_QUEUES_MAX),
            spare_places: Vec::with_capacity(SPARE_PLACES_MAX),
            date_line: DateLine::at(clock.wall()),
            date_until: clock.now(),
            again: Vec::new(),
            accept_again: false,
            clients: Clients::default(),
            spare_descriptor,
            handshakes: VecDeque::new(),
            stop_by: None,
            requests: 0,
            due: Vec::new(),
            last: Ticks(0),
        }
    }

    /// Reads the clock for the account.
    #[inline]
    pub(crate) fn read_clock(&mut self) -> Ticks {
        self.last = self.recorder.now();
        self.last
    }

    /// Runs until it is told to stop and its connections are done.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let (mut ready, mut gather) = (ReadyList::default(), Gather::new(&self.clock));
        let mut ticker = Ticker::start(&self.poll, TICKER)?;
        let mut sweep_at = self.clock.now();
        let sweep_ticks = self.clock.ticks(SWEEP_PAUSE.as_nanos() as u64);
        pellucid_thread::prepare_thread();
        // Where it is refused, requests wait for background work as long as the kernel likes.
        let _ = pellucid_thread::schedule_for_requests();
        sleep_to_the_point();
        self.link_turn(sweep_at, |service, turn| service.begin(turn))?;
        loop {
            self.recorder.rest();
            pellucid_thread::set_phase(LOOP_PHASE);
            let is_busy = !self.again.is_empty() || !self.handshakes.is_empty();
            let pause = if is_busy { Some(Duration::ZERO) } else { ticker.limit() };
            let looked = self.clock.now();
            let mut woke = self.wait_for_events(&mut events, pause)?;
            ready.add(&events, woke);
            if gather.is_due(looked, woke, &ready) && !is_busy {
                self.pause(woke);
                let again = self.wait_for_events(&mut events, Some(Duration::ZERO))?;
                gather.idle(woke, again);
                ready.add(&events, again);
                woke = again;
            }
            self.last = woke;
            self.refresh_date(woke);
            let mut found = ready.len();
            self.serve_ready(&mut ready, &mut ticker, woke);
            for _ in 0..LINK_LOOKS_MAX {
                if found < LINK_LOOK_READY_MIN || !self.service.has_to_settle() {
                    break;
                }
                // Others need not wait for what else comes.
                self.write_batch();
                woke = self.wait_for_events(&mut events, Some(Duration::ZERO))?;
                self.last = woke;
                ready.add(&events, woke);
                found = ready.len();
                self.serve_ready(&mut ready, &mut ticker, woke);
            }
            self.settle_links(woke);
            self.write_batch();
            self.batch.is_open = false;
            self.go_on_with_handshakes(woke);
            let again = std::mem::take(&mut self.again);
            if !again.is_empty() {
                again.into_iter().for_each(|slot| self.turn(slot, woke, Peer::Open));
                self.settle_links(woke);
            }
            // A tick may come a moment early by this clock.
            if woke.since(sweep_at) >= sweep_ticks / 2 {
                sweep_at = woke;
                self.sweep(woke);
            }
            if self.is_over(woke) {
                return Ok(());
            }
        }
    }

    /// Does what there is to do about what is ready.
    fn serve_ready(&mut self, ready: &mut ReadyList, ticker: &mut Ticker, woke: Ticks) {
        // A response that nothing else waits beside is written at once.
        self.batch.is_open = ready.len() > 1;
        for Ready { token, peer, woke } in ready.drain() {
            if token.0 < LINKS && self.batch.is_open {
                self.read_ahead(token.0, woke, peer);
            } else {
                // Letters and time limits are for connections that are in their places.
                self.serve_ahead(woke);
                match token {
                    WAKER => self.read_mail(woke),
                    LISTENER => self.accept(woke),
                    TICKER => ticker.take(),
                    token => match link_of(token) {
                        Some(link) => self.link_turn(woke, |s, turn| s.ready(link, turn)),
                        None => self.turn(token.0, woke, peer),
                    },
                }
            }
            if self.batch.is_full {
                self.write_batch();
            }
        }
        self.serve_ahead(woke);
        self.connections.reuse_freed();
    }

    /// Looks away for [`GATHER_PAUSE`] from `woke` on. Under full load there is always something to
    /// count, and whoever else counted it would take the processor from this loop.
    fn pause(&self, woke: Ticks) {
        self.recorder.count_some();
        let taken = Duration::from_nanos(self.clock.nanoseconds(self.clock.now().since(woke)));
        let left = GATHER_PAUSE.saturating_sub(taken);
        if left >= SLEEP_MIN {
            std::thread::sleep(left);
        }
    }

    /// Looks what is ready, waiting for it as long as `pause`; comes back with the time.
    fn wait_for_events(
        &mut self,
        events: &mut Events,
        pause: Option<Duration>,
    ) -> io::Result<Ticks> {
        match self.poll.poll(events, pause) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            Err(_) => events.clear(),
            Ok(()) => {}
        }
        Ok(self.clock.now())
    }

    fn is_over(&self, now: Ticks) -> bool {
        let past = |stop_by: Ticks| self.connections.len() == 0 || now > stop_by;
        self.stop_by.is_some_and(past)
    }

    fn refresh_date(&mut self, now: Ticks) {
        if now >= self.date_until {
            let wall = self.clock.wall();
            self.date_line = DateLine::at(wall);
            let left_ms = 1_000 - wall.unix_ms() % 1_000;
            self.date_until = Ticks(now.0 + self.clock.ticks(left_ms * 1_000_000));
        }
    }

    fn read_mail(&mut self, woke: Ticks) {
        for letter in self.mailbox.collect() {
            match letter {
                Letter::Accepted(socket, seat) => self.adopt(socket, seat, woke),
                Letter::Judged(id, admission) => self.judged(id, admission, woke),
                Letter::Completed(id, later) => self.resume(id, later, woke),
                Letter::Abandoned(id) => self.fail_away(id, woke),
                Letter::GoOn(id) => self.go_on(id, woke),
                Letter::Told(message) => {
                    self.link_turn(woke, |service, turn| service.told(message, turn));
                }
                Letter::Stop => {
                    self.listener = None;
                    let grace_ns = self.limits.stop.as_nanos() as u64;
                    self.stop_by = Some(Ticks(woke.0 + self.clock.ticks(grace_ns)));
                    // Whose response is put by looks idle.
                    self.write_batch();
                    self.sweep(woke);
                }
            }
        }
    }

    fn turn(&mut self, slot: usize, woke: Ticks, peer: Peer) {
        self.with_connection(slot, |this, connection| {
            connection.note_event(peer, woke);
            this.take_turn(slot, connection, woke)
        });
    }

    pub(crate) fn settle(&mut self, slot: usize, mut connection: Box<Connection>, fate: Fate) {
        match fate {
            Fate::Keep => self.connections.put(slot, connection),
            Fate::Drop if matches!(connection.stage, Stage::Leaving) => {
                connection.body = None;
                self.shared.loads[self.index].fetch_sub(1, Ordering::Relaxed);
                self.connections.free(slot);
                self.give_away(slot, connection);
            }
            Fate::Drop => self.discard(slot, *connection),
        }
    }

    /// Ends a connection, and accounts for the responses that it did not get out.
    fn discard(&mut self, slot: usize, mut connection: Connection) {
        if connection.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            add(&self.shared.tls[self.index].handshakes_failed, 1);
        } else if connection.closing == Closing::Cleanly
            && let Some(tls) = &mut connection.tls
        {
            tls.close(&connection.socket);
        }
        for mut record in connection.finished.drain(..).filter_map(|finished| finished.record) {
            self.recorder.record_sealed(&mut record, None);
        }
        match connection.stage {
            Stage::Waiting(place) => {
                if let Some(parked) = *place {
                    parked.watch.iter().for_each(ClientWatch::tell);
                    self.recorder.record(&parked.timeline, parked.facts);
                }
            }
            Stage::Streaming(streaming) => {
                self.recorder.record(&streaming.timeline, streaming.facts);
                self.shared.requests_in_flight.fetch_sub(1, Ordering::Relaxed);
            }
            Stage::Http2(session) => self.abandon(*session),
            Stage::Serving | Stage::Judging | Stage::Lingering { .. } | Stage::Leaving => {}
        }
        self.shared.loads[self.index].fetch_sub(1, Ordering::Relaxed);
        self.connections.free(slot);
    }

    /// Does what the connection has to do, as far as its turn reaches.
    pub(crate) fn advance(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        woke: Ticks,
    ) -> Fate {
        if let Some(tls) = &mut connection.tls {
            tls.wake(woke);
        }
        if connection.has_unsent() && self.flush_rest(connection) == Fate::Drop {
            return Fate::Drop;
        }
        for _ in 0..TURNS_MAX {
            if connection.is_lost() {
                return Fate::Drop;
            }
            if !connection.output.is_empty() {
                return Fate::Keep;
            }
            if connection.is_put_by {
                break;
            }
            match connection.closing {
                Closing::AtOnce => return Fate::Drop,
                _ if !matches!(connection.stage, Stage::Serving) => {}
                Closing::Cleanly => return Fate::Drop,
                Closing::AfterLinger => self.begin_linger(connection),
                Closing::No => {}
            }
            let step = match connection.stage {
                Stage::Waiting(_) | Stage::Judging => return Fate::Keep,
                Stage::Leaving => return Fate::Drop,
                Stage::Streaming(_) => self.pump(connection),
                Stage::Lingering { .. } => self.linger(connection),
                Stage::Serving => self.serve(slot, connection, woke),
                Stage::Http2(_) => {
                    let turn = Turn::at(woke, self.last);
                    self.serve_http2(slot, connection, turn)
                }
            };
            match step {
                Step::Again if connection.is_costly() => break,
                Step::Again => {}
                Step::Blocked => return Fate::Keep,
                Step::Over => return Fate::Drop,
            }
        }
        self.again.push(slot);
        Fate::Keep
    }

    pub(crate) fn resume(&mut self, id: ConnectionId, later: S::Later, woke: Ticks) {
        self.shared.requests_in_flight.fetch_sub(1, Ordering::Relaxed);
        self.with_connection_of(id, |this, connection| {
            if let Stage::Http2(session) = &mut connection.stage
                && let Some(parked) = session.take_parked(id.stream)
            {
                this.complete_stream(id, connection.seat.address(), session, *parked, later);
            } else if this.complete(id, connection, later) == Fate::Drop {
                return Fate::Drop;
            }
            this.advance(id.slot as usize, connection, woke)
        });
    }
}

/// What came of a step of a connection's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There may be more to do.
    Again,
    /// Nothing to do until the next event.
    Blocked,
    /// The connection is done.
    Over,
}

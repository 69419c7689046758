//! One connection: its socket side, its protocol, and its turns on the event loop.

use std::borrow::Cow;
use std::io::{self, ErrorKind};
use std::time::Duration;

use mio::net::TcpStream;
use pellucid_account::Phase;
use pellucid_clock::Ticks;
use pellucid_thread::{begin_request, resume_request, suspend_request};

use crate::abort_reason::AbortReason;
use crate::accounts::{Accounts, TurnTimestamps};
use crate::body_source::FillResult;
use crate::caller::Caller;
use crate::client_watch::ClientWatch;
use crate::disconnects::DisconnectReason;
use crate::dispatch::Dispatcher;
use crate::h1::conn::{CloseMode, Conn as Http1, Stage};
use crate::h1::serve::Http1Handler;
use crate::h2::conn::Conn as Http2;
use crate::h2::serve::{Http2Handler, end_streams};
use crate::limits::{BATCH_BYTES_MAX, HALF_CLOSE_GRACE, LINGER_BYTES_MAX, TURNS_MAX};
use crate::mailbox::{Admission, ConnectionId};
use crate::pace::Pace;
use crate::ready_list::PeerState;
use crate::refusal::Refusal;
use crate::response::StreamFraming;
use crate::service::Service;
use crate::socket::ReadOutcome;
use crate::transport::{
    ConnectionError, OUTPUT_KEPT_BYTES, Step, StepResult, Transport, is_longer,
};
use crate::workspace::{Workspace, empty};

/// The longest time for which input is read and thrown away after a refusal.
const LINGER: Duration = Duration::from_secs(2);
/// The time that an HTTP/2 client has to close the connection after GOAWAY and its last response.
const LEAVE: Duration = Duration::from_secs(2);

/// The protocol of a connection, and its state.
enum Protocol {
    Http1(Http1),
    Http2(Box<Http2>),
    /// The protocol is done: only the output and the closing of the connection are left.
    Ended(CloseMode),
    /// The last response is out; all that the client still sends is thrown away for a while,
    /// because closing at once would make the kernel discard the response.
    Lingering {
        left_bytes: usize,
    },
}

/// A connection. While it is idle it holds no buffer: requests are parsed and responses written in
/// buffers of the event loop, and only leftovers move here.
pub(crate) struct Connection {
    caller: Caller,
    transport: Transport,
    protocol: Protocol,
    /// True if responses of this connection wait in the batch of this wake-up.
    is_batched: bool,
    /// True if the TLS handshake of this connection waits for its turn.
    pub(crate) is_queued: bool,
    /// The number under which profiles have samples of the incomplete request; zero if there are
    /// none.
    early: u64,
}

impl Connection {
    pub(crate) fn new(caller: Caller, transport: Transport) -> Connection {
        let protocol = Protocol::Http1(Http1::default());
        Connection { caller, transport, protocol, is_batched: false, is_queued: false, early: 0 }
    }

    pub(crate) fn id(&self) -> ConnectionId {
        self.caller.id
    }

    #[inline]
    pub(crate) fn note_event(&mut self, peer: PeerState, woke: Ticks) {
        self.transport.note_event(peer, woke);
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.transport.is_handshaking()
    }

    /// True if the connection is idle and unencrypted: its next read may happen before its turn.
    #[inline]
    pub(crate) fn may_be_read_ahead(&self) -> bool {
        let is_idle =
            matches!(&self.protocol, Protocol::Http1(conn) if conn.is_settled() && conn.is_idle());
        is_idle
            && !self.caller.is_encrypted
            && !self.is_batched
            && self.transport.output.is_empty()
            && self.transport.output.has_no_responses()
    }

    /// True if the next step takes so long that other connections have their turn first.
    #[inline]
    fn is_costly(&self) -> bool {
        match &self.protocol {
            Protocol::Http1(Http1 { stage: Stage::Streaming(streaming), .. }) => {
                streaming.source.is_costly()
            }
            Protocol::Http2(conn) => conn.is_costly(),
            _ => false,
        }
    }

    /// True if the socket has failed while a request is under way: no input will be read, and no
    /// output will arrive.
    fn is_lost(&self) -> bool {
        let is_busy = matches!(
            &self.protocol,
            Protocol::Http1(Http1 { stage: Stage::Waiting(_) | Stage::Streaming(_), .. })
        );
        self.transport.is_gone && is_busy
    }

    /// True if the service takes the connection over.
    pub(crate) fn is_leaving(&self) -> bool {
        matches!(&self.protocol, Protocol::Http1(Http1 { stage: Stage::Leaving, .. }))
    }

    /// The way to close the connection, if only its output is under way.
    fn closing(&self) -> CloseMode {
        match &self.protocol {
            Protocol::Http1(conn) if matches!(conn.stage, Stage::Serving) => conn.closing,
            Protocol::Ended(closing) => *closing,
            _ => CloseMode::No,
        }
    }

    /// Runs one turn: does all that there is to do, in at most [`TURNS_MAX`] steps. Returns
    /// [`Step::Again`] if more is left.
    pub(crate) fn advance<S: Service>(
        &mut self,
        work: &mut Workspace<S>,
        woke: Ticks,
    ) -> StepResult {
        self.transport.begin_turn(woke);
        if self.transport.has_unsent() {
            self.transport.send_rest(&mut work.dispatcher.accounts)?;
        }
        for _ in 0..TURNS_MAX {
            if self.is_lost() {
                return Err(ConnectionError(AbortReason::ClientGone));
            }
            if !self.transport.output.is_empty() {
                return Ok(Step::Blocked);
            }
            if self.is_batched {
                break;
            }
            match self.closing() {
                CloseMode::Cleanly => return Err(ConnectionError(AbortReason::Cut)),
                CloseMode::AfterLinger => self.begin_linger(&work.dispatcher.accounts),
                CloseMode::No => {}
            }
            let step = match &self.protocol {
                Protocol::Http2(_) => self.serve_http2(work, woke)?,
                Protocol::Lingering { .. } => self.linger(work)?,
                Protocol::Ended(_) => return Err(ConnectionError(AbortReason::Cut)),
                Protocol::Http1(conn) => match conn.stage {
                    Stage::Waiting(_) | Stage::Judging => return Ok(Step::Blocked),
                    Stage::Leaving => return Err(ConnectionError(AbortReason::Cut)),
                    Stage::Streaming(_) => self.pump(work)?,
                    Stage::Serving | Stage::Http2(_) => self.serve(work, woke)?,
                },
            };
            if step == Step::Blocked {
                return Ok(Step::Blocked);
            }
            if self.is_costly() {
                break;
            }
        }
        Ok(Step::Again)
    }

    /// Reads into `room`, ahead of the connection's turn. Returns the number of bytes, and whether
    /// more may be there. If the read brought no bytes, runs the turn at once and returns the
    /// turn's result as the error.
    #[inline]
    pub(crate) fn read_ahead<S: Service>(
        &mut self,
        room: &mut [u8],
        turn: &mut TurnTimestamps,
        work: &mut Workspace<S>,
    ) -> Result<(usize, bool), StepResult> {
        resume_request(Phase::Receive.label(), self.early);
        let read = self.transport.read_plain(room, turn, &mut work.dispatcher.accounts);
        self.early = suspend_request();
        match read {
            Ok(ReadOutcome::Bytes { count, filled }) => Ok((count, filled)),
            read => {
                let step = self.after_read(read, turn.woke);
                Err(step.and_then(|step| self.go_on_after(step, work, turn.woke)))
            }
        }
    }

    /// Answers the requests that were read ahead.
    #[inline]
    pub(crate) fn serve_ahead<S: Service>(
        &mut self,
        bytes: &[u8],
        filled: bool,
        mut turn: TurnTimestamps,
        work: &mut Workspace<S>,
        woke: Ticks,
    ) -> StepResult {
        turn.waited_until = Some(work.dispatcher.accounts.last());
        resume_request(Phase::Parse.label(), std::mem::take(&mut self.early));
        // Only an idle connection is read ahead, so that no input precedes these bytes.
        let used = self.answer(bytes, &turn, work);
        let taken_in = used.and_then(|used| self.take_in_rest(&bytes[used..], &turn, work));
        self.early = suspend_request();
        taken_in?;
        let read = Ok(ReadOutcome::Bytes { count: bytes.len(), filled });
        let step = self.after_read(read, woke)?;
        self.go_on_after(step, work, woke)
    }

    /// Continues with a full turn after a step that was taken outside of one.
    #[inline]
    fn go_on_after<S: Service>(
        &mut self,
        step: Step,
        work: &mut Workspace<S>,
        woke: Ticks,
    ) -> StepResult {
        match step {
            Step::Again if !self.is_costly() => self.advance(work, woke),
            step => Ok(step),
        }
    }

    /// Reads the available input, and answers every complete request in it.
    fn serve<S: Service>(&mut self, work: &mut Workspace<S>, woke: Ticks) -> StepResult {
        let mut turn = self.transport.turn(woke, work.dispatcher.accounts.last());
        if self.answer_input(&turn, work)? > 0 {
            return Ok(Step::Again);
        }
        if self.transport.is_drained {
            return Ok(Step::Blocked);
        }
        resume_request(Phase::Receive.label(), std::mem::take(&mut self.early));
        let (read, digested) = work.with_scratch(|work, scratch| {
            let accounts = &mut work.dispatcher.accounts;
            let read = self.transport.read(scratch, &mut work.wire, &mut turn, accounts);
            let digested = match read {
                Ok(ReadOutcome::Bytes { count, .. }) => self.digest(&scratch[..count], &turn, work),
                Ok(ReadOutcome::NotTls) => self.refuse_plain(&turn, work),
                _ => Ok(()),
            };
            (read, digested)
        });
        self.early = suspend_request();
        digested?;
        self.after_read(read, woke)
    }

    /// Parses the bytes of a read: in place if no input precedes them, else behind that input.
    #[inline]
    fn digest<S: Service>(
        &mut self,
        bytes: &[u8],
        turn: &TurnTimestamps,
        work: &mut Workspace<S>,
    ) -> StepResult<()> {
        let Protocol::Http1(conn) = &self.protocol else { return Ok(()) };
        if conn.has_no_input() {
            let used = self.answer(bytes, turn, work)?;
            return self.take_in_rest(&bytes[used..], turn, work);
        }
        self.take_in(bytes, turn, work)?;
        self.answer_input(turn, work).map(|_| ())
    }

    /// Keeps the rest of a read after its complete requests were answered.
    #[inline]
    fn take_in_rest<S: Service>(
        &mut self,
        rest: &[u8],
        turn: &TurnTimestamps,
        work: &mut Workspace<S>,
    ) -> StepResult<()> {
        if !rest.is_empty() {
            self.take_in(rest, turn, work)?;
        }
        self.switch_protocol(work);
        Ok(())
    }

    /// Answers the complete requests in the input. Returns how many bytes were used.
    fn answer_input<S: Service>(
        &mut self,
        turn: &TurnTimestamps,
        work: &mut Workspace<S>,
    ) -> StepResult<usize> {
        let Protocol::Http1(conn) = &mut self.protocol else { return Ok(0) };
        if !conn.has_requests() {
            return Ok(0);
        }
        let input = conn.take_input();
        let used = self.answer(&input, turn, work)?;
        if let Protocol::Http1(conn) = &mut self.protocol {
            conn.put_back(input, used);
        }
        self.switch_protocol(work);
        Ok(used)
    }

    /// Appends `bytes` to the input that is not parsed yet.
    fn take_in<S: Service>(
        &mut self,
        bytes: &[u8],
        turn: &TurnTimestamps,
        work: &mut Workspace<S>,
    ) -> StepResult<()> {
        let Protocol::Http1(conn) = &mut self.protocol else { return Ok(()) };
        match conn.take_in(bytes, turn.woke, work.dispatcher.accounts.clock()) {
            Ok(()) => Ok(()),
            Err(refusal) => self.refuse_incomplete(&refusal, turn.woke, work),
        }
    }

    /// Answers the complete requests at the beginning of `bytes`. Writes the answers, or puts them
    /// into the batch. Returns how many bytes were used.
    #[inline]
    fn answer<S: Service>(
        &mut self,
        bytes: &[u8],
        turn: &TurnTimestamps,
        work: &mut Workspace<S>,
    ) -> StepResult<usize> {
        let Connection { caller, transport, protocol, .. } = self;
        let Protocol::Http1(conn) = protocol else { return Ok(0) };
        if !conn.is_settled() && !conn.settle(bytes, transport.agreed_on_http2(), turn) {
            return Ok(0);
        }
        let Workspace { dispatcher, batch, out, .. } = work;
        let is_batched = batch.is_open() && !caller.is_encrypted;
        let target = if is_batched { &mut batch.out } else { &mut *out };
        let begin = target.len();
        let output = &mut transport.output;
        let used =
            Http1Handler::new(conn, caller, output, dispatcher, target).answer_whole(bytes, turn);
        if is_batched {
            self.put_in_batch(begin, work)?;
        } else {
            self.flush(work)?;
        }
        Ok(used)
    }

    /// Registers the bytes of the batch from `begin` on as responses of this connection. If the
    /// connection will not be read any more, or has much to send, they are written now instead,
    /// unless earlier responses of it wait in the batch.
    #[inline]
    fn put_in_batch<S: Service>(
        &mut self,
        begin: usize,
        work: &mut Workspace<S>,
    ) -> StepResult<()> {
        let Workspace { dispatcher, batch, .. } = work;
        let accounts = &mut dispatcher.accounts;
        if begin == batch.out.len() {
            return Ok(());
        }
        let may_go_on = match &self.protocol {
            Protocol::Http1(conn) => conn.may_serve(),
            _ => true,
        };
        let is_urgent = !may_go_on || batch.out.len() - begin > BATCH_BYTES_MAX;
        if is_urgent && !self.is_batched {
            let sent = self.transport.send(Cow::Borrowed(&batch.out[begin..]), accounts);
            batch.out.truncate(begin);
            return sent;
        }
        self.is_batched = true;
        batch.add(self.caller.id, begin, accounts.now());
        Ok(())
    }

    /// Writes responses of this connection that waited in the batch.
    #[inline]
    pub(crate) fn write_batched<S: Service>(
        &mut self,
        bytes: &[u8],
        work: &mut Workspace<S>,
    ) -> StepResult<()> {
        self.is_batched = false;
        self.transport.send(Cow::Borrowed(bytes), &mut work.dispatcher.accounts)
    }

    /// Writes the responses in `out`; if others of this connection wait in the batch, appends them
    /// there.
    #[inline]
    fn flush<S: Service>(&mut self, work: &mut Workspace<S>) -> StepResult<()> {
        if self.is_batched {
            let begin = work.batch.out.len();
            work.batch.out.extend_from_slice(&work.out);
            empty(&mut work.out);
            return self.put_in_batch(begin, work);
        }
        let bytes = match work.out.len() > OUTPUT_KEPT_BYTES {
            true => Cow::Owned(std::mem::take(&mut work.out)),
            false => Cow::Borrowed(&work.out[..]),
        };
        let sent = self.transport.send(bytes, &mut work.dispatcher.accounts);
        empty(&mut work.out);
        sent
    }

    /// Switches to HTTP/2 if the client has chosen it.
    #[inline]
    fn switch_protocol<S: Service>(&mut self, work: &Workspace<S>) {
        let Protocol::Http1(conn) = &mut self.protocol else { return };
        let Stage::Http2(asked_before) = &mut conn.stage else { return };
        let mut http2 = Http2::new(work.dispatcher.limits(), asked_before.take());
        http2.feed(&conn.take_input());
        self.protocol = Protocol::Http2(Box::new(http2));
    }

    /// Evaluates the result of a read, and returns the next step. A read that did not fill its
    /// buffer has drained the socket: the next byte raises a new event.
    #[inline]
    fn after_read(&mut self, read: io::Result<ReadOutcome>, woke: Ticks) -> StepResult {
        let transport = &mut self.transport;
        match read {
            Ok(ReadOutcome::End) => {
                match &mut self.protocol {
                    Protocol::Http1(conn) => {
                        if conn.closing == CloseMode::No {
                            conn.closing = CloseMode::Cleanly;
                        }
                        if transport.output.is_empty() && matches!(conn.stage, Stage::Serving) {
                            return Err(ConnectionError(AbortReason::ClientGone));
                        }
                    }
                    Protocol::Http2(conn) => {
                        conn.end_input();
                        transport.is_drained = true;
                    }
                    Protocol::Ended(_) | Protocol::Lingering { .. } => {}
                }
                Ok(Step::Again)
            }
            Ok(ReadOutcome::NotTls) => Ok(Step::Again),
            Ok(ReadOutcome::Bytes { filled, .. }) => {
                transport.progress_at = woke;
                let (is_closing, is_open) = match &self.protocol {
                    Protocol::Http1(conn) => {
                        let is_streaming =
                            matches!(conn.stage, Stage::Streaming(_) | Stage::Leaving);
                        (conn.closing != CloseMode::No, is_streaming || conn.has_requests())
                    }
                    _ => (false, true),
                };
                let more = filled || transport.is_ended() || is_closing;
                transport.is_drained = !more;
                Ok(if more || is_open { Step::Again } else { Step::Blocked })
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // Ciphertext that decrypts to no plaintext may be followed by the end.
                transport.is_drained = !transport.is_ended();
                Ok(if transport.is_drained { Step::Blocked } else { Step::Again })
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Step::Again),
            Err(_) => Err(ConnectionError(AbortReason::ClientGone)),
        }
    }

    /// Answers, without TLS, a client that sent plain text to a TLS listener.
    fn refuse_plain<S: Service>(
        &mut self,
        turn: &TurnTimestamps,
        work: &mut Workspace<S>,
    ) -> StepResult<()> {
        self.transport.drop_tls(&work.dispatcher.accounts);
        self.caller.is_encrypted = false;
        self.refuse(&Refusal::PlainText, turn, work)
    }

    /// Refuses a request that is incomplete and will stay so.
    fn refuse_incomplete<S: Service>(
        &mut self,
        refusal: &Refusal,
        now: Ticks,
        work: &mut Workspace<S>,
    ) -> StepResult<()> {
        if let Protocol::Http1(conn) = &mut self.protocol {
            conn.forget_input();
        }
        let mut turn = self.transport.turn(now, now);
        turn.received = work.dispatcher.accounts.read_clock();
        self.refuse(refusal, &turn, work)
    }

    fn refuse<S: Service>(
        &mut self,
        refusal: &Refusal,
        turn: &TurnTimestamps,
        work: &mut Workspace<S>,
    ) -> StepResult<()> {
        if let Some(mut serving) = self.http1(work) {
            serving.refuse(refusal, false, turn);
        }
        self.flush(work)
    }

    /// The HTTP/1.1 side of the connection, with its service; none if it speaks HTTP/2.
    fn http1<'a, S: Service>(
        &'a mut self,
        work: &'a mut Workspace<S>,
    ) -> Option<Http1Handler<'a, S>> {
        let Protocol::Http1(conn) = &mut self.protocol else { return None };
        let Workspace { dispatcher, out, .. } = work;
        let output = &mut self.transport.output;
        Some(Http1Handler::new(conn, &mut self.caller, output, dispatcher, out))
    }

    /// The HTTP/2 side of the connection, with its service; none if it speaks HTTP/1.1.
    fn http2<'a, S: Service>(
        &'a mut self,
        work: &'a mut Workspace<S>,
    ) -> Option<Http2Handler<'a, S>> {
        let Protocol::Http2(conn) = &mut self.protocol else { return None };
        let Workspace { dispatcher, body, .. } = work;
        Some(Http2Handler { conn, caller: &mut self.caller, dispatcher, body })
    }

    /// Sends the next piece of a streamed response.
    fn pump<S: Service>(&mut self, work: &mut Workspace<S>) -> StepResult {
        let Some(mut serving) = self.http1(work) else { return Ok(Step::Blocked) };
        let filled = serving.pump();
        self.flush(work)?;
        match filled {
            FillResult::Broken => Err(ConnectionError(AbortReason::Failed)),
            FillResult::More | FillResult::Last if self.transport.output.is_empty() => {
                Ok(Step::Again)
            }
            _ => Ok(Step::Blocked),
        }
    }

    fn begin_linger(&mut self, accounts: &Accounts) {
        self.transport.end_output();
        self.transport.progress_at = accounts.clock().now();
        self.protocol = Protocol::Lingering { left_bytes: LINGER_BYTES_MAX };
    }

    /// Reads and throws away further input of the client.
    fn linger<S: Service>(&mut self, work: &mut Workspace<S>) -> StepResult {
        let Protocol::Lingering { left_bytes } = &mut self.protocol else {
            return Ok(Step::Blocked);
        };
        match work.with_scratch(|_, scratch| self.transport.discard_input(scratch)) {
            Ok(count @ 1..) if count < *left_bytes => {
                *left_bytes -= count;
                Ok(Step::Again)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Step::Blocked),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Step::Again),
            Ok(_) | Err(_) => Err(ConnectionError(AbortReason::ClientGone)),
        }
    }

    /// Reads the available input, feeds it to the protocol, answers every complete request, and
    /// writes the frames of the protocol.
    fn serve_http2<S: Service>(&mut self, work: &mut Workspace<S>, woke: Ticks) -> StepResult {
        let mut turn = self.transport.turn(woke, work.dispatcher.accounts.last());
        let Protocol::Http2(conn) = &mut self.protocol else { return Ok(Step::Blocked) };
        if !conn.has_input() && !self.transport.is_drained {
            begin_request(Phase::Receive.label());
            let read = work.with_scratch(|work, scratch| {
                let accounts = &mut work.dispatcher.accounts;
                let read = self.transport.read(scratch, &mut work.wire, &mut turn, accounts);
                if let Ok(ReadOutcome::Bytes { count, .. }) = read {
                    conn.feed(&scratch[..count]);
                }
                read
            });
            self.after_read(read, woke)?;
        }
        let Protocol::Http2(conn) = &mut self.protocol else { return Ok(Step::Blocked) };
        let Workspace { dispatcher, batch, out, body, .. } = work;
        let caller = &mut self.caller;
        conn.swap_output(out);
        let (is_over, moved) = Http2Handler { conn, caller, dispatcher, body }.run(&turn);
        conn.swap_output(out);
        empty(body);
        let (was_full, is_ended) = conn.end_turn();
        for record in conn.take_answered() {
            dispatcher.accounts.finish(&mut self.transport.output, record, out.len());
        }
        let has_input = conn.has_input();
        let has_memory = conn.hold_pieces();
        if is_over {
            let ending = if is_ended { AbortReason::ClientGone } else { AbortReason::Cut };
            end_streams(conn, dispatcher, ending);
            let closing = if is_ended { CloseMode::Cleanly } else { CloseMode::AfterLinger };
            self.protocol = Protocol::Ended(closing);
        }
        let may_wait = batch.is_open() && !self.caller.is_encrypted && !is_over;
        if may_wait && out.len() <= BATCH_BYTES_MAX {
            let begin = batch.out.len();
            batch.out.extend_from_slice(out);
            empty(out);
            self.put_in_batch(begin, work)?;
        } else {
            self.flush(work)?;
        }
        if !has_memory {
            work.dispatcher.accounts.shared().cuts.connections.add(DisconnectReason::Memory);
            return Err(ConnectionError(DisconnectReason::Memory.into()));
        }
        let more = moved || was_full || has_input || is_ended || !self.transport.is_drained;
        Ok(if is_over || more && !self.transport.has_unsent() {
            Step::Again
        } else {
            Step::Blocked
        })
    }

    /// Takes in another thread's decision whether the body of a request may come.
    pub(crate) fn judged(&mut self, stream: u32, admission: Admission) {
        match &mut self.protocol {
            Protocol::Http1(conn) => conn.judged(admission),
            Protocol::Http2(conn) => conn.judged(stream, admission),
            Protocol::Ended(_) | Protocol::Lingering { .. } => {}
        }
    }

    /// Continues a request that was handed over, with the value that the hand-over brought back;
    /// `later` is none if the code panicked.
    pub(crate) fn resume<S: Service>(
        &mut self,
        stream: u32,
        later: Option<S::LoopMessage>,
        work: &mut Workspace<S>,
    ) -> StepResult<()> {
        if let Some(mut serving) = self.http2(work) {
            serving.resume(stream, later);
            return Ok(());
        }
        if let Some(mut serving) = self.http1(work) {
            serving.resume(later);
        }
        self.flush(work)
    }

    /// Enforces the time limits: ends an idle connection, refuses a request that comes in too
    /// slowly, and cuts a client that does not take its responses.
    pub(crate) fn sweep<S: Service>(&mut self, work: &mut Workspace<S>, now: Ticks) -> StepResult {
        if self.transport.pace.is_begun() && self.has_caught_up() {
            self.transport.pace = Pace::default();
        }
        self.tell_half_closed(&work.dispatcher.accounts, now);
        let (limits, clock) = (work.dispatcher.limits(), work.dispatcher.accounts.clock());
        let cut_of_reader = self.transport.cut_of_reader(limits, clock, now);
        if matches!(self.protocol, Protocol::Http2(_)) && cut_of_reader.is_none() {
            return self.sweep_http2(work, now);
        }
        let cuts = &work.dispatcher.accounts.shared().cuts;
        match self.judge(&work.dispatcher, cut_of_reader, now) {
            Verdict::Keep => Ok(Step::Blocked),
            Verdict::Leave => Err(ConnectionError(AbortReason::Cut)),
            Verdict::Cut(cut) => {
                cuts.connections.add(cut);
                Err(ConnectionError(cut.into()))
            }
            Verdict::RefuseSlow => {
                cuts.connections.add(DisconnectReason::RequestSlow);
                self.refuse_incomplete(&Refusal::TooSlow, now, work)?;
                self.advance(work, now)
            }
        }
    }

    /// True if the client has taken all of its responses so far.
    fn has_caught_up(&self) -> bool {
        let is_sending = match &self.protocol {
            Protocol::Http1(conn) => matches!(conn.stage, Stage::Streaming(_)),
            Protocol::Http2(conn) => conn.is_sending(),
            Protocol::Ended(_) | Protocol::Lingering { .. } => false,
        };
        !is_sending && !self.transport.has_unsent()
    }

    /// Tells the watch of a waiting request that its client is gone, once the client's FIN is older
    /// than [`HALF_CLOSE_GRACE`]. The answer is still sent, because the client may be there.
    fn tell_half_closed(&self, accounts: &Accounts, now: Ticks) {
        if let Protocol::Http1(Http1 { stage: Stage::Waiting(place), .. }) = &self.protocol
            && let Some(since) = self.transport.ended_at
            && is_longer(accounts.clock(), since, HALF_CLOSE_GRACE, now)
        {
            let watch = place.as_ref().as_ref().and_then(|parked| parked.watch.as_ref());
            watch.into_iter().for_each(ClientWatch::tell);
        }
    }

    fn judge<S: Service>(
        &self,
        dispatcher: &Dispatcher<S>,
        cut_of_reader: Option<DisconnectReason>,
        now: Ticks,
    ) -> Verdict {
        let (limits, clock) = (dispatcher.limits(), dispatcher.accounts.clock());
        let longer = |since: Ticks, limit: Duration| is_longer(clock, since, limit, now);
        let progress_at = self.transport.progress_at;
        if self.is_handshaking() {
            return match dispatcher.is_stopping() {
                true => Verdict::Cut(DisconnectReason::Stopping),
                false if longer(progress_at, limits.handshake) => {
                    Verdict::Cut(DisconnectReason::HandshakeSlow)
                }
                false => Verdict::Keep,
            };
        }
        let conn = match &self.protocol {
            Protocol::Lingering { .. } if longer(progress_at, LINGER) => return Verdict::Leave,
            Protocol::Lingering { .. } => return Verdict::Keep,
            Protocol::Http1(Http1 { stage: Stage::Waiting(_) | Stage::Judging, .. }) => {
                return Verdict::Keep;
            }
            Protocol::Http1(conn) => conn,
            Protocol::Http2(_) | Protocol::Ended(_) => {
                return cut_of_reader.map_or(Verdict::Keep, Verdict::Cut);
            }
        };
        if let Some(cut) = cut_of_reader {
            return Verdict::Cut(cut);
        }
        let (idle_for, cut) = match dispatcher.is_stopping() {
            true => (Duration::ZERO, DisconnectReason::Stopping),
            false => (limits.idle, DisconnectReason::Idle),
        };
        if !conn.may_serve() {
            Verdict::Keep
        } else if conn.is_idle() && self.transport.output.is_empty() {
            if longer(progress_at, idle_for) { Verdict::Cut(cut) } else { Verdict::Keep }
        } else if conn.is_late(now, |begun| longer(begun, limits.exchange)) {
            Verdict::RefuseSlow
        } else {
            Verdict::Keep
        }
    }

    fn sweep_http2<S: Service>(&mut self, work: &mut Workspace<S>, now: Ticks) -> StepResult {
        let (progress_at, turn) = (self.transport.progress_at, self.transport.turn(now, now));
        let has_unsent = self.transport.has_unsent();
        let Some(mut serving) = self.http2(work) else { return Ok(Step::Blocked) };
        let is_told = tell_to_leave(&mut serving, has_unsent, progress_at, now)?;
        // While output waits, nothing is read, and no stream is given anything: only the limits of
        // the transport apply.
        let is_swept = !has_unsent && serving.sweep(&turn);
        if has_unsent {
            serving.conn.put_off_bodies(now);
        }
        match is_swept || is_told {
            true => self.advance(work, now),
            false => Ok(Step::Blocked),
        }
    }

    /// Ends the connection, and the accounts of its requests.
    pub(crate) fn end<S: Service>(self, dispatcher: &Dispatcher<S>, ending: AbortReason) {
        let (accounts, outcome) = (&dispatcher.accounts, dispatcher.outcome_of(ending));
        let (mut closing, mut is_cut_off) = (CloseMode::No, false);
        match self.protocol {
            Protocol::Http1(conn) => {
                closing = conn.closing;
                match conn.stage {
                    Stage::Waiting(mut place) => dispatcher.end_parked(&mut place, ending),
                    Stage::Streaming(mut streaming) => {
                        is_cut_off = matches!(streaming.framing, StreamFraming::ToTheEnd);
                        accounts.end(&mut streaming.trace, outcome);
                        accounts.uncount_in_flight();
                    }
                    _ => {}
                }
            }
            Protocol::Http2(mut conn) => end_streams(&mut conn, dispatcher, ending),
            Protocol::Ended(how) => closing = how,
            Protocol::Lingering { .. } => {}
        }
        if is_cut_off || self.transport.has_unsent() {
            self.transport.end_with_reset();
        }
        self.transport.end(closing == CloseMode::Cleanly, accounts, outcome);
    }

    /// Splits off what the service takes over: the socket, and the input that was read beyond the
    /// request.
    pub(crate) fn into_parts(self) -> (TcpStream, Vec<u8>) {
        let input = match self.protocol {
            Protocol::Http1(mut conn) => conn.take_input(),
            _ => Vec::new(),
        };
        (self.transport.into_socket(), input)
    }
}

/// The decision of [`Connection::judge`] about a connection, by the time limits.
enum Verdict {
    Keep,
    RefuseSlow,
    Cut(DisconnectReason),
    /// The linger after a refusal is over: close without a further count.
    Leave,
}

/// Sends GOAWAY to an HTTP/2 client if the server stops, or if the connection is idle for too long.
/// Returns true if that was done just now. The error is that of a connection to be closed: its time
/// to leave is over, or it cannot be told.
fn tell_to_leave<S: Service>(
    serving: &mut Http2Handler<'_, S>,
    has_unsent: bool,
    progress_at: Ticks,
    now: Ticks,
) -> StepResult<bool> {
    let Http2Handler { conn, dispatcher, .. } = serving;
    let clock = dispatcher.accounts.clock();
    let is_idle = conn.is_idle() && !has_unsent;
    if let Some(since) = conn.leaving_since {
        if !is_idle {
            conn.leaving_since = Some(now);
        }
        let is_over = is_idle && is_longer(clock, since, LEAVE, now);
        return if is_over { Err(ConnectionError(AbortReason::Cut)) } else { Ok(false) };
    }
    let is_stopping = dispatcher.is_stopping();
    let is_idle = is_idle && is_longer(clock, progress_at, dispatcher.limits().idle, now);
    if !is_stopping && !is_idle {
        return Ok(false);
    }
    let cut = if is_stopping { DisconnectReason::Stopping } else { DisconnectReason::Idle };
    dispatcher.accounts.shared().cuts.connections.add(cut);
    if conn.leave(now) { Ok(true) } else { Err(ConnectionError(cut.into())) }
}

//! The exchange on connections: sends requests and takes answers when a connection can go on.

use std::io;
use std::os::fd::AsFd;

use pellucid_client::http::{ParseOutcome, Response, ResponseError, ServerTiming};
use pellucid_clock::Ticks;

use crate::connection::{PendingRequest, SocketState};
use crate::disconnect_reason::DisconnectReason;
use crate::error::LoadError;
use crate::http2::{Answer, StreamFailure, TURN_BYTES_MAX};
use crate::poller::Readiness;
use crate::request_factory::StreamRequest;
use crate::trace_sampler::insert_headers;
use crate::worker::Worker;
use crate::wrk2_timers::SendDecision;

/// The largest number of times that a refused HTTP/2 request is sent again: a server that refuses
/// everything must not keep the run busy forever.
const SENDS_AGAIN_MAX: u8 = 3;
/// A request that timed out is given up when it is this many times as old as the timeout, so that a
/// late answer is recorded with its full latency.
const ABANDON_AFTER_TIMEOUTS: u64 = 5;
/// The longest pause between two sends that a script can ask for.
const LONGEST_DELAY_MS: f64 = 24.0 * 3_600_000.0;

impl Worker {
    /// Handles an event: goes on with opening a connection, writes pending bytes, or reads answers.
    pub(crate) fn handle(&mut self, readiness: Readiness) -> Result<(), LoadError> {
        let index = readiness.token;
        let mut readable = readiness.readable;
        match self.pool.connections[index].link {
            SocketState::Up => {
                if let Some(http2) = &self.pool.connections[index].http2 {
                    if readable {
                        http2.note_readable(readiness.ended);
                    }
                    return self.go_on(index);
                }
                if readiness.writable && self.pool.connections[index].has_unwritten() {
                    self.pool.flush(index, &mut self.recorder);
                }
            }
            SocketState::Connecting { .. } if !readiness.writable => return Ok(()),
            SocketState::Connecting { .. } | SocketState::Securing { .. } => {
                if !self.pool.finish_opening(index, &mut self.recorder) {
                    return Ok(());
                }
                // The end of a handshake may arrive together with the first bytes of the protocol,
                // and no further event would report those.
                readable |= self.pool.plan.opening.tls.is_some();
                if self.pool.connections[index].http2.is_some() {
                    return self.go_on(index);
                }
                self.advance(index)?;
            }
            SocketState::Down { .. } => return Ok(()),
        }
        if readable && self.pool.connections[index].link == SocketState::Up {
            self.receive(index, readiness.ended)?;
        }
        Ok(())
    }

    /// Sends the requests that may be sent on a connection now.
    #[inline]
    pub(crate) fn advance(&mut self, index: usize) -> Result<(), LoadError> {
        if !self.pool.is_running {
            return Ok(());
        }
        if !self.left_out.is_empty() {
            self.send_again(index)?;
        }
        if !self.pool.plan.keep_alive {
            let pending = self.pool.connections[index].pending.take();
            return pending.map_or(Ok(()), |intended| self.send(index, 1, Some(intended)));
        }
        if !self.pacing.is_scheduled() {
            return self.advance_unscheduled(index);
        }
        self.pool.queue(index);
        let now = self.clock.now();
        self.send_next(now).map(|_| ())
    }

    /// With a rate: begins the next request, if it is due and a connection is free. Returns true if
    /// it began one.
    #[inline]
    pub(crate) fn send_next(&mut self, now: Ticks) -> Result<bool, LoadError> {
        let Some(due) = self.pacing.due(now) else { return Ok(false) };
        let Some(index) = self.pool.take_free() else { return Ok(false) };
        self.pacing.advance();
        self.begin_request(index, due)?;
        Ok(true)
    }

    /// Begins the request with the intended start `intended` on a free connection.
    #[inline]
    pub(crate) fn begin_request(&mut self, index: usize, intended: Ticks) -> Result<(), LoadError> {
        if self.pool.plan.keep_alive {
            return self.send(index, 1, Some(intended));
        }
        let connection = &mut self.pool.connections[index];
        if self.pacing.is_paced() {
            self.recorder.begun(intended, connection.free_since, self.clock.now());
        }
        connection.pending = Some(intended);
        self.pool.open(index, &mut self.recorder);
        Ok(())
    }

    /// Lets a connection send now, or defers it until all answers of the wake-up are read.
    #[inline]
    pub(crate) fn advance_or_put_by(&mut self, index: usize) -> Result<(), LoadError> {
        if !self.is_putting_by {
            return self.advance(index);
        }
        self.put_by.push(index);
        Ok(())
    }

    fn advance_unscheduled(&mut self, index: usize) -> Result<(), LoadError> {
        if self.pacing.is_paced() {
            return self.advance_as_wrk2(index);
        }
        let index = self.pool.first_of(index);
        let is_idle = match &self.pool.plan.directions {
            None => self.pool.connections[index].is_idle(),
            Some(_) => self.pool.has_room(index),
        };
        let Some(script) = self.maker.delays() else { return self.fill(index) };
        let connection = &mut self.pool.connections[index];
        if is_idle && !connection.delayed {
            let delay_ms = script.delay_ms()?.clamp(0.0, LONGEST_DELAY_MS);
            let delay_ticks = self.clock.ticks((delay_ms * 1e6) as u64);
            connection.delayed = true;
            self.pacing.delay(Ticks(self.clock.now().0 + delay_ticks), index);
        }
        Ok(())
    }

    /// With the pacing of wrk2: sends if the connection's own schedule allows it, or sets a timer.
    fn advance_as_wrk2(&mut self, index: usize) -> Result<(), LoadError> {
        let connection = &mut self.pool.connections[index];
        if !connection.is_idle() || connection.delayed || !self.pacing.has_quota() {
            return Ok(());
        }
        match self.pacing.turn(index, self.clock.now()) {
            Some(SendDecision::Send(intended)) => self.send(index, 1, Some(intended)),
            turn => {
                connection.delayed = turn.is_some();
                Ok(())
            }
        }
    }

    /// Without a rate: fills the pipeline of a connection.
    pub(crate) fn fill(&mut self, index: usize) -> Result<(), LoadError> {
        if !self.pool.is_in_use(index) {
            return Ok(());
        }
        if self.pool.plan.directions.is_some() {
            return if self.pool.has_room(index) { self.send_direct(index, None) } else { Ok(()) };
        }
        let connection = &self.pool.connections[index];
        let per_send = self.maker.requests_per_send;
        let limit = self.depth * per_send;
        if connection.link != SocketState::Up || connection.has_unwritten() {
            return Ok(());
        }
        let sends = match &connection.http2 {
            Some(http2) => http2.room(),
            None => (limit - connection.in_flight.len().min(limit)) / per_send,
        };
        if sends > 0 { self.send(index, sends, None) } else { Ok(()) }
    }

    /// Makes and sends up to `sends` requests, or batches. `intended` is their intended start;
    /// without it, they start when they are sent.
    fn send(
        &mut self,
        index: usize,
        sends: usize,
        intended: Option<Ticks>,
    ) -> Result<(), LoadError> {
        if self.pool.plan.directions.is_some() {
            return self.send_direct(index, intended);
        }
        let batch = self.maker.requests_per_send;
        let sends = self.pacing.take_quota(sends, batch);
        if sends == 0 {
            return Ok(());
        }
        let connection = &mut self.pool.connections[index];
        connection.begin_out();
        let is_http2 = connection.http2.is_some();
        let older = connection.in_flight.len();
        for _ in 0..sends {
            let watched = self.watcher.picks();
            match is_http2 {
                true => self.make_stream(index, intended, watched)?,
                false => self.make_request(index, watched)?,
            }
        }
        let sent = self.clock.now();
        let connection = &mut self.pool.connections[index];
        // A connection that takes no further request has added none.
        for request in connection.in_flight.range_mut(older..) {
            request.sent = sent;
            request.intended = intended.unwrap_or(sent);
        }
        if let (Some(intended), true) = (intended, self.pacing.is_paced()) {
            for _ in 0..batch {
                self.recorder.sent(intended, sent);
                if self.pool.plan.keep_alive {
                    self.recorder.begun(intended, connection.free_since, sent);
                }
            }
        }
        if !is_http2 {
            self.write_new(index, sends);
            self.pool.note_written(index);
            return Ok(());
        }
        self.take_turn(index)?;
        if self.pacing.is_paced() {
            self.pool.queue(index);
        }
        Ok(())
    }

    /// Makes an HTTP/1.1 request, or a batch that goes out at once.
    #[inline]
    fn make_request(&mut self, index: usize, watched: bool) -> Result<(), LoadError> {
        let connection = &mut self.pool.connections[index];
        let begin = connection.out.len();
        let (operation, bodiless) = match self.maker.fixed() {
            Some((_, bodiless)) => (0, bodiless),
            None => {
                let operation = self.maker.append(&mut connection.out)?;
                (operation, connection.out[begin..].starts_with(b"HEAD "))
            }
        };
        let per_send = self.maker.requests_per_send;
        for number in 1..=per_send {
            let is_within_batch = self.recorder.measures_batches() && number < per_send;
            let request = PendingRequest {
                bodiless,
                is_within_batch,
                operation,
                ..PendingRequest::default()
            };
            connection.in_flight.push_back(request);
        }
        if watched && per_send == 1 && self.depth == 1 {
            self.watch(index, begin);
        }
        Ok(())
    }

    /// Begins to watch the request that was made last, whose bytes begin at `begin`.
    #[cold]
    pub(crate) fn watch(&mut self, index: usize, begin: usize) {
        let connection = &mut self.pool.connections[index];
        let opened = (!self.pool.plan.keep_alive).then_some(connection.opened);
        let watch = self.watcher.watch(connection.free_since, opened);
        if self.watcher.asks() {
            if let Some((bytes, _)) = self.maker.fixed().filter(|_| connection.out.len() == begin) {
                connection.out.extend_from_slice(bytes);
            }
            insert_headers(watch.trace_id, &mut connection.out, begin);
        }
        if let Some(request) = connection.in_flight.back_mut() {
            request.watch = Some(watch);
            connection.notes_write = true;
        }
    }

    /// Writes the requests that were just made. Fixed bytes are written without a copy.
    #[inline]
    fn write_new(&mut self, index: usize, sends: usize) {
        let Some((bytes, _)) = self.maker.fixed() else {
            return self.pool.flush(index, &mut self.recorder);
        };
        let connection = &mut self.pool.connections[index];
        // A watched request is in `out` already, because its headers differ.
        let made = usize::from(!connection.out.is_empty());
        if sends + made > 1 {
            (made..sends).for_each(|_| connection.out.extend_from_slice(bytes));
            return self.pool.flush(index, &mut self.recorder);
        }
        let Some(stream) = &mut connection.stream else { return };
        let written = match stream.write(bytes) {
            Ok(count) if count == bytes.len() => return,
            Ok(count) => count,
            Err(error) if is_temporary(&error) => 0,
            Err(error) => {
                return self.pool.lose(index, DisconnectReason::Write(error), &mut self.recorder);
            }
        };
        connection.out.extend_from_slice(&bytes[written..]);
        self.pool.flush(index, &mut self.recorder);
    }

    /// Reads until the socket is empty, because edge-triggered events come only once. A short read
    /// means that it is empty, unless the end of the connection follows (`ended`).
    fn receive(&mut self, index: usize, ended: bool) -> Result<(), LoadError> {
        let mut turn_bytes = 0;
        loop {
            let Some(stream) = &mut self.pool.connections[index].stream else { return Ok(()) };
            if turn_bytes >= TURN_BYTES_MAX {
                let reminded = self.pool.poller.remind(stream.socket().as_fd(), index);
                reminded.map_err(LoadError::system("watch a socket"))?;
                return self.advance_or_put_by(index);
            }
            let drained = stream.is_plain();
            match stream.read(&mut self.buffer) {
                Ok(0) => {
                    self.take_end(index)?;
                    return Ok(());
                }
                Ok(count) => {
                    let now = self.clock.now();
                    self.recorder.bytes += count as u64;
                    turn_bytes += count;
                    if !self.take_bytes(index, count, now)? {
                        return Ok(());
                    }
                    if drained && count < self.buffer.len() && !ended {
                        return self.advance_or_put_by(index);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.advance_or_put_by(index);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let loss = self.read_loss(index, error);
                    self.pool.lose(index, loss, &mut self.recorder);
                    return Ok(());
                }
            }
        }
    }

    /// The reason for a socket that is given up after a read error. A reset between two requests is
    /// an ordinary end.
    pub(crate) fn read_loss(&self, index: usize, error: io::Error) -> DisconnectReason {
        if self.pool.connections[index].in_flight.is_empty() {
            DisconnectReason::Ended
        } else {
            DisconnectReason::Read(error)
        }
    }

    /// The reason for a socket that is given up after the server ended the connection.
    fn end_loss(&self, index: usize) -> DisconnectReason {
        let kind = io::ErrorKind::UnexpectedEof;
        self.read_loss(index, io::Error::new(kind, "the connection ended before the answer"))
    }

    /// Parses the answers in the first `count` bytes of the buffer. Returns false if the socket was
    /// given up.
    fn take_bytes(&mut self, index: usize, count: usize, now: Ticks) -> Result<bool, LoadError> {
        let mut at = 0;
        while at < count {
            let connection = &mut self.pool.connections[index];
            let Some(request) = connection.in_flight.front_mut() else {
                self.pool.lose(
                    index,
                    DisconnectReason::Malformed(ResponseError::Unasked),
                    &mut self.recorder,
                );
                return Ok(false);
            };
            if let Some(watch) = &mut request.watch
                && watch.first_byte.is_none()
            {
                watch.first_byte = Some(now);
                connection.parser.look_for_timing();
            }
            match connection.parser.parse(&self.buffer[at..count], request.bodiless) {
                Ok(ParseOutcome::More) => return Ok(true),
                Ok(ParseOutcome::Complete { consumed, response }) => {
                    at += consumed;
                    if !self.take_answer(index, response, now)? {
                        return Ok(false);
                    }
                }
                Err(malformed) => {
                    self.pool.lose(
                        index,
                        DisconnectReason::Malformed(malformed),
                        &mut self.recorder,
                    );
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Records an answer. Returns false if the connection ends with it.
    fn take_answer(
        &mut self,
        index: usize,
        answer: Response,
        now: Ticks,
    ) -> Result<bool, LoadError> {
        let connection = &mut self.pool.connections[index];
        connection.free_since = now;
        if let Some(request) = connection.in_flight.pop_front() {
            let kept = connection.parser.captured();
            let acceptance = self.maker.judge(request.operation, answer.status, kept);
            if request.watch.is_some() {
                let timing = connection.parser.take_timing();
                self.note_watched(&request, now, timing.as_ref());
            }
            self.recorder.answered(&request, now, answer.status, acceptance);
        }
        let connection = &mut self.pool.connections[index];
        connection.proven = true;
        let is_taken = self.maker.respond(answer.status, connection.parser.captured())?;
        if is_taken || self.maker.wants_answers {
            connection.parser.forget_captured();
        }
        let goes_on = answer.keep_alive && self.pool.plan.keep_alive;
        if !goes_on {
            let loss = self.end_loss(index);
            self.pool.lose(index, loss, &mut self.recorder);
        }
        Ok(goes_on)
    }

    /// Records the trace of a watched request. `told` are the headers with the server's timing.
    #[cold]
    pub(crate) fn note_watched(
        &mut self,
        request: &PendingRequest,
        now: Ticks,
        told: Option<&ServerTiming>,
    ) {
        let Some(watch) = &request.watch else { return };
        let told = self.recorder.watched(request, watch, now, told);
        self.watcher.heard(told);
    }

    /// Handles the end of the connection by the server: it may complete an answer without a length.
    fn take_end(&mut self, index: usize) -> Result<(), LoadError> {
        match self.pool.connections[index].parser.end() {
            Ok(Some(response)) => {
                let now = self.clock.now();
                self.take_answer(index, response, now)?;
            }
            Ok(None) => {
                let loss = self.end_loss(index);
                self.pool.lose(index, loss, &mut self.recorder);
            }
            Err(malformed) => {
                self.pool.lose(index, DisconnectReason::Malformed(malformed), &mut self.recorder)
            }
        }
        Ok(())
    }

    /// Makes a request and sends it to the owner of its key.
    fn send_direct(&mut self, index: usize, intended: Option<Ticks>) -> Result<(), LoadError> {
        if self.pacing.take_quota(1, 1) == 0 {
            return Ok(());
        }
        let sockets = self.pool.sockets_of(index);
        let mut bytes = Vec::new();
        let operation = self.maker.append(&mut bytes)?;
        let free = self.pool.connections[sockets.clone()].iter().map(|socket| socket.free_since);
        let free_since = free.max().unwrap_or_default();
        let index = self.pool.way_of(sockets, &bytes);
        let connection = &mut self.pool.connections[index];
        let bodiless = bytes.starts_with(b"HEAD ");
        (connection.out, connection.written) = (bytes, 0);
        connection.free_since = free_since;
        connection.in_flight.push_back(PendingRequest {
            bodiless,
            operation,
            ..PendingRequest::default()
        });
        if self.watcher.picks() {
            self.watch(index, 0);
        }
        let sent = self.clock.now();
        if let Some(request) = self.pool.connections[index].in_flight.back_mut() {
            (request.sent, request.intended) = (sent, intended.unwrap_or(sent));
        }
        if let (Some(intended), true) = (intended, self.pacing.is_paced()) {
            self.recorder.sent(intended, sent);
            self.recorder.begun(intended, free_since, sent);
        }
        self.pool.flush(index, &mut self.recorder);
        Ok(())
    }

    /// Makes an HTTP/2 request on a new stream.
    pub(crate) fn make_stream(
        &mut self,
        index: usize,
        intended: Option<Ticks>,
        watched: bool,
    ) -> Result<(), LoadError> {
        let connection = &mut self.pool.connections[index];
        let watch = watched.then(|| self.watcher.watch(connection.free_since, None));
        connection.notes_write |= watched;
        let trace_id = watch.as_ref().filter(|_| self.watcher.asks()).map(|watch| watch.trace_id);
        let mut made = self.maker.stream()?;
        if let Some(trace_id) = trace_id {
            made.add_trace(trace_id);
        }
        let Some(http2) = &mut connection.http2 else { return Ok(()) };
        let StreamRequest { request, body, operation, kept } = made;
        let under_way = PendingRequest { operation, watch, kept, ..PendingRequest::default() };
        match http2.request(request, body, watched) {
            Some(stream) => connection.in_flight.push_back(PendingRequest { stream, ..under_way }),
            None => {
                let sent = self.clock.now();
                let intended = intended.unwrap_or(sent);
                let request = PendingRequest { sent, intended, ..under_way };
                self.take_left_out(request, "the connection takes no further request");
            }
        }
        Ok(())
    }

    /// Sends requests that a server refused again, on a connection that has room for them.
    #[cold]
    pub(crate) fn send_again(&mut self, index: usize) -> Result<(), LoadError> {
        let connection = &mut self.pool.connections[index];
        if connection.has_unwritten() || connection.link != SocketState::Up {
            return Ok(());
        }
        let Some(http2) = &mut connection.http2 else { return Ok(()) };
        while http2.room() > 0 {
            let Some(mut again) = self.left_out.pop_front() else { break };
            let made = self.maker.again(again.kept.clone())?;
            let Some(stream) = http2.request(made.request, made.body, false) else {
                self.left_out.push_front(again);
                break;
            };
            again.stream = stream;
            connection.in_flight.push_back(again);
            self.recorder.sent_again += 1;
        }
        self.take_turn(index)?;
        Ok(())
    }

    /// Queues a request that the server refused, to be sent again. A request that was refused too
    /// often is counted as an error.
    #[cold]
    fn take_left_out(&mut self, mut request: PendingRequest, reason: &'static str) {
        if request.left_out >= SENDS_AGAIN_MAX {
            self.recorder.lost_request(request.timed_out);
            self.recorder.errors.left_out += 1;
            self.recorder.explain(|| format!("left out {} times: {reason}", SENDS_AGAIN_MAX + 1));
            return;
        }
        request.left_out += 1;
        // Its trace would mix the steps of two sends.
        request.watch = None;
        self.left_out.push_back(request);
    }

    /// Takes a turn on an HTTP/2 connection and sends the requests that it then has room for.
    pub(crate) fn go_on(&mut self, index: usize) -> Result<(), LoadError> {
        if self.take_turn(index)? { self.advance_or_put_by(index) } else { Ok(()) }
    }

    /// Reads and writes an HTTP/2 connection as far as its socket allows. Returns false if the
    /// socket was given up.
    pub(crate) fn take_turn(&mut self, index: usize) -> Result<bool, LoadError> {
        let mut answers = std::mem::take(&mut self.answers);
        let connection = &mut self.pool.connections[index];
        let had_room = connection.has_room();
        let Some(http2) = &mut connection.http2 else { return Ok(false) };
        let was_blocked = http2.is_blocked();
        let outcome = http2.turn(&mut answers);
        let now = http2.read_at();
        self.recorder.bytes += http2.take_received_bytes();
        if !had_room && connection.has_room() {
            // Room comes by what was read, but the socket takes bytes again at any time.
            connection.free_since = if was_blocked { self.clock.now() } else { now };
        }
        self.pool.note_written(index);
        for answer in answers.drain(..) {
            self.take_stream_answer(index, answer, now)?;
        }
        self.answers = answers;
        let Err(loss) = outcome else {
            let pool = &self.pool;
            let http2 = pool.connections[index].http2.as_ref();
            let reminded = http2.map_or(Ok(()), |http2| http2.remind(&pool.poller, index));
            return reminded.map(|()| true).map_err(LoadError::system("watch a socket"));
        };
        let loss = match loss {
            DisconnectReason::Read(error) => self.read_loss(index, error),
            other => other,
        };
        self.pool.lose(index, loss, &mut self.recorder);
        Ok(false)
    }

    fn take_stream_answer(
        &mut self,
        index: usize,
        answer: Answer,
        now: Ticks,
    ) -> Result<(), LoadError> {
        let connection = &mut self.pool.connections[index];
        let stream = answer.stream;
        let place = connection.in_flight.binary_search_by_key(&stream, |request| request.stream);
        let request = place.ok().and_then(|place| connection.in_flight.remove(place));
        let Some(mut request) = request else { return Ok(()) };
        let status = match answer.status {
            Ok(status) => status,
            Err(StreamFailure::LeftOut(reason)) => {
                self.take_left_out(request, reason);
                return Ok(());
            }
            Err(StreamFailure::Reset(reason)) => {
                self.recorder.lost_request(request.timed_out);
                self.recorder.errors.read += 1;
                self.recorder.explain(|| format!("read: {reason}"));
                return Ok(());
            }
        };
        connection.proven = true;
        let captured = answer.captured.as_deref();
        let acceptance = self.maker.judge(request.operation, status, captured);
        if let Some(watch) = &mut request.watch {
            watch.first_byte = Some(answer.first_byte);
            self.note_watched(&request, now, answer.timing.as_ref());
        }
        self.recorder.answered(&request, now, status, acceptance);
        self.maker.respond(status, captured).map(drop)
    }

    /// Cancels the streams up to `last`, inclusive: their requests are far older than the timeout.
    pub(crate) fn abandon_streams(&mut self, index: usize, last: u32) -> Result<(), LoadError> {
        let connection = &mut self.pool.connections[index];
        let Some(http2) = &mut connection.http2 else { return Ok(()) };
        let now = self.clock.now();
        if http2.room() == 0 {
            connection.free_since = now;
        }
        while connection.in_flight.front().is_some_and(|request| request.stream <= last) {
            let Some(request) = connection.in_flight.pop_front() else { break };
            http2.cancel(request.stream);
            self.recorder.abandoned(&request, now);
        }
        // A server answers nothing to a cancelled stream, so no event would let it send.
        self.go_on(index)
    }

    /// Counts each request that is older than the timeout, once. Gives up those that are far older,
    /// with their socket or, in HTTP/2, with their stream.
    pub(crate) fn check_timeout(&mut self, index: usize, now: Ticks) -> Result<(), LoadError> {
        let connection = &mut self.pool.connections[index];
        if let SocketState::Connecting { since } | SocketState::Securing { since, .. } =
            connection.link
        {
            if now.since(since) > self.timeout_ticks {
                let text = "no connection within the timeout";
                let error = io::Error::new(io::ErrorKind::TimedOut, text);
                self.pool.lose(index, DisconnectReason::Connect(error), &mut self.recorder);
            }
            return Ok(());
        }
        let (mut late, mut lost) = (0, None);
        for request in &mut connection.in_flight {
            let age = now.since(request.sent);
            if age <= self.timeout_ticks {
                break;
            }
            late += u64::from(!request.timed_out);
            request.timed_out = true;
            if age > self.timeout_ticks.saturating_mul(ABANDON_AFTER_TIMEOUTS) {
                lost = Some(request.stream);
            }
            if connection.http2.is_none() {
                break;
            }
        }
        if late > 0 {
            self.recorder.errors.timeout += late;
            self.recorder.errors.failed_requests += late;
            self.recorder.explain(|| "timeout: no answer within the timeout".to_owned());
        }
        match lost {
            Some(0) => self.pool.lose(index, DisconnectReason::Abandoned, &mut self.recorder),
            Some(stream) => self.abandon_streams(index, stream)?,
            None => {}
        }
        Ok(())
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests;

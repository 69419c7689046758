//! Requests out, answers in: what a thread does when a connection can go on.

use std::cmp::Reverse;
use std::io;

use pellucid_clock::Ticks;

use crate::connection::{InFlight, Link};
use crate::error::LoadError;
use crate::loss::Loss;
use crate::poller::Readiness;
use crate::source::Acceptance;
use crate::watch::insert_headers;
use crate::worker::{Requests, Worker};
use pellucid_client::http::{Malformed, Parsed, Response, ServerTiming};

/// A request that timed out is waited for until it is this many times as old as the timeout, so
/// that its latency is recorded in full if it is answered at all.
const ABANDON_AFTER_TIMEOUTS: u64 = 5;
/// The longest pause between two sends that a script can ask for.
const LONGEST_DELAY_MS: f64 = 24.0 * 3_600_000.0;

impl Worker {
    /// Does what an event makes possible.
    pub(crate) fn handle(&mut self, readiness: Readiness) -> Result<(), LoadError> {
        let index = readiness.token;
        let mut readable = readiness.readable;
        match self.connections[index].link {
            Link::Up => {
                if let Some(http2) = &self.connections[index].http2 {
                    if readable {
                        http2.note_readable(readiness.ended);
                    }
                    return self.go_on(index);
                }
                if readiness.writable && self.connections[index].has_unwritten() {
                    self.flush(index);
                }
            }
            Link::Connecting { .. } if !readiness.writable => return Ok(()),
            Link::Connecting { .. } | Link::Securing { .. } => {
                if !self.finish_opening(index) {
                    return Ok(());
                }
                // Beside the end of a handshake there may be the beginning of an answer, of which
                // no further event will tell.
                readable |= self.work.opening.tls.is_some();
                if self.connections[index].http2.is_some() {
                    return self.go_on(index);
                }
                self.advance(index)?;
            }
            Link::Down { .. } => return Ok(()),
        }
        if readable && self.connections[index].link == Link::Up {
            self.receive(index, readiness.ended)?;
        }
        Ok(())
    }

    /// Sends on a connection what may be sent on it now.
    #[inline]
    pub(crate) fn advance(&mut self, index: usize) -> Result<(), LoadError> {
        if !self.running {
            return Ok(());
        }
        if !self.left_out.is_empty() {
            self.send_again(index)?;
        }
        if !self.work.keep_alive {
            let pending = self.connections[index].pending.take();
            return pending.map_or(Ok(()), |intended| self.send(index, 1, Some(intended)));
        }
        if self.schedule.is_none() {
            return self.advance_unpaced(index);
        }
        self.queue(index);
        let now = self.clock.now();
        self.send_next(now).map(|_| ())
    }

    /// Puts a connection that can take a request into the queue of those.
    #[inline]
    pub(crate) fn queue(&mut self, index: usize) {
        let index = self.first_of(index);
        if !self.connections[index].queued && self.has_room(index) {
            self.connections[index].queued = true;
            self.free.push_back(index);
        }
    }

    /// With a rate: begins the next request, if it is due and a connection is free.
    #[inline]
    pub(crate) fn send_next(&mut self, now: Ticks) -> Result<bool, LoadError> {
        let Some(schedule) = &self.schedule else { return Ok(false) };
        let due = schedule.next();
        if due > now || due >= self.deadline || self.quota_left == 0 {
            return Ok(false);
        }
        let Some(index) = self.take_free() else { return Ok(false) };
        if let Some(schedule) = &mut self.schedule {
            schedule.advance();
        }
        self.begin_request(index, due)?;
        Ok(true)
    }

    /// Begins the request that was meant to start at `intended` on a connection that is free.
    #[inline]
    pub(crate) fn begin_request(&mut self, index: usize, intended: Ticks) -> Result<(), LoadError> {
        if self.work.keep_alive {
            return self.send(index, 1, Some(intended));
        }
        let connection = &mut self.connections[index];
        if self.schedule.is_some() {
            self.recorder.begun(intended, connection.free_since, self.clock.now());
        }
        connection.pending = Some(intended);
        self.open(index);
        Ok(())
    }

    /// Has the connection go on now, or when all answers of the wake-up are read.
    #[inline]
    pub(crate) fn advance_or_put_by(&mut self, index: usize) -> Result<(), LoadError> {
        if !self.is_putting_by {
            return self.advance(index);
        }
        self.put_by.push(index);
        Ok(())
    }

    fn advance_unpaced(&mut self, index: usize) -> Result<(), LoadError> {
        let index = self.first_of(index);
        let is_idle = match &self.work.directions {
            None => self.connections[index].is_idle(),
            Some(_) => self.has_room(index),
        };
        let Some(script) = self.work.script.as_mut().filter(|script| script.has_delay()) else {
            return self.fill(index);
        };
        let connection = &mut self.connections[index];
        if is_idle && !connection.delayed {
            let delay_ms = script.delay_ms()?.clamp(0.0, LONGEST_DELAY_MS);
            let delay_ticks = self.clock.ticks((delay_ms * 1e6) as u64);
            connection.delayed = true;
            self.delays.push(Reverse((Ticks(self.clock.now().0 + delay_ticks), index)));
        }
        Ok(())
    }

    /// Without a rate: fills the pipeline of a connection.
    pub(crate) fn fill(&mut self, index: usize) -> Result<(), LoadError> {
        if !self.is_in_use(index) {
            return Ok(());
        }
        if self.work.directions.is_some() {
            return if self.has_room(index) { self.send_direct(index, None) } else { Ok(()) };
        }
        let connection = &self.connections[index];
        let limit = self.work.depth * self.work.requests_per_send;
        if connection.link != Link::Up || connection.has_unwritten() {
            return Ok(());
        }
        let sends = match &connection.http2 {
            Some(http2) => http2.room(),
            None => (limit - connection.in_flight.len().min(limit)) / self.work.requests_per_send,
        };
        if sends > 0 { self.send(index, sends, None) } else { Ok(()) }
    }

    /// Makes and sends requests; with `intended`, they were meant to start then.
    fn send(
        &mut self,
        index: usize,
        sends: usize,
        intended: Option<Ticks>,
    ) -> Result<(), LoadError> {
        if self.work.directions.is_some() {
            return self.send_direct(index, intended);
        }
        let allowed = usize::try_from(self.quota_left).unwrap_or(usize::MAX);
        let batch = self.work.requests_per_send;
        let sends = sends.min(allowed.div_ceil(batch));
        if sends == 0 {
            return Ok(());
        }
        self.quota_left = self.quota_left.saturating_sub((sends * batch) as u64);
        let connection = &mut self.connections[index];
        if !connection.has_unwritten() {
            connection.out.clear();
            connection.written = 0;
        }
        let is_http2 = connection.http2.is_some();
        for _ in 0..sends {
            let watched = self.watcher.picks();
            match is_http2 {
                true => self.make_stream(index, intended, watched)?,
                false => self.make_request(index, watched)?,
            }
        }
        let sent = self.clock.now();
        let connection = &mut self.connections[index];
        for request in connection.in_flight.iter_mut().rev().take(sends * batch) {
            request.sent = sent;
            request.intended = intended.unwrap_or(sent);
        }
        if let (Some(intended), true) = (intended, self.schedule.is_some()) {
            for _ in 0..batch {
                self.recorder.sent(intended, sent);
                if self.work.keep_alive {
                    self.recorder.begun(intended, connection.free_since, sent);
                }
            }
        }
        if !is_http2 {
            self.write_new(index, sends);
            self.note_written(index);
            return Ok(());
        }
        self.take_turn(index)?;
        self.note_written(index);
        if self.schedule.is_some() {
            self.queue(index);
        }
        Ok(())
    }

    /// Makes a request of HTTP/1.1, or several that go out at once.
    #[inline]
    fn make_request(&mut self, index: usize, watched: bool) -> Result<(), LoadError> {
        let connection = &mut self.connections[index];
        let begin = connection.out.len();
        let mut operation = 0;
        let bodiless = match &mut self.work.requests {
            Requests::Fixed { bodiless, .. } => *bodiless,
            Requests::FixedStream { .. } => unreachable!("a stream is of HTTP/2"),
            Requests::Source(source) => {
                source.next(&mut connection.out);
                operation = source.operation() as u16;
                connection.out[begin..].starts_with(b"HEAD ")
            }
            Requests::Script => {
                if let Some(script) = &mut self.work.script {
                    script.request(&mut connection.out)?;
                }
                connection.out[begin..].starts_with(b"HEAD ")
            }
        };
        for _ in 0..self.work.requests_per_send {
            let request = InFlight { bodiless, operation, ..InFlight::default() };
            connection.in_flight.push_back(request);
        }
        if watched && self.work.requests_per_send == 1 && self.work.depth == 1 {
            self.watch(index, begin);
        }
        Ok(())
    }

    /// Begins to watch the request that was made last, whose bytes begin at `begin`.
    #[cold]
    pub(crate) fn watch(&mut self, index: usize, begin: usize) {
        let connection = &mut self.connections[index];
        let opened = (!self.work.keep_alive).then_some(connection.opened);
        let watch = self.watcher.watch(connection.free_since, opened);
        if self.watcher.asks() {
            match &self.work.requests {
                Requests::Fixed { bytes, .. } if connection.out.len() == begin => {
                    connection.out.extend_from_slice(bytes);
                }
                _ => {}
            }
            insert_headers(watch.trace_id, &mut connection.out, begin);
        }
        if let Some(request) = connection.in_flight.back_mut() {
            request.watch = Some(watch);
        }
    }

    /// Notes when the last watched request was written.
    #[inline]
    fn note_written(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Some(request) = connection.in_flight.back_mut() else { return };
        let Some(watch) = &mut request.watch else { return };
        let is_blocked = connection.http2.as_ref().is_some_and(|http2| http2.is_blocked());
        if watch.written.is_none() && connection.written >= connection.out.len() && !is_blocked {
            watch.written = Some(self.clock.now());
        }
    }

    /// Writes what was just made; fixed bytes are written from where they are.
    #[inline]
    fn write_new(&mut self, index: usize, sends: usize) {
        let Requests::Fixed { bytes, .. } = &self.work.requests else {
            return self.flush(index);
        };
        let connection = &mut self.connections[index];
        // A watched request has been made already, because it differs.
        let made = usize::from(!connection.out.is_empty());
        if sends + made > 1 {
            (made..sends).for_each(|_| connection.out.extend_from_slice(bytes));
            return self.flush(index);
        }
        let Some(stream) = &mut connection.stream else { return };
        let written = match stream.write(bytes) {
            Ok(count) if count == bytes.len() => return,
            Ok(count) => count,
            Err(error) if is_temporary(&error) => 0,
            Err(error) => return self.lose(index, Loss::Write(error)),
        };
        connection.out.extend_from_slice(&bytes[written..]);
        self.flush(index);
    }

    pub(crate) fn flush(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Some(stream) = &mut connection.stream else { return };
        if stream.holds_unwritten()
            && let Err(error) = stream.flush()
        {
            return self.lose(index, Loss::Write(error));
        }
        while connection.written < connection.out.len() {
            match stream.write(&connection.out[connection.written..]) {
                Ok(count) => connection.written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.lose(index, Loss::Write(error)),
            }
        }
        self.note_written(index);
    }

    /// Reads what has arrived. Edge-triggered events come once, so it reads until nothing is left;
    /// a short read says so without another call, unless the end of the connection follows.
    fn receive(&mut self, index: usize, ended: bool) -> Result<(), LoadError> {
        loop {
            let Some(stream) = &mut self.connections[index].stream else { return Ok(()) };
            let drained = stream.is_plain();
            match stream.read(&mut self.buffer) {
                Ok(0) => {
                    self.take_end(index)?;
                    return Ok(());
                }
                Ok(count) => {
                    let now = self.clock.now();
                    self.recorder.bytes += count as u64;
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
                    self.lose(index, loss);
                    return Ok(());
                }
            }
        }
    }

    /// A reset between requests is an end like any other.
    pub(crate) fn read_loss(&self, index: usize, error: io::Error) -> Loss {
        if self.connections[index].in_flight.is_empty() { Loss::Ended } else { Loss::Read(error) }
    }

    /// Takes the answers out of the first `count` bytes of the buffer; false if the socket is gone.
    fn take_bytes(&mut self, index: usize, count: usize, now: Ticks) -> Result<bool, LoadError> {
        let mut at = 0;
        while at < count {
            let connection = &mut self.connections[index];
            let Some(request) = connection.in_flight.front_mut() else {
                self.lose(index, Loss::Malformed(Malformed::Unasked));
                return Ok(false);
            };
            if let Some(watch) = &mut request.watch
                && watch.first_byte.is_none()
            {
                watch.first_byte = Some(now);
                connection.parser.look_for_timing();
            }
            match connection.parser.parse(&self.buffer[at..count], request.bodiless) {
                Ok(Parsed::More) => return Ok(true),
                Ok(Parsed::Complete { consumed, response }) => {
                    at += consumed;
                    if !self.take_answer(index, response, now)? {
                        return Ok(false);
                    }
                }
                Err(malformed) => {
                    self.lose(index, Loss::Malformed(malformed));
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Notes an answer; false if its connection ends with it.
    fn take_answer(
        &mut self,
        index: usize,
        answer: Response,
        now: Ticks,
    ) -> Result<bool, LoadError> {
        let connection = &mut self.connections[index];
        connection.free_since = now;
        if let Some(request) = connection.in_flight.pop_front() {
            let acceptance = match &mut self.work.requests {
                Requests::Source(source) if self.work.checks => {
                    let (operation, kept) = (request.operation, connection.parser.captured());
                    source.check(usize::from(operation), answer.status, kept)
                }
                _ => Acceptance::ByStatus,
            };
            if request.watch.is_some() {
                let timing = connection.parser.take_timing();
                self.note_watched(&request, now, timing.as_ref());
            }
            self.note_answer(&request, now, answer.status, acceptance);
        }
        let connection = &mut self.connections[index];
        connection.proven = true;
        if let (Some(script), Some(captured)) =
            (&mut self.work.script, connection.parser.captured())
        {
            script.response(answer.status, captured)?;
            connection.parser.forget_captured();
        }
        if self.work.wants_answers {
            connection.parser.forget_captured();
        }
        let goes_on = answer.keep_alive && self.work.keep_alive;
        if !goes_on {
            self.lose(index, Loss::Ended);
        }
        Ok(goes_on)
    }

    /// Notes an answer that was judged.
    #[inline]
    pub(crate) fn note_answer(
        &mut self,
        request: &InFlight,
        now: Ticks,
        status: u16,
        acceptance: Acceptance,
    ) {
        self.recorder.answered(request, now, status, acceptance);
        if acceptance == Acceptance::Failed {
            self.recorder.explain(|| format!("check failed on an answer of status {status}"));
        }
    }

    /// Notes the way of a watched request.
    #[cold]
    pub(crate) fn note_watched(
        &mut self,
        request: &InFlight,
        now: Ticks,
        told: Option<&ServerTiming>,
    ) {
        let Some(watch) = &request.watch else { return };
        let told = self.recorder.watched(request, watch, now, told);
        self.watcher.heard(told);
    }

    /// The other side has ended the connection.
    fn take_end(&mut self, index: usize) -> Result<(), LoadError> {
        match self.connections[index].parser.end() {
            Ok(Some(response)) => {
                let now = self.clock.now();
                self.take_answer(index, response, now)?;
            }
            Ok(None) if self.connections[index].in_flight.is_empty() => {
                self.lose(index, Loss::Ended);
            }
            Ok(None) => {
                let kind = io::ErrorKind::UnexpectedEof;
                let text = "the connection ended before the answer";
                self.lose(index, Loss::Read(io::Error::new(kind, text)));
            }
            Err(malformed) => self.lose(index, Loss::Malformed(malformed)),
        }
        Ok(())
    }

    /// Counts requests that are too old, each once, and gives up what is far too old: its socket,
    /// or in HTTP/2 its stream.
    pub(crate) fn check_timeout(&mut self, index: usize, now: Ticks) -> Result<(), LoadError> {
        let connection = &mut self.connections[index];
        if let Link::Connecting { since } | Link::Securing { since, .. } = connection.link {
            if now.since(since) > self.timeout_ticks {
                let text = "no connection within the timeout";
                let error = io::Error::new(io::ErrorKind::TimedOut, text);
                self.lose(index, Loss::Connect(error));
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
            self.recorder.explain(|| "timeout: no answer within the timeout".to_owned());
        }
        match lost {
            Some(0) => self.lose(index, Loss::Abandoned),
            Some(stream) => self.abandon_streams(index, stream)?,
            None => {}
        }
        Ok(())
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

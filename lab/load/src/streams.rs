//! Requests and answers of HTTP/2: several at once on a connection.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use pellucid_clock::Ticks;

use crate::connection::InFlight;
use crate::connection::Link;
use crate::error::LoadError;
use crate::http2::{Answer, Unanswered, request};
use crate::loss::Loss;
use crate::source::Acceptance;
use crate::watch::traceparent;
use crate::worker::{Requests, Worker};

/// How often a request is sent again that the server has left out: one that leaves out everything
/// must not keep the run busy for ever.
const SENDS_AGAIN_MAX: u8 = 3;
/// The headers of a watched request.
const WATCHED: [&str; 2] = ["traceparent", "prefer"];

impl Worker {
    /// Makes a request on a stream of its own.
    pub(crate) fn make_stream(
        &mut self,
        index: usize,
        intended: Option<Ticks>,
        watched: bool,
    ) -> Result<(), LoadError> {
        let connection = &mut self.connections[index];
        let watch = watched.then(|| self.watcher.watch(connection.free_since, None));
        let trace_id = watch.as_ref().filter(|_| self.watcher.asks()).map(|watch| watch.trace_id);
        let (mut operation, mut kept) = (0, None);
        let (mut request, body) = match &mut self.work.requests {
            Requests::FixedStream { request, body } => (request.clone(), body.clone()),
            made => {
                self.request_bytes.clear();
                match made {
                    Requests::Source(source) => {
                        source.next(&mut self.request_bytes);
                        operation = source.operation() as u16;
                    }
                    _ => {
                        if let Some(script) = &mut self.work.script {
                            script.request(&mut self.request_bytes)?;
                        }
                    }
                }
                let is_tls = self.work.opening.tls.is_some();
                let (request, body_at) = request::parse(&self.request_bytes, is_tls)?;
                let bytes = Bytes::copy_from_slice(&self.request_bytes);
                let body = bytes.slice(body_at..);
                kept = Some(bytes);
                (request, body)
            }
        };
        // A watched request that has such headers of its own is left as it is.
        let has_own = |headers: &HeaderMap| WATCHED.iter().any(|name| headers.contains_key(*name));
        if let Some(trace_id) = trace_id.filter(|_| !has_own(request.headers())) {
            let trace = HeaderValue::try_from(traceparent(trace_id));
            let headers = request.headers_mut();
            headers.insert("prefer", HeaderValue::from_static("timing"));
            headers.extend(trace.map(|trace| (HeaderName::from_static("traceparent"), trace)));
        }
        let Some(http2) = &mut connection.http2 else { return Ok(()) };
        let made = InFlight { operation, watch, kept, ..InFlight::default() };
        match http2.request(request, body, watched) {
            Some(stream) => connection.in_flight.push_back(InFlight { stream, ..made }),
            None => {
                let sent = self.clock.now();
                let intended = intended.unwrap_or(sent);
                let request = InFlight { sent, intended, ..made };
                self.take_left_out(request, "the connection takes no further request");
            }
        }
        Ok(())
    }

    /// Sends requests that a server has left out on a connection that has room for them.
    #[cold]
    pub(crate) fn send_again(&mut self, index: usize) -> Result<(), LoadError> {
        let connection = &mut self.connections[index];
        if connection.has_unwritten() || connection.link != Link::Up {
            return Ok(());
        }
        let Some(http2) = &mut connection.http2 else { return Ok(()) };
        while http2.room() > 0 {
            let Some(mut again) = self.left_out.pop_front() else { break };
            let (request, body) = match (&again.kept, &self.work.requests) {
                (Some(kept), _) => {
                    let is_tls = self.work.opening.tls.is_some();
                    let (request, body_at) = request::parse(kept, is_tls)?;
                    (request, kept.slice(body_at..))
                }
                (None, Requests::FixedStream { request, body }) => (request.clone(), body.clone()),
                (None, _) => unreachable!("a request that was made is kept"),
            };
            let Some(stream) = http2.request(request, body, false) else {
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

    /// The server has left a request out; it is sent again, unless that was tried often enough.
    #[cold]
    fn take_left_out(&mut self, mut request: InFlight, reason: &'static str) {
        if request.left_out >= SENDS_AGAIN_MAX {
            self.recorder.failed += 1;
            self.recorder.errors.left_out += 1;
            self.recorder.explain(|| format!("left out {} times: {reason}", SENDS_AGAIN_MAX + 1));
            return;
        }
        request.left_out += 1;
        // Its way would be that of two requests.
        request.watch = None;
        self.left_out.push_back(request);
    }

    /// Has a connection go on, and uses what has become free.
    pub(crate) fn go_on(&mut self, index: usize) -> Result<(), LoadError> {
        if self.take_turn(index)? { self.advance_or_put_by(index) } else { Ok(()) }
    }

    /// Reads and writes a connection as far as that goes; false if the socket is gone.
    pub(crate) fn take_turn(&mut self, index: usize) -> Result<bool, LoadError> {
        let mut answers = std::mem::take(&mut self.answers);
        let Some(http2) = &mut self.connections[index].http2 else { return Ok(false) };
        let outcome = http2.turn(&mut answers);
        let now = http2.read_at();
        self.recorder.bytes += http2.take_received_bytes();
        for answer in answers.drain(..) {
            self.take_stream_answer(index, answer, now)?;
        }
        self.answers = answers;
        let Err(loss) = outcome else { return Ok(true) };
        let loss = match loss {
            Loss::Read(error) => self.read_loss(index, error),
            other => other,
        };
        self.lose(index, loss);
        Ok(false)
    }

    fn take_stream_answer(
        &mut self,
        index: usize,
        answer: Answer,
        now: Ticks,
    ) -> Result<(), LoadError> {
        let connection = &mut self.connections[index];
        let stream = answer.stream;
        let place = connection.in_flight.binary_search_by_key(&stream, |request| request.stream);
        let request = place.ok().and_then(|place| connection.in_flight.remove(place));
        let Some(mut request) = request else { return Ok(()) };
        if connection.in_flight.len() + 1 == self.work.depth {
            connection.free_since = now;
        }
        let status = match answer.status {
            Ok(status) => status,
            Err(Unanswered::LeftOut(reason)) => {
                self.take_left_out(request, reason);
                return Ok(());
            }
            Err(Unanswered::Reset(reason)) => {
                self.recorder.failed += 1;
                self.recorder.errors.read += 1;
                self.recorder.explain(|| format!("read: {reason}"));
                return Ok(());
            }
        };
        connection.proven = true;
        let captured = answer.captured.as_deref();
        let acceptance = match &mut self.work.requests {
            Requests::Source(source) if self.work.checks => {
                source.check(usize::from(request.operation), status, captured)
            }
            _ => Acceptance::ByStatus,
        };
        if let Some(watch) = &mut request.watch {
            watch.first_byte = Some(answer.first_byte);
            self.note_watched(&request, now, answer.timing.as_ref());
        }
        self.note_answer(&request, now, status, acceptance);
        if let (Some(script), Some(captured)) = (&mut self.work.script, captured) {
            script.response(status, captured)?;
        }
        Ok(())
    }

    /// Takes back the streams up to and with `last`, whose requests are far beyond the timeout.
    pub(crate) fn abandon_streams(&mut self, index: usize, last: u32) -> Result<(), LoadError> {
        let connection = &mut self.connections[index];
        let Some(http2) = &mut connection.http2 else { return Ok(()) };
        while let Some(request) = connection.in_flight.front().filter(|r| r.stream <= last) {
            http2.cancel(request.stream);
            connection.in_flight.pop_front();
            self.recorder.failed += 1;
        }
        self.take_turn(index)?;
        self.queue(index);
        Ok(())
    }
}

//! Requests and answers of HTTP/2: several at once on a connection.

use pellucid_clock::Ticks;

use crate::connection::InFlight;
use crate::connection::Link;
use crate::error::LoadError;
use crate::http2::{Answer, Unanswered, request};
use crate::opening::Loss;
use crate::source::Acceptance;
use crate::watch::{has_own_headers, traceparent};
use crate::worker::{Requests, Worker};

/// How often a request is sent again that the server has left out: one that leaves out everything
/// must not keep the run busy for ever.
const SENDS_AGAIN_MAX: u8 = 3;

impl Worker {
    /// Makes a request on a stream of its own.
    pub(crate) fn make_stream(&mut self, index: usize, watched: bool) -> Result<(), LoadError> {
        let connection = &mut self.connections[index];
        let watch = watched.then(|| self.watcher.watch(connection.free_since, None));
        let trace_id = watch.as_ref().filter(|_| self.watcher.asks()).map(|watch| watch.trace_id);
        let mut operation = 0;
        let is_made = !matches!(self.work.requests, Requests::FixedBlock { .. });
        self.block.clear();
        let body = match &mut self.work.requests {
            Requests::FixedBlock { block, body } => {
                self.block.extend_from_slice(block);
                &body[..]
            }
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
                let begin = request::encode(&self.request_bytes, is_tls, &mut self.block);
                let begin = begin.map_err(|reason| {
                    LoadError::Script(format!("a request that is not HTTP: {reason}"))
                })?;
                &self.request_bytes[begin..]
            }
        };
        // Only a watched request is looked through for headers of its own.
        let is_ours = |_: &u128| !is_made || !has_own_headers(&self.request_bytes);
        if let Some(trace_id) = trace_id.filter(is_ours) {
            request::add_header(b"prefer", b"timing", &mut self.block);
            request::add_header(b"traceparent", &traceparent(trace_id), &mut self.block);
        }
        let Some(http2) = &mut connection.http2 else { return Ok(()) };
        let stream = http2.request(&self.block, body, watched, &mut connection.out);
        let kept = is_made.then(|| {
            let mut kept = self.spare.pop().unwrap_or_default();
            kept.block.clone_from(&self.block);
            kept.body.clear();
            kept.body.extend_from_slice(body);
            kept
        });
        let request = InFlight { operation, stream, watch, kept, ..InFlight::default() };
        connection.in_flight.push_back(request);
        Ok(())
    }

    /// Sends requests that a server has left out on a connection that has room for them.
    #[cold]
    pub(crate) fn send_again(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.has_unwritten() || connection.link != Link::Up {
            return;
        }
        connection.out.clear();
        connection.written = 0;
        let Some(http2) = &mut connection.http2 else { return };
        while http2.room() > 0 {
            let Some(mut request) = self.left_out.pop_front() else { break };
            let (block, body) = match (&request.kept, &self.work.requests) {
                (Some(kept), _) => (&kept.block, &kept.body),
                (None, Requests::FixedBlock { block, body }) => (block, body),
                (None, _) => unreachable!("a request that was made is kept"),
            };
            request.stream = http2.request(block, body, false, &mut connection.out);
            connection.in_flight.push_back(request);
            self.recorder.sent_again += 1;
        }
        self.flush(index);
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

    /// Takes the answers out of the first `count` bytes of the buffer; false if the socket is gone.
    pub(crate) fn take_frames(
        &mut self,
        index: usize,
        count: usize,
        now: Ticks,
    ) -> Result<bool, LoadError> {
        let mut answers = std::mem::take(&mut self.answers);
        let connection = &mut self.connections[index];
        let Some(http2) = &mut connection.http2 else { return Ok(false) };
        if connection.written == connection.out.len() {
            connection.out.clear();
            connection.written = 0;
        }
        let input = &self.buffer[..count];
        let outcome = http2.receive(input, now, &mut connection.out, &mut answers);
        for answer in answers.drain(..) {
            self.take_stream_answer(index, answer, now)?;
        }
        self.answers = answers;
        if let Err(malformed) = outcome {
            self.lose(index, Loss::Malformed(malformed));
            return Ok(false);
        }
        if self.connections[index].has_unwritten() {
            self.flush(index);
        }
        let is_over = self.connections[index].http2.as_ref().is_none_or(|http2| http2.is_over());
        if is_over {
            self.lose(index, Loss::Ended);
        }
        Ok(!is_over)
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
        if let Some(kept) = request.kept.take().filter(|_| self.spare.len() < self.work.depth) {
            self.spare.push(kept);
        }
        if let (Some(script), Some(captured)) = (&mut self.work.script, captured) {
            script.response(status, captured)?;
        }
        Ok(())
    }

    /// Takes back the streams up to and with `last`, whose requests are far beyond the timeout.
    pub(crate) fn abandon_streams(&mut self, index: usize, last: u32) {
        let connection = &mut self.connections[index];
        let Some(http2) = &mut connection.http2 else { return };
        while let Some(request) = connection.in_flight.front().filter(|r| r.stream <= last) {
            http2.cancel(request.stream, &mut connection.out);
            connection.in_flight.pop_front();
            self.recorder.failed += 1;
        }
        self.flush(index);
        self.queue(index);
    }
}

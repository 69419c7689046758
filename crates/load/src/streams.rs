//! Requests and answers of HTTP/2: several at once on a connection.

use pellucid_clock::Ticks;

use crate::connection::InFlight;
use crate::error::LoadError;
use crate::http2::{Answer, request};
use crate::opening::Loss;
use crate::source::Acceptance;
use crate::watch::traceparent;
use crate::worker::{Requests, Worker};

impl Worker {
    /// Makes a request on a stream of its own.
    pub(crate) fn make_stream(&mut self, index: usize, watched: bool) -> Result<(), LoadError> {
        let connection = &mut self.connections[index];
        let watch = watched.then(|| self.watcher.watch(connection.free_since, None));
        let trace_id = watch.as_ref().filter(|_| self.watcher.asks()).map(|watch| watch.trace_id);
        let mut operation = 0;
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
        if let Some(trace_id) = trace_id {
            request::add_header(b"prefer", b"timing", &mut self.block);
            request::add_header(b"traceparent", &traceparent(trace_id), &mut self.block);
        }
        let Some(http2) = &mut connection.http2 else { return Ok(()) };
        let stream = http2.request(&self.block, body, watched, &mut connection.out);
        let request = InFlight { operation, stream, watch, ..InFlight::default() };
        connection.in_flight.push_back(request);
        Ok(())
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
            Err(reason) => {
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
            self.note_watched(&request, now, answer.timing.as_deref());
        }
        self.note_answer(&request, now, status, acceptance);
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

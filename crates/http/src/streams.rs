//! Responses that go out piece by piece, and the last bytes of connections that are closed.

use std::io::ErrorKind;
use std::net::Shutdown;
use std::sync::atomic::Ordering;

use pellucid_account::{Phase, Stamp, TransportPart};
use pellucid_thread::{set_operation, set_phase};

use crate::connection::{Connection, Stage, Streaming};
use crate::event_loop::{EventLoop, Fate, Step};
use crate::failures::fill as fill_contained;
use crate::limits::LINGER_BYTES_MAX;
use crate::response::Streamed;
use crate::service::{Filled, Service};
use crate::socket::receive;

/// Room for a chunk's size: eight hexadecimal digits and the line end.
const CHUNK_HEAD: &[u8; 10] = b"00000000\r\n";

impl<S: Service> EventLoop<S> {
    /// Sends the next piece of a streamed response.
    pub(crate) fn pump(&mut self, connection: &mut Connection) -> Step {
        let stage = std::mem::replace(&mut connection.stage, Stage::Serving);
        let Stage::Streaming(streaming) = stage else {
            connection.stage = stage;
            return Step::Blocked;
        };
        self.with_out(|this, out| this.pump_piece(connection, streaming, out))
    }

    fn pump_piece(
        &mut self,
        connection: &mut Connection,
        mut streaming: Box<Streaming>,
        out: &mut Vec<u8>,
    ) -> Step {
        set_operation(streaming.facts.operation + 1);
        set_phase(Phase::Encode.label());
        let filled = fill(&mut streaming, out);
        let sent_bytes = u32::try_from(out.len()).unwrap_or(u32::MAX);
        streaming.facts.response_bytes = streaming.facts.response_bytes.saturating_add(sent_bytes);
        match filled {
            Filled::More | Filled::Waiting => connection.stage = Stage::Streaming(streaming),
            Filled::Last => self.end_stream(connection, *streaming, out.len()),
            Filled::Broken => {
                connection.stage = Stage::Streaming(streaming);
                let _ = self.flush(connection, out);
                return Step::Over;
            }
        }
        match self.flush(connection, out) {
            Fate::Drop => Step::Over,
            Fate::Keep if filled == Filled::Waiting => Step::Blocked,
            Fate::Keep if connection.output.is_empty() => Step::Again,
            Fate::Keep => Step::Blocked,
        }
    }

    fn end_stream(&mut self, connection: &mut Connection, streaming: Streaming, end: usize) {
        self.shared.requests_in_flight.fetch_sub(1, Ordering::Relaxed);
        let Streaming { source, mut timeline, facts, keep_alive, .. } = streaming;
        timeline.set_transport_part(TransportPart::Compress, source.compress_ticks());
        timeline.stamp(Stamp::Encoded);
        let record = self.recorder.seal(&timeline, facts);
        self.finish(connection, record, end);
        if !keep_alive {
            self.close_after_response(connection);
        }
    }

    pub(crate) fn begin_linger(&mut self, connection: &mut Connection) {
        if let Some(tls) = &mut connection.tls {
            tls.close(&connection.socket);
        }
        let _ = connection.socket.shutdown(Shutdown::Write);
        connection.progress_at = self.clock.now();
        connection.stage = Stage::Lingering { left_bytes: LINGER_BYTES_MAX };
    }

    /// Throws away what the client goes on sending.
    pub(crate) fn linger(&mut self, connection: &mut Connection) -> Step {
        let Stage::Lingering { left_bytes } = &mut connection.stage else { return Step::Blocked };
        match self.with_scratch(|_, scratch| receive(&connection.socket, scratch)) {
            Ok(0) => Step::Over,
            Ok(count) if count >= *left_bytes => Step::Over,
            Ok(count) => {
                *left_bytes -= count;
                Step::Again
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Step::Blocked,
            Err(error) if error.kind() == ErrorKind::Interrupted => Step::Again,
            Err(_) => Step::Over,
        }
    }
}

/// Has the source fill `out`, framed as the response's head said.
fn fill(streaming: &mut Streaming, out: &mut Vec<u8>) -> Filled {
    if streaming.framing != Streamed::Chunked {
        return fill_contained(&mut *streaming.source, out);
    }
    let begin = out.len();
    out.extend_from_slice(CHUNK_HEAD);
    let filled = fill_contained(&mut *streaming.source, out);
    let size_bytes = out.len() - begin - CHUNK_HEAD.len();
    if size_bytes == 0 {
        // A chunk of size zero would end the body.
        out.truncate(begin);
    } else {
        let digits = format!("{size_bytes:08X}");
        assert_eq!(digits.len(), 8, "a piece is far below 4 GiB");
        out[begin..begin + 8].copy_from_slice(digits.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if filled == Filled::Last {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    filled
}

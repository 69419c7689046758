//! From the socket to whole requests: the part of the event loop that reads.

use std::io::{self, ErrorKind};

use pellucid_account::Phase;
use pellucid_clock::Ticks;

use crate::connection::{Closing, Connection, Stage};
use crate::event_loop::{EventLoop, Fate, Step, Turn};
use crate::service::Service;
use crate::socket::{Received, receive_some};

impl<S: Service> EventLoop<S> {
    /// Reads what there is, and answers every whole request in it.
    pub(crate) fn serve(&mut self, slot: usize, connection: &mut Connection, woke: Ticks) -> Step {
        let attended = self.last;
        let mut turn = Turn::at(woke, attended);
        if !connection.input.is_empty() && connection.input.len() >= connection.wanted_bytes {
            let input = std::mem::take(&mut connection.input);
            let used = self.process(slot, connection, &input, turn);
            connection.put_back(input, used);
            if used > 0 {
                return Step::Again;
            }
        }
        if connection.is_drained {
            return Step::Blocked;
        }
        let early = std::mem::take(&mut connection.early);
        pellucid_thread::resume_request(Phase::Receive.label(), early);
        let read = self.with_scratch(|this, scratch| {
            let read = this.read(connection, scratch);
            turn.received = this.read_clock();
            match read {
                Ok(Received::Bytes { count, .. }) => {
                    this.digest(slot, connection, &scratch[..count], turn);
                }
                Ok(Received::NotTls) => this.refuse_plain(connection, turn),
                _ => {}
            }
            read
        });
        connection.early = pellucid_thread::suspend_request();
        self.after_read(connection, read, woke)
    }

    pub(crate) fn read(
        &mut self,
        connection: &mut Connection,
        plain: &mut [u8],
    ) -> io::Result<Received> {
        let Some(tls) = &mut connection.tls else { return receive_some(&connection.socket, plain) };
        let meter = &self.shared.tls[self.index];
        tls.receive(&connection.socket, &mut self.wire, plain, meter, &self.clock)
    }

    /// Parses what was read, where it stands if nothing precedes it.
    pub(crate) fn digest(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        bytes: &[u8],
        turn: Turn,
    ) {
        if connection.input.is_empty() {
            let used = self.process(slot, connection, bytes, turn);
            self.take_in(connection, &bytes[used..], turn);
            return;
        }
        self.take_in(connection, bytes, turn);
        if connection.input.len() >= connection.wanted_bytes {
            let input = std::mem::take(&mut connection.input);
            let used = self.process(slot, connection, &input, turn);
            connection.put_back(input, used);
        }
    }

    /// Adds to what is not parsed yet. Where it is a body, it takes memory for it, and is refused
    /// if there is none.
    fn take_in(&mut self, connection: &mut Connection, bytes: &[u8], turn: Turn) {
        if let Some(body) = &mut connection.body
            && connection.chunked.is_none()
        {
            body.note_arrived(bytes.len(), 1, &self.clock, turn.woke);
            let end = Some(connection.wanted_bytes);
            if let Err(refusal) = body.grow(&mut connection.input, bytes.len(), end) {
                if self.refuse_incomplete(connection, &refusal, turn.woke) == Fate::Drop {
                    connection.closing = Closing::AtOnce;
                }
                return;
            }
        }
        connection.input.extend_from_slice(bytes);
    }

    /// A read that did not fill its buffer has drained the socket: the next byte is a new event.
    pub(crate) fn after_read(
        &mut self,
        connection: &mut Connection,
        read: io::Result<Received>,
        woke: Ticks,
    ) -> Step {
        match read {
            Ok(Received::End) => {
                if connection.closing == Closing::No {
                    connection.closing = Closing::Cleanly;
                }
                if connection.output.is_empty() && matches!(connection.stage, Stage::Serving) {
                    Step::Over
                } else {
                    Step::Again
                }
            }
            Ok(Received::NotTls) => Step::Again,
            Ok(Received::Bytes { filled, .. }) => {
                connection.progress_at = woke;
                let more = filled || connection.is_ended() || connection.closing != Closing::No;
                connection.is_drained = !more;
                let streaming = matches!(
                    connection.stage,
                    Stage::Streaming(_) | Stage::Http2(_) | Stage::Leaving
                );
                let unparsed = !connection.input.is_empty()
                    && connection.input.len() >= connection.wanted_bytes;
                if more || streaming || unparsed { Step::Again } else { Step::Blocked }
            }
            // What came was ciphertext without any text in it, and the end follows.
            Err(error) if error.kind() == ErrorKind::WouldBlock && connection.is_ended() => {
                Step::Again
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                connection.is_drained = true;
                Step::Blocked
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Step::Again,
            Err(_) => Step::Over,
        }
    }
}

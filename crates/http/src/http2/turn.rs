//! From the socket to frames and back: a connection's turn in HTTP/2.

use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;

use pellucid_account::Phase;
use pellucid_thread::begin_request;

use super::session::Session;
use crate::connection::{Closing, Connection, Stage};
use crate::event_loop::{EventLoop, Fate, Step, Turn};
use crate::limits::BATCH_BYTES_MAX;
use crate::service::Service;
use crate::socket::Received;

impl<S: Service> EventLoop<S> {
    /// Reads what there is, and answers every whole request in it.
    pub(crate) fn serve_http2(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        turn: Turn,
    ) -> Step {
        let stage = std::mem::replace(&mut connection.stage, Stage::Serving);
        let Stage::Http2(mut session) = stage else {
            connection.stage = stage;
            return Step::Blocked;
        };
        if !connection.input.is_empty() {
            session.feed(&std::mem::take(&mut connection.input));
        }
        let mut turn = turn;
        let has_input = session.pipe.borrow().has_input();
        if !has_input && !connection.is_drained {
            begin_request(Phase::Receive.label());
            let read = self.with_scratch(|this, scratch| {
                let read = this.read(connection, scratch);
                turn.received = this.read_clock();
                if let Ok(Received::Bytes { count, .. }) = read {
                    session.feed(&scratch[..count]);
                }
                read
            });
            if !note_read(connection, &session, read, turn) {
                connection.stage = Stage::Http2(session);
                return Step::Over;
            }
        }
        self.drive(slot, connection, session, turn)
    }

    /// Has the protocol digest its input, answers what came of it, and writes.
    fn drive(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        mut session: Box<Session>,
        turn: Turn,
    ) -> Step {
        let (is_over, moved, was_full, fate) = self.with_out(|this, out| {
            std::mem::swap(&mut session.pipe.borrow_mut().output, out);
            let (is_over, moved) = this.run_streams(slot, connection, &mut session, turn);
            let was_full = {
                let pipe = &mut *session.pipe.borrow_mut();
                std::mem::swap(&mut pipe.output, out);
                std::mem::take(&mut pipe.was_full)
            };
            for record in session.answered.drain(..) {
                this.finish(connection, record, out.len());
            }
            let is_batched = this.batch.is_open && connection.tls.is_none() && !is_over;
            let fate = match is_batched && out.len() <= BATCH_BYTES_MAX {
                true => this.put_by_copied(slot, connection, out),
                false => this.flush(connection, out),
            };
            (is_over, moved, was_full, fate)
        });
        let (has_input, ended) = {
            let pipe = &mut *session.pipe.borrow_mut();
            pipe.shrink();
            (pipe.has_input(), pipe.ended)
        };
        if is_over {
            self.release_body(connection);
            self.abandon(*session);
        } else {
            connection.stage = Stage::Http2(session);
        }
        if fate == Fate::Drop {
            return Step::Over;
        }
        if is_over {
            connection.closing = if ended { Closing::Cleanly } else { Closing::AfterLinger };
            return Step::Again;
        }
        let more = moved || was_full || has_input || ended || !connection.is_drained;
        if more && !connection.has_unsent() { Step::Again } else { Step::Blocked }
    }

    /// Takes in what the client asks for, and gives the protocol what there is for the client. Says
    /// whether the connection is done, and whether anything moved.
    fn run_streams(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        session: &mut Session,
        turn: Turn,
    ) -> (bool, bool) {
        let had_input = session.pipe.borrow().has_input();
        let mut is_over = self.take_requests(slot, connection, session, turn);
        self.take_bodies(slot, connection, session, turn);
        if had_input {
            session.tell_resets();
        }
        // What follows is for all streams together.
        begin_request(Phase::Encode.label());
        let moved = self.pump_streams(session, turn);
        session.check_quiet();
        is_over |= session.poll_output();
        (is_over, moved)
    }

    /// Ends the accounts of what was under way on a connection that ended.
    pub(crate) fn abandon(&self, session: Session) {
        let (abandoned, in_flight) = session.abandoned();
        for (timeline, facts) in abandoned {
            self.recorder.record(&timeline, facts);
        }
        self.shared.requests_in_flight.fetch_sub(in_flight, Ordering::Relaxed);
    }
}

/// Notes what a read brought; false if the connection is of no more use.
fn note_read(
    connection: &mut Connection,
    session: &Session,
    read: io::Result<Received>,
    turn: Turn,
) -> bool {
    let may_be_more = match read {
        Ok(Received::Bytes { filled, .. }) => {
            connection.progress_at = turn.woke;
            filled || connection.is_ended()
        }
        Ok(Received::End | Received::NotTls) => {
            session.pipe.borrow_mut().ended = true;
            false
        }
        // Behind ciphertext without any text in it, the end may follow.
        Err(error) if error.kind() == ErrorKind::WouldBlock => connection.is_ended(),
        Err(error) if error.kind() == ErrorKind::Interrupted => true,
        Err(_) => return false,
    };
    connection.is_drained = !may_be_more;
    true
}

//! Bodies of streams: from their heads to whole requests.

use std::task::{Context, Poll, Waker};

use h2::RecvStream;
use pellucid_account::Phase;
use pellucid_thread::begin_request;

use super::heads::{body_length, head_of};
use super::session::{Receiving, Session, Standing, Stream};
use crate::connection::Connection;
use crate::event_loop::{EventLoop, Turn};
use crate::limits::HEADERS_MAX;
use crate::refusal::Refusal;
use crate::requests::{Arrival, id_of};
use crate::service::{Admission, ConnectionId, Service};

impl<S: Service> EventLoop<S> {
    /// Notes a request whose body comes in.
    pub(super) fn begin_body(
        &mut self,
        connection: &mut Connection,
        session: &mut Session,
        stream: Stream,
        body: RecvStream,
        turn: Turn,
    ) {
        let length = body_length(&stream.parts);
        let mut space = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let limit = head_of(&stream.parts, &mut space, length.unwrap_or(0))
            .map(|head| self.service.body_bytes_max(&head));
        match limit {
            Err(refusal) => self.refuse_stream(connection, session, stream, &refusal, turn),
            Ok(body_bytes_max) => {
                let Stream { parts, respond, begun, .. } = stream;
                let key = session.take_key();
                session.receiving.push(Receiving {
                    parts,
                    stream: body,
                    respond,
                    body: Vec::new(),
                    length,
                    body_bytes_max,
                    begun,
                    key,
                    standing: Standing::Unasked,
                });
            }
        }
    }

    /// Takes in what came of bodies, and answers the requests that are whole by it.
    pub(super) fn take_bodies(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        session: &mut Session,
        turn: Turn,
    ) {
        let mut at = 0;
        while at < session.receiving.len() {
            begin_request(Phase::Parse.label());
            let bodies = session.receiving.len();
            let receiving = &mut session.receiving[at];
            let (before, was_judged) = (receiving.body.len(), receiving.is_judged());
            let taken = self.take_body(slot, connection, receiving, bodies, turn);
            if receiving.body.len() > before {
                session.quiet_bytes = 0;
            }
            if receiving.is_judged() && !was_judged {
                session.note_untaken_body();
            }
            match taken {
                Ok(Poll::Pending) => at += 1,
                Ok(Poll::Ready(false)) => drop(session.receiving.swap_remove(at)),
                Ok(Poll::Ready(true)) => {
                    let (stream, body) = session.receiving.swap_remove(at).into_parts();
                    let (begun, received, bytes) = (stream.begun, turn.received, body.len());
                    let arrival = Arrival { begun, received, waited_until: None, bytes };
                    self.answer_stream(slot, connection, session, stream, &body, arrival);
                }
                Err(refusal) => {
                    session.note_untaken_body();
                    let (stream, _) = session.receiving.swap_remove(at).into_parts();
                    self.refuse_stream(connection, session, stream, &refusal, turn);
                }
            }
        }
    }

    /// Takes in what there is of one body among `bodies`. Ready once it ended: true if it is whole.
    fn take_body(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        receiving: &mut Receiving,
        bodies: usize,
        turn: Turn,
    ) -> Result<Poll<bool>, Refusal> {
        let mut context = Context::from_waker(Waker::noop());
        let is_too_long = receiving.length.is_some_and(|length| length > receiving.body_bytes_max);
        loop {
            if is_too_long || !matches!(receiving.standing, Standing::Unasked) {
                self.admit_stream(slot, connection, receiving, turn)?;
            }
            match receiving.standing {
                Standing::Judging => return Ok(Poll::Pending),
                _ if is_too_long => return Err(Refusal::BodyTooLarge(receiving.body_bytes_max)),
                _ => {}
            }
            match receiving.stream.poll_data(&mut context) {
                Poll::Pending => {
                    self.admit_stream(slot, connection, receiving, turn)?;
                    return Ok(Poll::Pending);
                }
                Poll::Ready(None) => return Ok(Poll::Ready(true)),
                Poll::Ready(Some(Err(_))) => return Ok(Poll::Ready(false)),
                Poll::Ready(Some(Ok(data))) => {
                    if receiving.body.len() + data.len() > receiving.body_bytes_max {
                        return Err(Refusal::BodyTooLarge(receiving.body_bytes_max));
                    }
                    if let Standing::Admitted(hold) = &mut receiving.standing {
                        hold.note_arrived(data.len(), bodies, &self.clock, turn.woke);
                        hold.grow(&mut receiving.body, data.len(), receiving.length)?;
                    }
                    receiving.body.extend_from_slice(&data);
                    // It fails only for streams that are gone, which the next poll tells.
                    let _ = receiving.stream.flow_control().release_capacity(data.len());
                }
            }
        }
    }

    /// Has a body let in whose head was not judged yet, or is judged by now.
    fn admit_stream(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        receiving: &mut Receiving,
        turn: Turn,
    ) -> Result<(), Refusal> {
        let admission = match std::mem::replace(&mut receiving.standing, Standing::Judging) {
            Standing::Judged(admission) => *admission,
            Standing::Unasked => {
                let mut space = [httparse::EMPTY_HEADER; HEADERS_MAX];
                let length = receiving.length.unwrap_or(0);
                let head = head_of(&receiving.parts, &mut space, length)?;
                let id = ConnectionId { stream: receiving.key, ..id_of(slot, connection) };
                self.ask(id, connection, &head)
            }
            standing => {
                receiving.standing = standing;
                return Ok(());
            }
        };
        match admission {
            Admission::Granted(account) => {
                let hold = self.begin_hold(connection, account.as_ref(), turn.woke);
                receiving.standing = Standing::Admitted(hold);
                Ok(())
            }
            Admission::Refused(refusal) => Err(refusal),
            Admission::Pending => Ok(()),
        }
    }

    /// Refuses the requests whose bodies take too long.
    pub(super) fn refuse_late(
        &mut self,
        connection: &mut Connection,
        session: &mut Session,
        turn: Turn,
    ) {
        let is_late = |receiving: &Receiving| receiving.is_late(turn.woke);
        while let Some(at) = session.receiving.iter().position(is_late) {
            let (stream, _) = session.receiving.swap_remove(at).into_parts();
            self.refuse_stream(connection, session, stream, &Refusal::TooSlow, turn);
        }
    }
}

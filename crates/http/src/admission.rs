//! Judgement of requests by their heads, before their bodies are waited for.

use pellucid_clock::Ticks;

use crate::connection::{Connection, Stage};
use crate::event_loop::EventLoop;
use crate::head::Head;
use crate::refusal::Refusal;
use crate::service::{Admission, Applicant, ConnectionId, Service};

impl<S: Service> EventLoop<S> {
    /// Lets in the body behind this head, unless it is let in already. False if another thread has
    /// to judge it first.
    pub(crate) fn let_body_in(
        &mut self,
        id: ConnectionId,
        connection: &mut Connection,
        head: &Head<'_, '_>,
        now: Ticks,
    ) -> Result<bool, Refusal> {
        if connection.body.is_some() {
            return Ok(true);
        }
        let admission = match connection.admission.take() {
            Some(admission) => *admission,
            None => self.ask(id, connection, head),
        };
        match admission {
            Admission::Granted(account) => {
                connection.body = Some(self.begin_hold(connection, account.as_ref(), now));
                Ok(true)
            }
            Admission::Refused(refusal) => Err(refusal),
            Admission::Pending => {
                (connection.stage, connection.wanted_bytes) = (Stage::Judging, 0);
                Ok(false)
            }
        }
    }

    /// Asks the service whether the body behind this head may come.
    pub(crate) fn ask(
        &mut self,
        id: ConnectionId,
        connection: &Connection,
        head: &Head<'_, '_>,
    ) -> Admission {
        let (mailbox, address) = (&self.mailbox, connection.seat.address());
        self.service.admit(head, &Applicant { mailbox, connection: id, address })
    }

    /// Goes on with a request that was judged by another thread.
    pub(crate) fn judged(&mut self, id: ConnectionId, admission: Admission, woke: Ticks) {
        self.with_connection_of(id, |this, connection| {
            match &mut connection.stage {
                Stage::Http2(session) => session.judged(id.stream, admission),
                Stage::Judging => {
                    connection.stage = Stage::Serving;
                    connection.admission = Some(Box::new(admission));
                }
                _ => {}
            }
            this.advance(id.slot as usize, connection, woke)
        });
    }
}

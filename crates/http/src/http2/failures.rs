//! Streams whose requests' code panicked: each is answered with 500, and the others go on.

use bytes::Bytes;
use h2::server::SendResponse;
use http::HeaderMap;
use pellucid_account::{RequestFacts, Timeline};

use super::session::{Parked, ParkedRequest, Session};
use super::streams::{Answered, FIELDS_USUAL};
use crate::event_loop::EventLoop;
use crate::failures::Failure;
use crate::refusal::Refusal;
use crate::response::{Manner, Response};
use crate::service::{Handled, Service};

impl<S: Service> EventLoop<S> {
    /// Answers a request whose code panicked.
    pub(super) fn fail_stream(
        &mut self,
        session: &mut Session,
        respond: SendResponse<Bytes>,
        failure: Failure,
        manner: Manner,
        (mut timeline, mut facts): (Timeline, RequestFacts),
    ) {
        self.note_failure(failure, &mut timeline, &mut facts);
        let mut fields = HeaderMap::with_capacity(FIELDS_USUAL);
        let mut body = std::mem::take(&mut self.body);
        let outcome = {
            let mut response = Response::of_stream(&mut body, &mut fields, &self.date_line, manner);
            response.refuse(&Refusal::Failed);
            response.outcome()
        };
        let handled = Handled::Done;
        let answered = Answered { handled, outcome, fields, body, timeline, facts };
        self.conclude_stream(session, respond, answered);
    }

    /// Ends a request that was handed over to code that panicked.
    pub(crate) fn abandon_stream(&mut self, session: &mut Session, parked: ParkedRequest) {
        let Parked { respond, timeline, facts, manner, flight, .. } = parked.0;
        self.recorder.take_back(&timeline, flight);
        self.fail_stream(session, respond, (None, false), manner, (timeline, facts));
    }
}

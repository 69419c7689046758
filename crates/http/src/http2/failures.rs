//! Streams whose requests' code panicked: each is answered with 500, and the others go on.

use bytes::Bytes;
use h2::server::SendResponse;
use http::HeaderMap;
use pellucid_account::{RequestFacts, Timeline};

use super::session::{Away, Parked, ParkedRequest, Session};
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
        body: &mut Vec<u8>,
    ) {
        self.note_failure(failure, &mut timeline, &mut facts);
        let mut fields = HeaderMap::with_capacity(FIELDS_USUAL);
        body.clear();
        let outcome = {
            let mut response = Response::of_stream(body, &mut fields, &self.date_line, manner);
            response.refuse(&Refusal::Failed);
            response.outcome()
        };
        let handled = Handled::Done;
        let answered = Answered { handled, outcome, fields, manner, timeline, facts };
        self.conclude_stream(session, respond, answered, body);
    }

    /// Ends a request that was handed over to code that panicked.
    pub(crate) fn fail_stream_away(&mut self, session: &mut Session, parked: ParkedRequest) {
        let Parked { away, flight, .. } = parked.0;
        let Away { respond, manner, timeline, facts, .. } = away;
        self.recorder.take_back(&timeline, flight);
        self.with_body(|this, body| {
            let account = (timeline, facts);
            this.fail_stream(session, respond, (None, false), manner, account, body);
        });
    }
}

//! A call on its way over the threads of the [`Pool`](super::Pool), until it is answered.

use std::sync::Arc;

use pellucid_account::{Stamp, Timeline};
use pellucid_budget::Share;
use pellucid_document::{ATTEMPTS_MAX, ErrorNumber, Pauses};
use pellucid_http::Completer;
use pellucid_store::{Arrival, Written};

use super::Returned;
use super::api::{Answered, DocumentApi, Finish, Finished};
use super::call::Call;
use super::control::Control;
use super::reply::Reply;
use crate::access::Identity;
use crate::answer::{Later, Loop};

/// See the module.
pub(super) struct Work {
    api: Arc<DocumentApi>,
    call: Call<'static>,
    caller: Identity,
    completer: Completer<Later>,
    timeline: Timeline,
    /// How often it was made so far.
    attempts: usize,
    /// How long it waits before it is made again.
    pauses: Pauses,
    queued_ns: u64,
    /// The memory of the call's body.
    _memory: Share,
}

impl Work {
    pub(super) fn of(
        (mut call, memory): (Call<'static>, Share),
        api: &Arc<DocumentApi>,
        caller: Identity,
        exchange: &mut Loop<'_>,
    ) -> Work {
        call.client = Some(exchange.client_watch());
        let method = format!("{:?}", call.method).to_uppercase();
        let what = format!("{method} {}", call.path);
        let control = Control::new(what, api.settings.query_runtime_max);
        Work {
            call: call.controlled(control),
            api: Arc::clone(api),
            caller,
            completer: exchange.completer(),
            timeline: exchange.timeline.clone(),
            attempts: 0,
            pauses: Pauses::new(),
            queued_ns: 0,
            _memory: memory,
        }
    }

    /// Makes the call, on a thread that has just taken it up.
    pub(super) fn begin(mut self, queued_ns: u64) {
        self.queued_ns = queued_ns;
        self.timeline.stamp(Stamp::Started);
        if self.call.is_forsaken() {
            // It was not begun, and nobody waits for it.
            return self.complete(ErrorNumber::QUERY_KILLED.into());
        }
        self.make();
    }

    fn make(mut self) {
        self.attempts += 1;
        let api = Arc::clone(&self.api);
        let at_work = self.call.control.as_ref().map(|control| api.calls.begin(control));
        let answered = api.answer(&self.call, &self.caller, &mut self.timeline);
        drop(at_work);
        match answered {
            Answered::Now(reply) => {
                self.timeline.stamp(Stamp::Executed);
                self.complete(reply);
            }
            // The thread is free meanwhile.
            Answered::Later(pending, finish) => {
                pending.when_ready(move |arrival| self.arrive(arrival, finish));
            }
        }
    }

    /// Takes the store's answer, on whichever thread it arrives. Where others were faster, the call
    /// is made again, as it is where the store decides at once, but after a pause: the store is far
    /// away, and the others may be on their way again, too.
    fn arrive(mut self, arrival: Arrival<Written>, finish: Finish) {
        arrival.parts.iter().for_each(|part| part.add_to(&mut self.timeline));
        match finish(arrival.result) {
            Finished::Conflict(_) if self.attempts < ATTEMPTS_MAX => {
                let api = Arc::clone(&self.api);
                let pause = self.pauses.next_pause();
                api.pool.run_after(pause, move |_| self.make());
            }
            finished => self.complete(finished.reply()),
        }
    }

    fn complete(self, reply: Reply) {
        let (timeline, parts) = (Some(self.timeline), Vec::new());
        let returned = Returned { reply, timeline, parts, queued_ns: self.queued_ns };
        self.completer.complete(Later::Documents(Box::new(returned)));
    }
}

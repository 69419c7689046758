//! Execution of a call on the threads of the [`Pool`](super::pool::Pool), including its retries.

use std::sync::Arc;

use pellucid_account::{Stamp, Timeline};
use pellucid_budget::Share;
use pellucid_document::{ATTEMPTS_MAX, ErrorNumber, RetryBackoff};
use pellucid_http::Completer;
use pellucid_store::{DeferredAnswer, DeliveredAnswer, WriteOutcome};

use super::api::DocumentApi;
use super::call::Call;
use super::completion::{CommitCallback, Completion};
use super::control::Control;
use crate::access::Identity;
use crate::answer::{DeferredReply, LoopExchange, LoopMessage};
use crate::reply::Reply;

/// A call that is executed by workers, until it is answered.
pub(super) struct WorkerCall {
    api: Arc<DocumentApi>,
    call: Call<'static>,
    caller: Identity,
    completer: Completer<LoopMessage>,
    timeline: Timeline,
    attempts: usize,
    /// Pauses before further attempts.
    pauses: RetryBackoff,
    queued_ns: u64,
    /// The memory of the call's body.
    _memory: Share,
}

impl WorkerCall {
    pub(super) fn of(
        mut call: Call<'static>,
        memory: Share,
        api: &Arc<DocumentApi>,
        caller: &Identity,
        exchange: &mut LoopExchange<'_>,
    ) -> WorkerCall {
        call.client = Some(exchange.client_watch());
        let method = format!("{:?}", call.method).to_uppercase();
        let path = format!("{method} {}", call.path);
        call.control = Some(Control::new(path, api.query_runtime_max()));
        WorkerCall {
            call,
            api: Arc::clone(api),
            caller: caller.clone(),
            completer: exchange.completer(),
            timeline: exchange.timeline.clone(),
            attempts: 0,
            pauses: RetryBackoff::default(),
            queued_ns: 0,
            _memory: memory,
        }
    }

    /// Begins the call, on the thread that has taken it from the queue.
    pub(super) fn begin(mut self, queued_ns: u64) {
        self.queued_ns = queued_ns;
        self.timeline.stamp(Stamp::Started);
        if self.call.is_forsaken() {
            // The client is gone, so the call is not begun.
            return self.complete(ErrorNumber::QUERY_KILLED.into());
        }
        self.attempt();
    }

    fn attempt(mut self) {
        self.attempts += 1;
        let api = Arc::clone(&self.api);
        let at_work = self.call.control.as_ref().map(|control| api.calls().begin(control));
        let completion = api.answer(&self.call, &self.caller, &mut self.timeline);
        drop(at_work);
        match completion {
            Completion::Reply(reply) => {
                self.timeline.stamp(Stamp::Executed);
                self.complete(reply);
            }
            // The thread is free until the store answers, unless the write is its own work.
            Completion::OnCommit(pending, finish) => {
                pending.begin_here(move |arrival| self.finish(arrival, finish));
            }
        }
    }

    /// Finishes the call of an event loop once the store has answered to its write.
    pub(super) fn finish_after(
        self,
        pending: DeferredAnswer<WriteOutcome>,
        finish: CommitCallback,
    ) {
        pending.when_ready(move |arrival| self.finish(arrival, finish));
    }

    /// Takes the store's answer, on any thread. A call that conflicts is made again after a pause:
    /// other writers, perhaps of other processes, may retry at the same time.
    fn finish(mut self, arrival: DeliveredAnswer<WriteOutcome>, finish: CommitCallback) {
        arrival.parts.iter().for_each(|part| part.add_to(&mut self.timeline));
        let finished = finish(arrival.result);
        if finished.is_conflict && self.attempts < ATTEMPTS_MAX {
            let api = Arc::clone(&self.api);
            let pause = self.pauses.next_pause();
            api.pool().run_after(pause, move |_| self.attempt());
        } else {
            self.complete(finished.reply);
        }
    }

    fn complete(self, reply: Reply) {
        let reply = self.api.for_driver(reply, self.queued_ns);
        self.completer.complete(LoopMessage::Made(Box::new(
            DeferredReply::of(Ok(reply)).continuing(self.timeline),
        )));
    }
}

//! Results of peers' requests that another thread has served, on their way back to the event loop.

use pellucid_account::{InFlightGuard, RequestFacts, Timeline};
use pellucid_cluster::{AnswerStatus, DeferredAsk};
use pellucid_store::{DeliveredAnswer, Head, Object, StoreError, WriteOutcome};

/// The result of a peer's request.
pub(super) enum AskResult {
    Object(Option<Object>),
    Head(Option<Head>),
    Written(WriteOutcome),
    /// A page of a range, and true if it is the last page.
    Page(Vec<u8>, bool),
    /// A refusal and its reason.
    Refused(AnswerStatus, String),
}

/// A peer's request with the result that another thread has made.
pub(crate) struct ServedRequest {
    pub(super) ask: DeferredAsk,
    pub(super) id: u64,
    pub(super) timeline: Timeline,
    pub(super) facts: RequestFacts,
    pub(super) flight: InFlightGuard,
    pub(super) arrival: DeliveredAnswer<AskResult>,
}

/// A callback for the result of a peer's request. If a panic drops it, it gets an error: an ask
/// without an answer would count as under way for ever.
pub(super) struct ResultCallback<F: FnOnce(DeliveredAnswer<AskResult>)>(Option<F>);

impl<F: FnOnce(DeliveredAnswer<AskResult>)> ResultCallback<F> {
    pub(super) fn new(callback: F) -> ResultCallback<F> {
        ResultCallback(Some(callback))
    }

    pub(super) fn call(mut self, arrival: DeliveredAnswer<AskResult>) {
        if let Some(callback) = self.0.take() {
            callback(arrival);
        }
    }
}

impl<F: FnOnce(DeliveredAnswer<AskResult>)> Drop for ResultCallback<F> {
    fn drop(&mut self) {
        if let Some(callback) = self.0.take() {
            let what = "the owner's work on it has panicked: its standard error says why";
            let failed = Err(StoreError::Failed(what.to_owned()));
            callback(DeliveredAnswer::new(failed, Vec::new()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use pellucid_store::DeferredAnswer;
    use pellucid_thread::contain;

    use super::*;

    /// Regression: a panic dropped the callback of an ask, which then had no answer.
    #[test]
    fn an_ask_whose_work_panics_is_answered_with_an_error() {
        let (sender, results) = channel();
        let callback =
            ResultCallback::new(move |arrival| sender.send(arrival.result.is_ok()).unwrap());
        let pending = DeferredAnswer::new(|callback| {
            let _callback = callback;
            panic!("on purpose");
        });
        contain(|| pending.when_ready(move |arrival| callback.call(arrival))).unwrap_err();
        assert_eq!(results.try_iter().collect::<Vec<_>>(), [false]);
        let (sender, results) = channel();
        let callback =
            ResultCallback::new(move |arrival| sender.send(arrival.result.is_ok()).unwrap());
        callback.call(DeliveredAnswer::new(Ok(AskResult::Head(None)), Vec::new()));
        assert_eq!(results.try_iter().collect::<Vec<_>>(), [true]);
    }
}

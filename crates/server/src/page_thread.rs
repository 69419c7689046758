//! Threads that make pages which would block an event loop for too long, such as the account and
//! the metrics.

use std::sync::mpsc::sync_channel;

use pellucid_http::Completer;
use pellucid_thread::{Job, run_contained, start_job};

use crate::answer::{Answer, DeferredReply, HandlerResult, LoopMessage};
use crate::reply::{Failure, Reply};

/// An answer whose reply a new thread makes with `make`, for work that takes long.
///
/// # Errors
/// [`Failure::Busy`] if the thread cannot be started.
pub(crate) fn page_on_thread(
    name: &'static str,
    job: &'static Job,
    make: impl FnOnce() -> Result<Reply, Failure> + Send + 'static,
) -> HandlerResult {
    let (hand_over, completer) = sync_channel::<Completer<LoopMessage>>(1);
    let run = move || {
        let Ok(completer) = completer.recv() else { return };
        let _job = start_job(job);
        completer.complete(LoopMessage::Made(Box::new(DeferredReply::of(make()))));
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(|| run_contained(run));
    thread.map_err(|error| {
        Failure::Busy(format!("a thread for this could not be started: {error}").into())
    })?;
    Ok(Answer::pending(move |completer| {
        // This cannot fail: the thread waits for the completer.
        let _ = hand_over.send(completer);
    }))
}

//! The helper thread: makes pages that would block an event loop for too long, such as the account
//! and the metrics.

use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use pellucid_http::Completer;
use pellucid_thread::{Job, run_contained, start_job};

use crate::answer::{Answer, DeferredReply, HandlerResult, LoopMessage};
use crate::reply::{Failure, Reply};

/// The limit of pages that wait. Only people and metrics scrapers ask for pages, so a small number
/// is enough.
const PAGES_MAX: usize = 32;

static PAGES: Job = Job::new("pages");

/// A page that waits to be made, and the completer of its request.
struct Page {
    make: Box<dyn FnOnce() -> Reply + Send>,
    completer: Completer<LoopMessage>,
}

/// A handle of the helper thread. The thread ends when the last handle is dropped.
#[derive(Clone)]
pub(crate) struct PageWorker {
    pages: SyncSender<Page>,
}

impl PageWorker {
    pub(crate) fn start() -> io::Result<PageWorker> {
        let (pages, received) = sync_channel(PAGES_MAX);
        let run = move || {
            let _job = start_job(&PAGES);
            received.into_iter().for_each(|Page { make, completer }| {
                run_contained(|| {
                    completer.complete(LoopMessage::Made(DeferredReply::of(Ok(make()))))
                });
            });
        };
        std::thread::Builder::new().name("pellucid-helper".to_owned()).spawn(run)?;
        Ok(PageWorker { pages })
    }

    /// An answer whose reply the helper thread makes with `make`; 503 if too many pages wait.
    pub(crate) fn page(&self, make: impl FnOnce() -> Reply + Send + 'static) -> Answer {
        let pages = self.pages.clone();
        Answer::pending(move |completer| {
            let page = Page { make: Box::new(make), completer };
            if let Err(TrySendError::Full(page) | TrySendError::Disconnected(page)) =
                pages.try_send(page)
            {
                let line = "too many such requests wait: try again in a moment";
                let refused = DeferredReply::of(Err(Failure::Busy(line.into())));
                page.completer.complete(LoopMessage::Made(refused));
            }
        })
    }
}

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
        completer.complete(LoopMessage::Made(DeferredReply::of(make())));
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

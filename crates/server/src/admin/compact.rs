//! `PUT /_admin/compact`: all tables of the store merged into one level, which otherwise happens
//! bit by bit. For when much was removed or written over and its room is wanted back now, and for
//! whoever wants to see what a merge does to the requests beside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pellucid_http::{Handled, Response};
use pellucid_store::StoreError;
use pellucid_thread::{Job, run_contained, schedule_for_background, start_job};
use serde_json::json;

use super::Page;
use crate::service::{Api, Later, Loop, respond_text, status_of};

static COMPACT: Job = Job::new("full_merge");

/// Whether a full merge is under way; there is one at a time.
#[derive(Clone, Default)]
pub(crate) struct FullMerge(Arc<AtomicBool>);

impl FullMerge {
    /// The place of the one merge, if it is free.
    fn take(&self) -> Option<Place> {
        let was_taken = self.0.swap(true, Ordering::AcqRel);
        (!was_taken).then(|| Place(Arc::clone(&self.0)))
    }
}

/// Given back when it goes.
struct Place(Arc<AtomicBool>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Api {
    /// Merges everything, and answers when it is done; requests go on meanwhile.
    pub(crate) fn compact(&self, response: &mut Response<'_>, exchange: &mut Loop<'_>) -> Handled {
        let Some(place) = self.shared.full_merge.take() else {
            return respond_text(response, exchange, 409, "a full merge is under way already");
        };
        let (shared, completer) = (Arc::clone(&self.shared), exchange.completer());
        let clock = shared.account.clock();
        let run = move || {
            let _job = start_job(&COMPACT);
            // Where it is refused, requests wait for this thread as long as the kernel likes.
            let _ = schedule_for_background();
            let began = clock.stopwatch();
            let merged = shared.store.local().map(|local| local.compact()).transpose();
            let merged = merged.map(|done| done.is_some());
            if let Err(error) = &merged {
                shared.log.error(&format!("a full merge failed: {error}"));
            }
            let page = page_of(merged, began.elapsed_ns());
            // Before the answer: whoever has it may ask again.
            drop(place);
            completer.complete(Later::Page(page));
        };
        let thread = std::thread::Builder::new()
            .name("pellucid-compact".to_owned())
            .spawn(|| run_contained(run));
        match thread {
            Ok(_) => Handled::Later,
            Err(error) => {
                let what = format!("a thread for the merge could not be started: {error}");
                respond_text(response, exchange, 503, &what)
            }
        }
    }
}

fn page_of(merged: Result<bool, StoreError>, duration_ns: u64) -> Page {
    match merged {
        Ok(true) => Page::json(json!({ "duration_ns": duration_ns }).to_string()),
        Ok(false) => {
            Page::refusal(501, "this server's store has no levels of its own to merge".to_owned())
        }
        Err(error) => Page::refusal(status_of(&error), error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_at_a_time() {
        let full_merge = FullMerge::default();
        let place = full_merge.take();
        assert!(place.is_some() && full_merge.take().is_none());
        drop(place);
        assert!(full_merge.take().is_some());
    }

    #[test]
    fn an_error_is_told_as_requests_are_told_it() {
        assert_eq!(page_of(Ok(false), 1).status, 501);
        assert_eq!(page_of(Err(StoreError::Full("no room".to_owned())), 1).status, 507);
    }
}

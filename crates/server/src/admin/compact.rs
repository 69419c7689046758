//! `PUT /_admin/compact`: all tables of the store merged into one level, which otherwise happens
//! bit by bit. For when much was removed or written over and its room is wanted back now, and for
//! whoever wants to see what a merge does to the requests beside it.

use std::sync::Arc;

use pellucid_http::Request;
use pellucid_store::StoreError;
use pellucid_thread::{Job, schedule_for_background};
use serde_json::json;

use super::AdminApi;
use crate::answer::Handling;
use crate::helper::page_on_thread;
use crate::reply::{Failure, Reply, status_of};

static COMPACT: Job = Job::new("full_merge");

/// Merges everything, and answers when it is done; requests go on meanwhile.
pub(crate) fn compact(api: &AdminApi, _: &Request<'_>) -> Handling {
    let Some(reservation) = api.full_merge.take() else {
        return Err(Failure::Refused(409, "a full merge is under way already".into()));
    };
    let (store, observer) = (Arc::clone(&api.store), Arc::clone(&api.observer));
    let clock = observer.account.clock();
    page_on_thread("pellucid-compact", &COMPACT, move || {
        // Where it is refused, requests wait for this thread as long as the kernel likes.
        let _ = schedule_for_background();
        let began = clock.stopwatch();
        let merged = store.local().map(|local| local.compact()).transpose();
        let merged = merged.map(|done| done.is_some());
        if let Err(error) = &merged {
            observer.log.error(&format!("a full merge failed: {error}"));
        }
        // Its end frees the reservation before the reply: whoever has that may ask again.
        let _reservation = reservation;
        reply_to(merged, began.elapsed_ns())
    })
}

fn reply_to(merged: Result<bool, StoreError>, duration_ns: u64) -> Result<Reply, Failure> {
    match merged {
        Ok(true) => Ok(Reply::value(200, &json!({ "duration_ns": duration_ns }))),
        Ok(false) => {
            let line = "this server's store has no levels of its own to merge";
            Err(Failure::Refused(501, line.into()))
        }
        Err(error) => Err(Failure::Refused(status_of(&error), error.to_string().into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_at_a_time() {
        let full_merge = crate::helper::OneAtATime::default();
        let reservation = full_merge.take();
        assert!(reservation.is_some() && full_merge.take().is_none());
        drop(reservation);
        assert!(full_merge.take().is_some());
    }

    #[test]
    fn an_error_is_told_as_requests_are_told_it() {
        let status = |merged| match reply_to(merged, 1) {
            Ok(reply) => reply.status,
            Err(Failure::Refused(status, _)) => status,
            Err(_) => 0,
        };
        assert_eq!([status(Ok(true)), status(Ok(false))], [200, 501]);
        assert_eq!(status(Err(StoreError::Full("no room".to_owned()))), 507);
    }
}

//! `PUT /_admin/compact`: merges all tables of the store into one level, which otherwise happens
//! gradually. It is useful after many entries were removed or overwritten, to free their disk space
//! now, and for measuring the effect of a merge on concurrent requests.

use std::sync::Arc;

use pellucid_http::Request;
use pellucid_store::StoreError;
use pellucid_thread::{Job, schedule_for_background};
use serde_json::json;

use super::AdminApi;
use crate::answer::HandlerResult;
use crate::page_thread::page_on_thread;
use crate::reply::{Failure, Reply, status_of};

static COMPACT: Job = Job::new("full_merge");

/// Starts a full merge on a thread of its own, which replies when the merge is done. Other requests
/// are served meanwhile.
pub(crate) fn compact(api: &AdminApi, _: &Request<'_>) -> HandlerResult {
    let Some(place) = api.full_merge.take() else {
        return Err(Failure::Refused(409, "a full merge is under way already".into()));
    };
    let (store, observer) = (Arc::clone(&api.store), Arc::clone(&api.observer));
    let clock = observer.account.clock();
    page_on_thread("pellucid-compact", &COMPACT, move || {
        // If the kernel refuses it, the merge only competes more with requests.
        let _ = schedule_for_background();
        let began = clock.stopwatch();
        let merged = store.local().map(|local| local.compact()).transpose();
        let merged = merged.map(|done| done.is_some());
        if let Err(error) = &merged {
            observer.log.error(&format!("a full merge failed: {error}"));
        }
        // The place is free before the reply is sent, so that a client that has the reply can start
        // the next merge.
        let _place = place;
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
    fn a_failed_merge_has_the_status_of_its_store_error() {
        let status = |merged| match reply_to(merged, 1) {
            Ok(reply) => reply.status,
            Err(Failure::Refused(status, _)) => status,
            Err(_) => 0,
        };
        assert_eq!([status(Ok(true)), status(Ok(false))], [200, 501]);
        assert_eq!(status(Err(StoreError::Full("no room".to_owned()))), 507);
    }
}

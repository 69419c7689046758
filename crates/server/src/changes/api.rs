//! Starts streams of changes of the server's own store.

use std::io;
use std::sync::Arc;

use pellucid_account::Stamp;
use pellucid_budget::Budget;
use pellucid_clock::Clock;
use pellucid_store::{ChangeSelector, Store, StoreError, Table};
use serde_json::json;

use super::body::{ChangesBody, EMPTIED};
use super::content::Content;
use super::followers::Followers;
use super::memory::StreamMemory;
use super::pieces::ChangesPieces;
use super::query::ChangesQuery;
use crate::access::{Accounts, Identity};
use crate::answer::{HandlerResult, LoopExchange};
use crate::log::Log;
use crate::reply::{Failure, Reply};

/// The API of changes, shared by all event loops.
pub(crate) struct ChangesApi {
    store: Arc<dyn Store>,
    accounts: Arc<Accounts>,
    documents: Table,
    memory: StreamMemory,
    followers: Arc<Followers>,
    log: Log,
}

impl ChangesApi {
    /// Starts the API for `store`, whose documents are in the table `documents`. `memory` is that
    /// of all requests.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        accounts: Arc<Accounts>,
        documents: Table,
        memory: Budget,
        clock: Clock,
        log: &Log,
    ) -> io::Result<ChangesApi> {
        let followers = Arc::new(Followers::start(Arc::clone(&store), clock)?);
        let (memory, log) = (StreamMemory::of(memory), log.clone());
        Ok(ChangesApi { store, accounts, documents, memory, followers, log })
    }

    /// The memory of the documents of all streams.
    pub(crate) fn memory(&self) -> &StreamMemory {
        &self.memory
    }

    /// Ends all streams that follow later writes.
    pub(crate) fn stop(&self) {
        self.followers.stop();
    }

    /// Answers with a stream of the changes of a table of entities or of a collection. The caller's
    /// right must have been checked.
    pub(crate) fn answer(
        &self,
        query: &ChangesQuery<'_>,
        content: Content,
        caller: &Identity,
        exchange: &mut LoopExchange<'_>,
    ) -> HandlerResult {
        let Some(feed) = self.store.local().and_then(|local| local.change_feed()) else {
            let line = "this kind of store tells no changes: the embedded one does";
            return Err(Failure::Refused(501, line.into()));
        };
        let newest = feed.newest_sequence();
        let since = query.since.unwrap_or(newest);
        if let Some(oldest) = content.emptied_after(since, newest) {
            return Ok(lost(EMPTIED, oldest, newest).into());
        }
        let place = match query.is_followed.then(|| self.followers.places.take()) {
            Some(None) => {
                let line = "too many streams follow the changes: try again later";
                return Err(Failure::Busy(line.into()));
            }
            place => place.flatten(),
        };
        let table = match &content {
            Content::Entities(table, _) => *table,
            Content::Documents { .. } => self.documents,
        };
        let changes = feed.changes(ChangeSelector {
            table,
            prefix: &content.prefix(&query.prefix),
            since,
            is_durable: query.is_durable,
        });
        let changes = match changes {
            Err(error @ StoreError::ChangesLost { oldest, newest }) => {
                return Ok(lost(&error.to_string(), oldest, newest).into());
            }
            other => other?,
        };
        exchange.timeline.stamp(Stamp::Executed);
        let (accounts, caller) = (Arc::clone(&self.accounts), caller.clone());
        let body = ChangesBody::new(changes, content, accounts, caller, query, &self.log);
        let with = (Arc::clone(&self.store), Arc::clone(&self.followers));
        let pieces = ChangesPieces::new(body, with, exchange.reminder(), place);
        let reply = Reply::streamed(query.form.content_type(), pieces);
        Ok(reply.with_header("Cache-Control", "no-store").into())
    }
}

/// The refusal of a stream that lacks changes. A new one can start from `oldest` to `newest`.
fn lost(error: &str, oldest: u64, newest: u64) -> Reply {
    Reply::value(410, &json!({ "error": error, "oldest": oldest, "newest": newest }))
}

//! `GET /v0/entities?cluster=true`: the ranges of all nodes, merged in the order of keys.
//!
//! Each node is asked for one page at a time, so memory holds one page of each node, and the walk
//! stops when the client stops reading. The pages of this node are read by a worker of its store.
//! The body is filled on the event loop that has the connections to the peers. If the next page has
//! not arrived, the body reports that it waits, and is asked again when the page is there.

use std::borrow::Cow;
use std::sync::Arc;

use pellucid_cluster::{MergedEntry, RangePages};
use pellucid_http::BodyWaker;
use pellucid_store::{KEY_LENGTH_MAX, Result as StoreResult, Store, StoreError, Table, Workers};
use pellucid_thread::{Mutex, contain};

use super::links::Links;
use super::serve::page;
use super::served_request::AskResult;
use crate::answer::{HandlerResult, LoopExchange, LoopMessage};
use crate::entities::EntityApi;
use crate::entities::ranges::{Entries, Form, NextEntry, Query, RangeBody};
use crate::reply::{Failure, Reply};

/// The merged entries of all nodes: pages that are shared with the event loop's links, which fetch
/// those of the other nodes.
struct MergedEntries {
    pages: Arc<Mutex<RangePages>>,
    own: OwnPages,
    /// The expiry of the entry that was returned last.
    expires_at_ms: Option<u64>,
}

/// The source of the pages of this node.
struct OwnPages {
    /// The index of this node.
    node: usize,
    store: Arc<dyn Store>,
    table: Table,
    reminder: BodyWaker<LoopMessage>,
}

impl OwnPages {
    /// Reads the next page if it is wanted: on a worker, because that may take long or wait for the
    /// disk. If too many jobs wait for the workers, the page stays wanted; [`Links::attend`] has
    /// the body ask for it again.
    fn ask(&self, pages: &Arc<Mutex<RangePages>>) {
        let mut kept = pages.lock();
        if !kept.wanted().contains(&self.node) {
            return;
        }
        let workers = self.store.workers();
        let place = workers.and_then(Workers::reserve);
        if workers.is_some() && place.is_none() {
            return;
        }
        let (node, table, store) = (self.node, self.table, Arc::clone(&self.store));
        let mut asked = (Vec::new(), Vec::new());
        kept.ask(node, |ask| {
            asked = (ask.key.to_vec(), ask.value.to_vec());
            Ok(())
        });
        drop(kept);
        let (pages, reminder) = (Arc::clone(pages), self.reminder.clone());
        let read = move || {
            let read = contain(|| match page(&*store, table, &asked.0, &asked.1) {
                Ok(AskResult::Page(bytes, is_last)) => Ok((bytes, is_last)),
                Ok(_) => Err("this node does not understand its own ask".to_owned()),
                Err(error) => Err(error.to_string()),
            });
            let page = read.unwrap_or_else(|panicked| {
                panicked.tell();
                Err("the read of a page has panicked".to_owned())
            });
            pages.lock().bring_page(node, page);
            reminder.go_on();
        };
        match place {
            Some(place) => place.run(read),
            None => read(),
        }
    }
}

impl Entries for MergedEntries {
    const NAME: &'static str = "a range over the cluster";

    fn next(&mut self) -> StoreResult<NextEntry<'_>> {
        let mut pages = self.pages.lock();
        if !pages.are_here().map_err(StoreError::Unreachable)? {
            drop(pages);
            self.own.ask(&self.pages);
            return Ok(NextEntry::NotHere);
        }
        let Some(MergedEntry { key, object, expires_at_ms }) = pages.take_next() else {
            return Ok(NextEntry::Over);
        };
        self.expires_at_ms = expires_at_ms;
        Ok(NextEntry::Here(Cow::Owned(key), object))
    }

    fn expires_at_ms(&self) -> Option<u64> {
        self.expires_at_ms
    }
}

/// Answers with a range over all nodes.
///
/// # Errors
/// If `start` or `end` is too long, or another node cannot be reached.
pub(crate) fn merged_range(
    entities: &EntityApi,
    links: &mut Links,
    (query, table, form): (Query<'_>, Table, Form),
    exchange: &LoopExchange<'_>,
) -> HandlerResult {
    let Query { start, end, left, reverse, .. } = query;
    let longest = start.len().max(end.as_ref().map_or(0, |end| end.len()));
    if longest > KEY_LENGTH_MAX {
        let line = format!("`start` and `end` have up to {KEY_LENGTH_MAX} bytes, as keys have");
        return Err(line.into());
    }
    if let Some(failure) = links.unreachable() {
        return Err(Failure::Refused(504, failure.to_string().into()));
    }
    let entries_max = u32::try_from(left).unwrap_or(u32::MAX).max(1);
    let (start, end) = (start.into_owned(), end.map(Cow::into_owned));
    let pages = RangePages::new(links.nodes(), start, end, reverse, entries_max);
    let pages = Arc::new(Mutex::new(pages));
    links.follow_range(exchange.ticket(), &pages);
    let (store, reminder) = (Arc::clone(&entities.store), exchange.reminder());
    let own = OwnPages { node: links.own(), store, table, reminder };
    let merged = MergedEntries { pages, own, expires_at_ms: None };
    let body = RangeBody::new(merged, form, left, &entities.memory, &entities.log);
    Ok(Reply::streamed(form.content_type(), body).into())
}

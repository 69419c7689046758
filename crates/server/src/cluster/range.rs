//! `GET /v0/entities?cluster=true`: the ranges of all nodes, merged in the order of keys.
//!
//! Each node is asked for one page at a time, so memory holds one page of each node, and the walk
//! stops when the client stops reading. The pages of this node are read by a worker of its store.
//! The body is filled on the event loop that has the connections to the peers. If the next page has
//! not arrived, the body reports that it waits, and is asked again when the page is there. The
//! reply begins once the first page of each node is there, so that a node that fails before is
//! reported with the status.

use std::borrow::Cow;
use std::sync::Arc;

use pellucid_cluster::RangePages;
use pellucid_store::{KEY_LENGTH_MAX, Table};
use pellucid_thread::Mutex;

use super::links::Links;
use super::merged_entries::{MergedEntries, OwnPages};
use crate::answer::{Answer, HandlerResult, LoopExchange};
use crate::entities::EntityApi;
use crate::entities::ranges::{Form, Query, RangeBody};
use crate::reply::{Failure, Reply};

/// Answers with a range over all nodes; the links begin the reply.
///
/// # Errors
/// If `start` or `end` is too long, or another node cannot be reached.
pub(crate) fn merged_range(
    entities: &EntityApi,
    links: &mut Links,
    (query, table, form): (Query<'_>, Table, Form),
    exchange: &mut LoopExchange<'_>,
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
    let (store, reminder) = (Arc::clone(&entities.store), exchange.reminder());
    let own = OwnPages { node: links.own(), store, table, reminder };
    let merged = MergedEntries::new(Arc::clone(&pages), own);
    let body = RangeBody::new(merged, form, left, &entities.memory, &entities.log);
    if left == 0 {
        return Ok(Reply::streamed(form.content_type(), body).into());
    }
    links.follow_range(exchange, &pages, body);
    Ok(Answer::Away)
}

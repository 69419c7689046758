//! `GET /v0/entities?cluster=true`: the ranges of all nodes, merged in the order of keys.
//!
//! Each other node is asked for one page at a time, so memory holds one page of each node, and the
//! walk stops when the client stops reading. The body is filled on the event loop that has the
//! connections to the peers. If the next page has not arrived, the body reports that it waits, and
//! is asked again when the page is there.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError};

use pellucid_cluster::{MergedEntry, RangePages};
use pellucid_http::Ticket;
use pellucid_store::{KEY_LENGTH_MAX, Range, Result as StoreResult, Scan, StoreError, Table};
use pellucid_thread::Mutex;

use super::links::Links;
use crate::entities::EntityApi;
use crate::entities::ranges::{Entries, Form, NextEntry, Query, RangeBody};
use crate::reply::{Failure, Reply};

/// The merged entries of all nodes: pages of the other nodes, shared with the event loop's links
/// that fetch them, and a scan of this node's own entries.
struct MergedEntries {
    pages: Arc<Mutex<RangePages>>,
    scan: Box<dyn Scan>,
    /// The next entry of this node.
    own: Option<MergedEntry>,
    own_is_over: bool,
    /// The expiry of the entry that was returned last.
    expires_at_ms: Option<u64>,
}

impl Entries for MergedEntries {
    const NAME: &'static str = "a range over the cluster";

    fn next(&mut self) -> StoreResult<NextEntry<'_>> {
        if self.own.is_none() && !self.own_is_over {
            let entry = Scan::next(&mut *self.scan)?;
            let entry = entry.map(|(key, object)| (key.to_vec(), object));
            let expires_at_ms = self.scan.expires_at_ms();
            self.own = entry.map(|(key, object)| MergedEntry { key, object, expires_at_ms });
            self.own_is_over = self.own.is_none();
        }
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if !pages.are_here().map_err(StoreError::Unreachable)? {
            return Ok(NextEntry::NotHere);
        }
        let other = match (pages.next(), &self.own) {
            (None, _) => None,
            (Some((node, _)), None) => Some(node),
            (Some((node, key)), Some(own)) => {
                let own = own.key.as_slice();
                let is_first = if pages.is_reverse() { key > own } else { key < own };
                is_first.then_some(node)
            }
        };
        let entry = match other {
            Some(node) => pages.take(node),
            None => self.own.take(),
        };
        let Some(MergedEntry { key, object, expires_at_ms }) = entry else {
            return Ok(NextEntry::Over);
        };
        self.expires_at_ms = expires_at_ms;
        Ok(NextEntry::Here(Cow::Owned(key), object))
    }

    fn expires_at_ms(&self) -> Option<u64> {
        self.expires_at_ms
    }
}

/// Replies with a range over all nodes. `own` is the index of this node, `ticket` that of the
/// request on its event loop.
///
/// # Errors
/// If `start` or `end` is too long, another node cannot be reached, or this node's entities cannot
/// be read.
pub(super) fn merged_range(
    entities: &EntityApi,
    links: &mut Links,
    (query, table): (Query<'_>, Table),
    form: Form,
    (own, ticket): (usize, Ticket),
) -> Result<Reply, Failure> {
    let Query { start, end, left, reverse, .. } = query;
    let longest = start.len().max(end.as_ref().map_or(0, |end| end.len()));
    if longest > KEY_LENGTH_MAX {
        let line = format!("`start` and `end` have up to {KEY_LENGTH_MAX} bytes, as keys have");
        return Err(line.into());
    }
    let range = Range { start: &start, end: end.as_deref(), reverse };
    let scan = entities.store.scan(table, range)?;
    if let Some(failure) = links.unreachable() {
        return Err(Failure::Refused(504, failure.to_string().into()));
    }
    let entries_max = u32::try_from(left).unwrap_or(u32::MAX).max(1);
    let (start, end) = (start.into_owned(), end.map(Cow::into_owned));
    let pages = RangePages::new(links.nodes(), Some(own), start, end, reverse, entries_max);
    let pages = Arc::new(Mutex::new(pages));
    links.follow_range(ticket, &pages);
    let merged = MergedEntries { pages, scan, own: None, own_is_over: false, expires_at_ms: None };
    let body = RangeBody::new(merged, form, left, &entities.log);
    Ok(Reply::streamed(form.content_type(), body))
}

//! `GET /v0/entities?cluster=true`: the ranges of all nodes, merged in the order of keys.
//!
//! Every other node is asked for one page at a time, so memory holds a page of each, and a client
//! that stops reading stops the walk. The body is filled on the event loop that has the connections
//! to the peers; where it needs a page that is not there, it says so, and is asked again when it
//! is.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError};

use pellucid_account::Stamp;
use pellucid_cluster::RangePages;
use pellucid_http::{Handled, Request, Response};
use pellucid_store::{KEY_LENGTH_MAX, Object, Range, Scan};
use pellucid_thread::Mutex;

use crate::ranges::{Entries, NextEntry, Query, RangeBody};
use crate::service::{Api, Loop, respond_text};
use crate::timing::add_server_timing;

/// The entries of all nodes: pages of the others, shared with the event loop that asks for them,
/// and a walk over this one's.
struct Merged {
    pages: Arc<Mutex<RangePages>>,
    scan: Box<dyn Scan>,
    /// The entry of this node that comes next.
    own: Option<(Vec<u8>, Object)>,
    own_is_over: bool,
}

impl Entries for Merged {
    const WHAT: &'static str = "a range over the cluster";

    type Error = String;

    fn next(&mut self) -> Result<NextEntry<'_>, String> {
        if self.own.is_none() && !self.own_is_over {
            let entry = Scan::next(&mut *self.scan).map_err(|error| error.to_string())?;
            self.own = entry.map(|(key, object)| (key.to_vec(), object));
            self.own_is_over = self.own.is_none();
        }
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if !pages.are_here()? {
            return Ok(NextEntry::NotHere);
        }
        let other = match (pages.next(), &self.own) {
            (None, _) => None,
            (Some((node, _)), None) => Some(node),
            (Some((node, key)), Some((own, _))) => {
                let own = own.as_slice();
                let is_first = if pages.is_reverse() { key > own } else { key < own };
                is_first.then_some(node)
            }
        };
        let entry = match other {
            Some(node) => pages.take(node).map(|entry| (entry.key, entry.object)),
            None => self.own.take(),
        };
        Ok(entry.map_or(NextEntry::Over, |(key, object)| NextEntry::Here(Cow::Owned(key), object)))
    }
}

impl Api {
    /// Answers with the range of all nodes.
    pub(crate) fn merged_range(
        &mut self,
        request: &Request<'_>,
        query: Query<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let Query { start, end, left, reverse, .. } = query;
        let longest = start.len().max(end.as_ref().map_or(0, |end| end.len()));
        if longest > KEY_LENGTH_MAX {
            let what = format!("`start` and `end` have up to {KEY_LENGTH_MAX} bytes, as keys have");
            return respond_text(response, exchange, 400, &what);
        }
        let range = Range { start: &start, end: end.as_deref(), reverse };
        let scan = match self.shared.store.scan(self.shared.entities, range) {
            Ok(scan) => scan,
            Err(error) => return self.store_error(&error, response, exchange),
        };
        let Some(links) = &mut self.links else {
            return respond_text(response, exchange, 400, "this node is part of no cluster");
        };
        let (own, count) = (links.cluster.own(), links.cluster.nodes().nodes().len());
        let failed = (0..count).filter(|node| *node != own);
        if let Some(failure) = failed.filter_map(|node| links.peers.unreachable(node)).next() {
            return respond_text(response, exchange, 504, &failure.to_string());
        }
        let entries_max = u32::try_from(left).unwrap_or(u32::MAX).max(1);
        let (start, end) = (start.into_owned(), end.map(Cow::into_owned));
        let pages = RangePages::new(count, Some(own), start, end, reverse, entries_max);
        let pages = Arc::new(Mutex::new(pages));
        links.ranges.push((exchange.ticket(), Arc::downgrade(&pages)));
        exchange.timeline.stamp(Stamp::Executed);
        let form = crate::ranges::form_of(request);
        response.status(200).header("Content-Type", form.content_type());
        add_server_timing(response, exchange.timeline);
        response.finish_streamed(None);
        let merged = Merged { pages, scan, own: None, own_is_over: false };
        Handled::Stream(Box::new(RangeBody::new(merged, form, left, &self.shared.log)))
    }
}

//! `GET /v0/entities?cluster=true`: the ranges of all nodes, merged in the order of keys.
//!
//! Every other node is asked for one page at a time, so memory holds a page of each, and a client
//! that stops reading stops the walk. The body is filled on the event loop that has the connections
//! to the peers; where it needs a page that is not there, it says so, and is asked again when it
//! is.

use std::sync::{Arc, Mutex, PoisonError};

use pellucid_account::Stamp;
use pellucid_cluster::{Ask, AskKind, Asked, Page, RangeAsk};
use pellucid_http::{BodySource, Filled, Handled, READ_BYTES_MAX, Request, Response};
use pellucid_store::{Acknowledgement, Condition, Head, Object, Range, Scan, Value};

use crate::log::Log;
use crate::ranges::{Form, OpenEntry, Query, write_key};
use crate::service::{Api, Loop, respond_text};
use crate::timing::add_server_timing;

/// The pages of one node.
pub(super) enum Pages {
    /// The next one is to be asked for.
    Wanted,
    /// It was.
    Asked,
    Here(Page),
    Last(Page),
    Over,
    Failed(String),
}

pub(super) struct NodePages {
    pub(super) pages: Pages,
    /// The key of the last entry that was taken.
    last_key: Option<Vec<u8>>,
}

/// What body and event loop share of a range.
pub(super) struct RangePages {
    pub(super) nodes: Vec<NodePages>,
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    reverse: bool,
    entries_max: u32,
}

impl RangePages {
    /// Makes the ask for the next page of a node.
    pub(super) fn ask(&self, node: usize, ask: impl FnOnce(Ask<'_>) -> Asked) -> Asked {
        let last_key = self.nodes[node].last_key.as_deref();
        let range = RangeAsk {
            reverse: self.reverse,
            behind: last_key.is_some(),
            end: self.end.as_deref(),
            entries_max: self.entries_max,
            first: if self.reverse { &self.start } else { b"" },
        };
        let mut value = Vec::new();
        range.encode(&mut value);
        ask(Ask {
            id: 0,
            kind: AskKind::Range,
            acknowledgement: Acknowledgement::Memory,
            condition: Condition::None,
            lifetime_ms: None,
            wait_ms: 0,
            trace: None,
            key: last_key.unwrap_or(&self.start),
            value: &value,
        })
    }

    /// Whether every node has an entry to show, or none any more.
    ///
    /// # Errors
    /// What a node has failed with.
    fn are_here(&mut self) -> Result<bool, String> {
        let mut are_here = true;
        for node in &mut self.nodes {
            match &node.pages {
                Pages::Here(page) if page.entry().is_none() => {
                    node.pages = Pages::Wanted;
                    are_here = false;
                }
                Pages::Last(page) if page.entry().is_none() => node.pages = Pages::Over,
                Pages::Wanted | Pages::Asked => are_here = false,
                Pages::Failed(what) => return Err(what.clone()),
                Pages::Here(_) | Pages::Last(_) | Pages::Over => {}
            }
        }
        Ok(are_here)
    }

    fn page(&self, node: usize) -> Option<&Page> {
        match &self.nodes[node].pages {
            Pages::Here(page) | Pages::Last(page) => Some(page),
            _ => None,
        }
    }

    /// The node whose entry comes next.
    fn next(&self) -> Option<(usize, &[u8])> {
        let entries = (0..self.nodes.len()).filter_map(|node| {
            let entry = self.page(node)?.entry()?;
            Some((node, entry.key))
        });
        let by_key = |a: &(usize, &[u8]), b: &(usize, &[u8])| a.1.cmp(b.1);
        if self.reverse { entries.max_by(by_key) } else { entries.min_by(by_key) }
    }

    /// Takes the entry of a node.
    fn take(&mut self, node: usize) -> Option<(Vec<u8>, Object)> {
        let node = &mut self.nodes[node];
        let (Pages::Here(page) | Pages::Last(page)) = &mut node.pages else { return None };
        let entry = page.entry()?;
        let key = entry.key.to_vec();
        let value_length = entry.value.len() as u64;
        let head = Head { sequence: entry.sequence, written_at_ms: 0, value_length };
        let value = Value::Owned(entry.value.to_vec());
        page.advance();
        let last_key = node.last_key.get_or_insert_default();
        last_key.clear();
        last_key.extend_from_slice(&key);
        Some((key, Object { head, value }))
    }
}

struct MergedBody {
    pages: Arc<Mutex<RangePages>>,
    scan: Box<dyn Scan>,
    /// The entry of this node that comes next.
    own: Option<(Vec<u8>, Object)>,
    own_is_over: bool,
    form: Form,
    left: u64,
    open: Option<OpenEntry>,
    log: Log,
}

impl MergedBody {
    /// The next entry of all; nothing if it is not here yet or there is none.
    fn next(&mut self) -> Result<Next, String> {
        if self.own.is_none() && !self.own_is_over {
            let entry = self.scan.next().map_err(|error| error.to_string())?;
            self.own = entry.map(|(key, object)| (key.to_vec(), object));
            self.own_is_over = self.own.is_none();
        }
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if !pages.are_here()? {
            return Ok(Next::NotHere);
        }
        let other = match (pages.next(), &self.own) {
            (None, _) => None,
            (Some((node, _)), None) => Some(node),
            (Some((node, key)), Some((own, _))) => {
                let own = own.as_slice();
                let is_first = if pages.reverse { key > own } else { key < own };
                is_first.then_some(node)
            }
        };
        let entry = match other {
            Some(node) => pages.take(node),
            None => self.own.take(),
        };
        Ok(entry.map_or(Next::Over, |(key, object)| Next::Entry(key, object)))
    }
}

enum Next {
    Entry(Vec<u8>, Object),
    NotHere,
    Over,
}

impl BodySource for MergedBody {
    fn fill(&mut self, out: &mut Vec<u8>) -> Filled {
        let full = out.len() + READ_BYTES_MAX;
        while out.len() < full {
            if let Some(entry) = &mut self.open {
                if entry.write(out, self.form, full - out.len()) {
                    self.open = None;
                }
                continue;
            }
            if self.left == 0 {
                return Filled::Last;
            }
            match self.next() {
                Ok(Next::Over) => return Filled::Last,
                Ok(Next::NotHere) => return Filled::Waiting,
                Ok(Next::Entry(key, object)) => {
                    write_key(out, self.form, &key);
                    self.open = Some(OpenEntry::new(object));
                }
                Err(what) => {
                    self.log.error(&format!("a range over the cluster was cut short: {what}"));
                    return Filled::Broken;
                }
            }
            self.left -= 1;
        }
        Filled::More
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
        let nodes = (0..count).map(|node| NodePages {
            pages: if node == own { Pages::Over } else { Pages::Wanted },
            last_key: None,
        });
        let pages = RangePages {
            nodes: nodes.collect(),
            start: start.into_owned(),
            end: end.map(std::borrow::Cow::into_owned),
            reverse,
            entries_max: u32::try_from(left).unwrap_or(u32::MAX).max(1),
        };
        let pages = Arc::new(Mutex::new(pages));
        links.ranges.push((exchange.ticket(), Arc::downgrade(&pages)));
        exchange.timeline.stamp(Stamp::Executed);
        let form = crate::ranges::form_of(request);
        response.status(200).header("Content-Type", form.content_type());
        add_server_timing(response, exchange.timeline);
        response.finish_streamed(None);
        let log = self.shared.log.clone();
        let (own, own_is_over, open) = (None, false, None);
        let body = MergedBody { pages, scan, own, own_is_over, form, left, open, log };
        Handled::Stream(Box::new(body))
    }
}

//! The merged entries of the nodes of a cluster, whose pages the links of an event loop fetch.

use std::borrow::Cow;
use std::sync::Arc;

use pellucid_cluster::{MergedEntry, RangePages};
use pellucid_http::BodyWaker;
use pellucid_store::{Result as StoreResult, Store, StoreError, Table, Workers};
use pellucid_thread::{Mutex, contain};

use super::serve::page;
use super::served_request::AskResult;
use crate::answer::LoopMessage;
use crate::entities::ranges::{Entries, NextEntry};

/// The merged entries of all nodes: pages that are shared with the event loop's links, which fetch
/// those of the other nodes.
pub(super) struct MergedEntries {
    pages: Arc<Mutex<RangePages>>,
    own: OwnPages,
    /// The expiry of the entry that was returned last.
    expires_at_ms: Option<u64>,
}

/// The source of the pages of this node.
pub(super) struct OwnPages {
    /// The index of this node.
    pub(super) node: usize,
    pub(super) store: Arc<dyn Store>,
    pub(super) table: Table,
    pub(super) reminder: BodyWaker<LoopMessage>,
}

impl OwnPages {
    /// Reads the next page if it is wanted: on a worker, because that may take long or wait for the
    /// disk. If too many jobs wait for the workers, the page stays wanted; the links have the
    /// body ask for it again.
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
                Ok(_) => {
                    let what = "this node does not understand its own ask";
                    Err(StoreError::Failed(what.to_owned()))
                }
                Err(error) => Err(error),
            });
            let page = read.unwrap_or_else(|panicked| {
                panicked.tell();
                Err(StoreError::Failed("the read of a page has panicked".to_owned()))
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

impl MergedEntries {
    pub(super) fn new(pages: Arc<Mutex<RangePages>>, own: OwnPages) -> MergedEntries {
        MergedEntries { pages, own, expires_at_ms: None }
    }

    /// True if the next entry is known; if not, the page of this node is read if that is missing.
    ///
    /// # Errors
    /// The failure of a node.
    pub(super) fn are_here(&mut self) -> StoreResult<bool> {
        let are_here = self.pages.lock().are_here()?;
        if !are_here {
            self.own.ask(&self.pages);
        }
        Ok(are_here)
    }
}

impl Entries for MergedEntries {
    const NAME: &'static str = "a range over the cluster";

    fn next(&mut self) -> StoreResult<NextEntry<'_>> {
        if !self.are_here()? {
            return Ok(NextEntry::NotHere);
        }
        let next = self.pages.lock().take_next();
        let Some(MergedEntry { key, object, expires_at_ms }) = next else {
            return Ok(NextEntry::Over);
        };
        self.expires_at_ms = expires_at_ms;
        Ok(NextEntry::Here(Cow::Owned(key), object))
    }

    fn expires_at_ms(&self) -> Option<u64> {
        self.expires_at_ms
    }
}

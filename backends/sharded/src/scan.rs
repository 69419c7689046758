//! A scan over the ranges of all nodes, for threads that may wait.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use pellucid_cluster::{Answer, Failure, MergedEntry, Outcome, OwnerAnswer, RangePages};
use pellucid_store::{Head, Object, Range, Result, Scan};

use crate::driver::{OwnedAsk, PendingAnswer, ReceivedAnswer};
use crate::shared_state::{OpenTable, SharedState};

type NodePage = (usize, std::result::Result<ReceivedAnswer, Failure>);

/// A scan over the ranges of all nodes, merged in the order of keys.
pub(crate) struct ShardedScan {
    inner: Arc<SharedState>,
    table: OpenTable,
    pages: RangePages,
    sender: Sender<NodePage>,
    came: Receiver<NodePage>,
    entry: Option<MergedEntry>,
}

impl ShardedScan {
    pub(crate) fn new(inner: Arc<SharedState>, table: OpenTable, range: Range<'_>) -> ShardedScan {
        let Range { start, end, reverse } = range;
        let nodes = inner.cluster.nodes().nodes().len();
        let (start, end) = (start.to_vec(), end.map(<[u8]>::to_vec));
        let pages = RangePages::new(nodes, start, end, reverse, u32::MAX);
        let (sender, came) = channel();
        ShardedScan { inner, table, pages, sender, came, entry: None }
    }

    /// Moves to the next entry. Returns false at the end.
    fn advance(&mut self) -> Result<bool> {
        while !self.pages.are_here()? {
            for node in self.pages.wanted() {
                self.ask(node);
            }
            let (node, result) = self.came.recv().expect("the scan holds a sender itself");
            match result {
                Err(failure) => self.pages.bring(node, Outcome::Failed(failure)),
                Ok(ReceivedAnswer { answer, payload }) => {
                    let OwnerAnswer { answer, times } = answer;
                    let answer = Answer { payload: &payload, ..answer };
                    self.pages.bring(node, Outcome::Answered(answer, times));
                }
            }
        }
        self.entry = self.pages.take_next();
        Ok(self.entry.is_some())
    }

    fn ask(&mut self, node: usize) {
        let (inner, sender, name) = (&self.inner, &self.sender, &self.table.name);
        self.pages.ask(node, |ask| {
            let ask = OwnedAsk {
                kind: ask.kind,
                acknowledgement: ask.acknowledgement,
                condition: ask.condition,
                lifetime_ms: None,
                table: (Arc::clone(name), 0),
                key: ask.key.to_vec(),
                value: ask.value.to_vec(),
            };
            let sender = sender.clone();
            let waiting = PendingAnswer::new(move |result| {
                // The send fails if the scan was dropped, which needs no page.
                let _ = sender.send((node, result));
            });
            inner.driver.ask(node, ask, waiting);
            Ok(())
        });
    }
}

impl Scan for ShardedScan {
    fn next(&mut self) -> Result<Option<(&[u8], Object)>> {
        if !self.advance()? {
            return Ok(None);
        }
        Ok(self.entry.as_ref().map(|entry| (entry.key.as_slice(), entry.object.clone())))
    }

    fn next_head(&mut self) -> Result<Option<(&[u8], Head)>> {
        if !self.advance()? {
            return Ok(None);
        }
        Ok(self.entry.as_ref().map(|entry| (entry.key.as_slice(), entry.object.head)))
    }

    fn expires_at_ms(&self) -> Option<u64> {
        self.entry.as_ref()?.expires_at_ms
    }
}

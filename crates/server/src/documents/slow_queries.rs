//! The time of slow queries by the nodes of their plans, noted for a while by the number of the
//! request. The account of requests says that a query was slow, and not why.

use std::collections::VecDeque;
use std::sync::PoisonError;

use pellucid_account::request_name;
use pellucid_aql::{Execution, NodeAccount};
use pellucid_document::{QueryData, StoreAccount};
use pellucid_thread::Mutex;
use serde_json::{Value, json};

use super::query_extra::store_account;
use super::running::beginning;

/// Queries that are noted, the newest: as many as the account keeps of slow requests, and more.
const NOTED_MAX: usize = 1_024;
/// A query that ran for less is not noted: 1 ms.
const NOTED_FROM_NS: u64 = 1_000_000;
/// Bytes of a query's text that are kept.
const TEXT_BYTES_MAX: usize = 512;
/// Nodes of a plan that are kept, those first that took longest.
const NODES_MAX: usize = 8;

/// A query that took its time.
#[derive(Clone, Debug)]
pub(crate) struct SlowQuery {
    request: u64,
    text: String,
    nodes: Vec<NodeAccount>,
    /// The node that took longest, and why.
    slowest: String,
    store: Option<StoreAccount>,
}

impl SlowQuery {
    /// The node that took longest, and why, as a sentence.
    pub(crate) fn reason(&self) -> &str {
        &self.slowest
    }

    /// As JSON; the text of the query may have values in it, and is shown only if they may be.
    pub(crate) fn shown(&self, with_text: bool) -> Value {
        let node = |node: &NodeAccount| {
            json!({
                "id": node.id, "type": node.name, "calls": node.calls, "rows": node.rows,
                "filtered": node.filtered, "duration_ns": node.own_ns,
            })
        };
        let nodes: Vec<_> = self.nodes.iter().map(node).collect();
        let mut shown = json!({ "reason": self.slowest, "nodes": nodes });
        if let Some(account) = &self.store {
            shown["store"] = store_account(account);
        }
        if with_text {
            shown["text"] = json!(self.text);
        }
        shown
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct SlowQueries {
    noted: Mutex<VecDeque<SlowQuery>>,
}

impl SlowQueries {
    /// Notes what a query has done so far, if that took long enough.
    pub(crate) fn note(&self, request: u64, text: &str, execution: &Execution, data: &QueryData) {
        if execution.elapsed_ns() < NOTED_FROM_NS {
            return;
        }
        let Some((slowest, why)) = execution.slowest_node() else { return };
        let mut nodes = execution.nodes();
        nodes.sort_by_key(|node| std::cmp::Reverse(node.own_ns));
        nodes.truncate(NODES_MAX);
        let noted = SlowQuery {
            request,
            text: beginning(text, TEXT_BYTES_MAX).to_owned(),
            nodes,
            slowest: format!("node {} ({}): {why}", slowest.id, slowest.name),
            store: data.store_account(),
        };
        let mut all = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == NOTED_MAX {
            all.pop_front();
        }
        all.push_back(noted);
    }

    /// The query that the request of this number asked.
    pub(crate) fn of_request(&self, request: u64) -> Option<SlowQuery> {
        self.find(|noted| noted.request == request)
    }

    /// As [`Self::of_request`], by the number as the account shows it.
    pub(crate) fn of_name(&self, name: &str) -> Option<SlowQuery> {
        self.find(|noted| request_name(noted.request) == name)
    }

    fn find(&self, is_it: impl Fn(&SlowQuery) -> bool) -> Option<SlowQuery> {
        let all = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().rev().find(|noted| is_it(noted)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        let text = "ü".repeat(TEXT_BYTES_MAX);
        assert_eq!(beginning(&text, TEXT_BYTES_MAX).len(), TEXT_BYTES_MAX);
        assert_eq!(beginning(&format!("x{text}"), TEXT_BYTES_MAX).len(), TEXT_BYTES_MAX - 1);
        assert_eq!(beginning("RETURN 1", TEXT_BYTES_MAX), "RETURN 1");
    }
}

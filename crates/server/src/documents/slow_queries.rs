//! Notes of slow queries: the time of each by the nodes of its plan, under the number of its
//! request. The account of requests tells that a request was slow; these notes tell why.

use std::collections::VecDeque;

use pellucid_account::request_name;
use pellucid_aql::{Execution, NodeAccount};
use pellucid_document::{QueryData, StoreAccount};
use pellucid_thread::Mutex;
use pellucid_value::beginning;
use serde_json::{Value, json};

use super::query_extra::store_account;

/// The most notes; the oldest is dropped first. The account keeps fewer slow requests than this.
const NOTED_MAX: usize = 1_024;
/// The least running time of a query that is noted: 1 ms.
const NOTED_FROM_NS: u64 = 1_000_000;
/// The most bytes of a query's text in a note.
const TEXT_BYTES_MAX: usize = 512;
/// The most nodes of a plan in a note, slowest first.
const NODES_MAX: usize = 8;

/// The note of a slow query.
#[derive(Clone, Debug)]
pub(crate) struct SlowQuery {
    request: u64,
    text: String,
    nodes: Vec<NodeAccount>,
    /// A sentence with the slowest node and the reason.
    slowest: String,
    store: Option<StoreAccount>,
}

impl SlowQuery {
    /// A sentence with the slowest node and the reason why it was slow.
    pub(crate) fn reason(&self) -> &str {
        &self.slowest
    }

    /// The note as JSON. The text of the query may contain values of users, so it is shown only if
    /// `with_text`.
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

/// The notes of the newest slow queries.
#[derive(Default)]
pub(crate) struct SlowQueries {
    noted: Mutex<VecDeque<SlowQuery>>,
}

impl SlowQueries {
    /// Notes a query if it has run for long enough so far.
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
        let mut all = self.noted.lock();
        if all.len() == NOTED_MAX {
            all.pop_front();
        }
        all.push_back(noted);
    }

    /// The newest note of the request with this number.
    pub(crate) fn of_request(&self, request: u64) -> Option<SlowQuery> {
        self.find(|noted| noted.request == request)
    }

    /// As [`Self::of_request`], by the request's name in the account.
    pub(crate) fn of_name(&self, name: &str) -> Option<SlowQuery> {
        self.find(|noted| request_name(noted.request) == name)
    }

    fn find(&self, is_it: impl Fn(&SlowQuery) -> bool) -> Option<SlowQuery> {
        let all = self.noted.lock();
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

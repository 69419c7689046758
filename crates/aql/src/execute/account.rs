//! The account of a plan's nodes: the work of each, and the slowest one with a reason. The reason
//! names something that the author of the query can change.

use pellucid_value::{ObjectBuilder, Value};

use super::Execution;
use crate::IndexKind;
use crate::tree::{Code, IndexAccess, Node, NodeKind, Slot};

/// The work of a node so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAccount {
    /// Its number in the plan.
    pub id: usize,
    /// ArangoDB's name of such a node.
    pub name: &'static str,
    /// The number of times that it was asked for rows.
    pub calls: u64,
    /// The number of rows that it returned.
    pub rows: u64,
    /// The number of rows that its filter left out.
    pub filtered: u64,
    /// The nanoseconds that it took without the nodes before it; zero if nodes are not timed
    /// ([`QueryOptions::profile`](crate::QueryOptions::profile)).
    pub own_ns: u64,
}

impl Execution {
    /// The work of each node so far, in the order of the plan.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeAccount> {
        let (mut before_ns, mut filtered_before) = (0, 0);
        let nodes = self.plan.pipeline.nodes.iter().zip(&self.nodes).map(|(node, run)| {
            let account = NodeAccount {
                id: node.id,
                name: node.kind.name(),
                calls: run.calls,
                rows: run.items,
                filtered: run.filtered.saturating_sub(filtered_before),
                own_ns: run.runtime_ns.saturating_sub(before_ns),
            };
            // The time and the counts of a node are included in those of the nodes after it.
            (before_ns, filtered_before) = (run.runtime_ns, run.filtered.max(filtered_before));
            account
        });
        nodes.collect()
    }

    /// The slowest node, and a sentence with the reason. It names attributes and collections, but
    /// no values.
    #[must_use]
    pub fn slowest_node(&self) -> Option<(NodeAccount, String)> {
        let accounts = self.nodes();
        let (place, account) =
            accounts.into_iter().enumerate().max_by_key(|(_, account)| account.own_ns)?;
        let why = reason(&self.plan.pipeline.nodes[place], &account);
        Some((account, why))
    }

    /// The profile in ArangoDB's format. For each node: its number, its calls, its rows, and, if
    /// nodes are timed, the seconds that it took including the nodes before it (`runtime`) and the
    /// seconds of those nodes alone (`fetching`).
    #[must_use]
    pub fn profile(&self) -> Value {
        let mut fetching_ns = 0;
        let mut shown = Vec::new();
        for account in self.nodes() {
            let runtime_ns = fetching_ns + account.own_ns;
            let mut node = ObjectBuilder::new();
            let count = |count: u64| Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
            node.insert("id", Value::count(account.id));
            node.insert("calls", count(account.calls));
            node.insert("parallel", Value::Int(0));
            node.insert("items", count(account.rows));
            node.insert("filtered", count(account.filtered));
            node.insert("runtime", Value::from(runtime_ns as f64 / 1e9));
            node.insert("fetching", Value::from(fetching_ns as f64 / 1e9));
            fetching_ns = runtime_ns;
            shown.push(node.finish().unwrap_or_default());
        }
        // It cannot exceed a limit: it is flat, and smaller than the plan.
        Value::array(shown).unwrap_or_default()
    }
}

/// The reason for the time that a node takes.
fn reason(node: &Node, account: &NodeAccount) -> String {
    let (rows, seen) = (account.rows, account.rows + account.filtered);
    match &node.kind {
        NodeKind::EnumerateCollection { collection, slot, filter } => {
            let read = format!("it read all documents of `{}`: {seen}", collection.name);
            match attributes(filter, *slot) {
                _ if filter.is_empty() => format!("{read}; it has no filter"),
                names if names.is_empty() => format!("{read}; its filter kept {rows}"),
                names => format!(
                    "{read}; its filter on {} kept {rows}, and no index answers it",
                    names.join(", ")
                ),
            }
        }
        NodeKind::Index(access) => looked_up(access, rows, seen),
        NodeKind::EnumerateList { .. } => format!("it gave {rows} elements of lists"),
        NodeKind::Filter { .. } => {
            format!("it computed a condition for {seen} rows, and kept {rows}")
        }
        NodeKind::Sort { limit: Some(limit), .. } => {
            format!("it sorted, keeping {limit} rows at a time; no index has the order")
        }
        NodeKind::Sort { limit: None, .. } => {
            format!("it sorted {rows} rows; no index has the order")
        }
        NodeKind::Collect(_) => format!("it made {rows} groups"),
        NodeKind::Calculation { code: Code::Subquery(_), .. } => {
            format!("it ran a subquery for each of {rows} rows")
        }
        NodeKind::Write(_) | NodeKind::Upsert(_) => format!("it wrote {rows} documents"),
        NodeKind::Return { .. } => format!("it computed {rows} values of the result"),
        NodeKind::Singleton
        | NodeKind::NoResults
        | NodeKind::Limit { .. }
        | NodeKind::Calculation { .. } => format!("it gave {rows} rows"),
    }
}

fn looked_up(access: &IndexAccess, rows: u64, seen: u64) -> String {
    let index = match access.index.kind {
        IndexKind::Primary => "the keys".to_owned(),
        _ => format!("the index `{}`", access.index.name),
    };
    let documents = if access.is_covering { "none of the documents" } else { "their documents" };
    let read = format!(
        "it read {seen} entries from {index} of `{}`, and {documents}",
        access.collection.name
    );
    match attributes(&access.filter, access.slot) {
        _ if access.filter.is_empty() => read,
        names if names.is_empty() => format!("{read}; a further filter kept {rows}"),
        names => format!(
            "{read}; a further filter on {} kept {rows}, and the index does not answer it",
            names.join(", ")
        ),
    }
}

/// The paths of the document's attributes in its filter.
fn attributes(filter: &[Code], document: Slot) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for code in filter {
        code.walk(&mut |part| {
            if let Code::Path(slot, names) = part
                && *slot == document
                && !names.is_empty()
            {
                let name = format!("`{}`", names.join("."));
                if !found.contains(&name) {
                    found.push(name);
                }
            }
        });
    }
    found
}

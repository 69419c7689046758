//! Asks a server for its own account of a load, if it keeps one.

use pellucid_account::{OperationAccount, Snapshot};
use pellucid_load::{LoadOptions, LoadResult, Target};

/// The server's account of the time of the run, for the operation that occurred most.
pub(super) fn of_run(options: &LoadOptions, result: &LoadResult) -> Option<OperationAccount> {
    window(options, result.duration.as_secs() + 1)
}

/// The accounts of all nodes that requests went to, in the order of the nodes. See [`of_run`].
pub(super) fn of_nodes(
    options: &LoadOptions,
    result: &LoadResult,
) -> Vec<Option<OperationAccount>> {
    let nodes = result.direct.iter().flat_map(|direct| &direct.nodes);
    let accounts = nodes.map(|(url, _)| {
        let target = Target::parse(url).ok()?;
        of_run(&LoadOptions { target, ..options.clone() }, result)
    });
    accounts.collect()
}

/// The server's account of the last `seconds`; `None` if it gives none.
fn window(options: &LoadOptions, seconds: u64) -> Option<OperationAccount> {
    let path = format!("/_admin/account?window={}", seconds.clamp(1, 590));
    let (status, answer) = options.ask(&path, "").ok()?;
    if status != 200 {
        return None;
    }
    let snapshot: Snapshot = serde_json::from_slice(&answer.body).ok()?;
    let asked = snapshot.operations.into_iter().filter(|account| account.operation != "admin");
    asked.max_by_key(|account| account.count)
}

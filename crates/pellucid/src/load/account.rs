//! Asks a server for its own account of a load, if it keeps one.

use std::time::Duration;

use pellucid_account::{OperationAccount, Snapshot};
use pellucid_load::{LoadOptions, LoadResult, Target};

/// The pause between two runs, in which a backlog drains. A window of the server's account counts
/// whole seconds, so the pause also keeps each run out of the window of the next.
pub(crate) const PAUSE: Duration = Duration::from_millis(1_100);
/// The longest window of the account that a server keeps, in seconds.
pub(super) const WINDOW_MAX: u64 = 590;

/// The server's accounts of the time of the run, or of the end of a run longer than [`WINDOW_MAX`]:
/// one for each operation and outcome, that of the most requests first.
pub(crate) fn of_run(options: &LoadOptions, result: &LoadResult) -> Vec<OperationAccount> {
    window(options, result.duration.as_secs() + 1).unwrap_or_default()
}

/// The account of each node that requests went to, for the operation that occurred most, in the
/// order of the nodes. See [`of_run`].
pub(super) fn of_nodes(
    options: &LoadOptions,
    result: &LoadResult,
) -> Vec<Option<OperationAccount>> {
    let nodes = result.direct.iter().flat_map(|direct| &direct.nodes);
    let accounts = nodes.map(|(url, _)| {
        let target = Target::parse(url).ok()?;
        of_run(&LoadOptions { target, ..options.clone() }, result).into_iter().next()
    });
    accounts.collect()
}

/// The server's accounts of the last `seconds`; `None` if it gives none.
fn window(options: &LoadOptions, seconds: u64) -> Option<Vec<OperationAccount>> {
    let path = format!("/_admin/account?window={}", seconds.clamp(1, WINDOW_MAX));
    let (status, answer) = options.ask(&path).ok()?;
    if status != 200 {
        return None;
    }
    let snapshot: Snapshot = serde_json::from_slice(&answer.body).ok()?;
    let mut asked = snapshot.operations;
    asked.retain(|account| account.operation != "admin" && account.count > 0);
    asked.sort_by_key(|account| std::cmp::Reverse(account.count));
    Some(asked)
}

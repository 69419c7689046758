//! What the server itself says of a load, if it is one that keeps an account.

use pellucid_account::{OperationAccount, Snapshot};
use pellucid_load::{LoadOptions, LoadResult, ask};

/// The server's account of the last seconds: of the operation that occurred most.
pub(super) fn of_run(options: &LoadOptions, result: &LoadResult) -> Option<OperationAccount> {
    window(options, result.duration.as_secs() + 1)
}

/// The server's account of the last `seconds`.
fn window(options: &LoadOptions, seconds: u64) -> Option<OperationAccount> {
    let path = format!("/_admin/account?window={}", seconds.clamp(1, 590));
    let (status, answer) = ask(options, &path, "").ok()?;
    if status != 200 {
        return None;
    }
    let snapshot: Snapshot = serde_json::from_slice(&answer.body).ok()?;
    let asked = snapshot.operations.into_iter().filter(|account| account.operation != "admin");
    asked.max_by_key(|account| account.count)
}

/// A phase and its mean at two loads.
pub(super) struct Growth {
    pub(super) phase: String,
    pub(super) before_ns: f64,
    pub(super) after_ns: f64,
}

impl Growth {
    /// What was added from one load to the other.
    pub(super) fn added_ns(&self) -> f64 {
        self.after_ns - self.before_ns
    }
}

/// The phases of two accounts, the one that grew most first. The wait for the event loop's
/// attention is named apart from the rest of `receive`, because it is where a queue builds up.
pub(super) fn growth(before: &OperationAccount, after: &OperationAccount) -> Vec<Growth> {
    let mut all = vec![Growth {
        phase: "loop wait".to_owned(),
        before_ns: before.loop_wait.mean_ns,
        after_ns: after.loop_wait.mean_ns,
    }];
    for phase in &after.phases {
        let earlier = before.phases.iter().find(|other| other.name == phase.name);
        let mut before_ns = earlier.map_or(0.0, |other| other.distribution.mean_ns);
        let mut after_ns = phase.distribution.mean_ns;
        if phase.name == "receive" {
            before_ns -= before.loop_wait.mean_ns;
            after_ns -= after.loop_wait.mean_ns;
        }
        all.push(Growth { phase: phase.name.clone(), before_ns, after_ns });
    }
    all.sort_by(|a, b| b.added_ns().total_cmp(&a.added_ns()));
    all
}

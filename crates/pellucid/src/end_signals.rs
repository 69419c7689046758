//! Signals that end a command.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The signals that end a command which cleans up behind itself. Without SIGHUP if that is ignored:
/// under `nohup`, a command goes on without its terminal.
pub(crate) fn end_signals() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let is_ignored = ignored.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1);
    let hang_up = (!is_ignored).then_some(SIGHUP);
    [SIGINT, SIGTERM].into_iter().chain(hang_up).collect()
}

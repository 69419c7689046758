//! Chooses the parts of the measurement. All parts take a quarter of an hour for two peers, so work
//! on one part needs a way to run only that.

use crate::peer::Outcome;

/// The scan and look-ups before compaction.
pub const SETTLED: &str = "settled";
/// The scan after compaction.
pub const SCAN: &str = "scan";
/// Look-ups after compaction.
pub const READS: &str = "reads";
/// Readers beside a writer.
pub const BESIDE: &str = "beside";
/// Opening after a clean stop.
pub const OPEN: &str = "open";
/// Look-ups in bounded memory.
pub const CONFINED: &str = "confined";
/// Opening after a kill.
pub const KILL: &str = "kill";
/// All optional parts. The fill and the compaction always run, because the others need them.
const ALL: [&str; 7] = [SETTLED, SCAN, READS, BESIDE, OPEN, CONFINED, KILL];

/// The environment variable with the parts to run, separated by commas; all if it is not set.
/// Children inherit it.
const VARIABLE: &str = "WORK";

/// Returns true if `part` runs.
pub fn is_wanted(part: &str) -> bool {
    let wanted = std::env::var(VARIABLE);
    wanted.map_or(true, |names| names.split(',').any(|name| name == part))
}

/// Refuses unknown names of parts.
pub fn check() -> Outcome<()> {
    let Ok(names) = std::env::var(VARIABLE) else { return Ok(()) };
    let unknown = names.split(',').find(|name| !name.is_empty() && !ALL.contains(name));
    unknown.map_or(Ok(()), |name| {
        Err(format!("{VARIABLE} names {name:?}; there are {}", ALL.join(", ")))
    })
}

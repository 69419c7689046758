//! Which parts of the measurement run. All of them take a quarter of an hour for two peers; who
//! works on one of them wants that one.

use crate::peer::Outcome;

/// Scan and look-ups before everything is merged.
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
/// All parts but the fill and the compaction, which the others need.
const ALL: [&str; 7] = [SETTLED, SCAN, READS, BESIDE, OPEN, CONFINED, KILL];

/// The names of the parts that run, with commas; all of them if it is not set. Children inherit it.
const VARIABLE: &str = "WORK";

/// Whether `part` runs.
pub fn is_wanted(part: &str) -> bool {
    let wanted = std::env::var(VARIABLE);
    wanted.map_or(true, |names| names.split(',').any(|name| name == part))
}

/// Refuses names of no part.
pub fn check() -> Outcome<()> {
    let Ok(names) = std::env::var(VARIABLE) else { return Ok(()) };
    let unknown = names.split(',').find(|name| !name.is_empty() && !ALL.contains(name));
    unknown.map_or(Ok(()), |name| {
        Err(format!("{VARIABLE} names {name:?}; there are {}", ALL.join(", ")))
    })
}

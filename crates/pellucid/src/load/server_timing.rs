//! What a server tells of its phases in the header `Server-Timing` (W3C), asked a few times a
//! second while a load is on: for servers that keep no account.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pellucid_load::{LoadOptions, ask};

use super::account::Growth;

/// The time between two questions.
const INTERVAL: Duration = Duration::from_millis(20);
/// Phases that are kept apart.
const PHASES_MAX: usize = 64;

/// Sums of durations in nanoseconds and how many there were, by phase.
pub(super) type Sums = BTreeMap<String, (f64, u64)>;

/// Asks for the target's path until `stop` is raised, and sums up what the header says.
pub(super) fn ask_until(options: &LoadOptions, stop: &AtomicBool) -> Sums {
    let mut sums = Sums::new();
    while !stop.load(Ordering::Relaxed) {
        let path = options.target.path();
        let Ok((_, answer)) = ask(options, path, "Prefer: timing\r\n") else { break };
        let head = String::from_utf8_lossy(&answer.head);
        let mut found = false;
        for line in head.lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("server-timing") {
                found = true;
                add(&mut sums, value);
            }
        }
        if !found {
            break;
        }
        std::thread::sleep(INTERVAL);
    }
    sums
}

/// Adds the metrics of one header: `parse;dur=0.01, execute;desc="x";dur=1.5`, in milliseconds.
fn add(sums: &mut Sums, header: &str) {
    for metric in header.split(',') {
        let mut parts = metric.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let duration = parts.find_map(|part| part.strip_prefix("dur=")?.parse::<f64>().ok());
        let Some(duration_ms) = duration.filter(|ms| ms.is_finite() && *ms >= 0.0) else {
            continue;
        };
        if !name.is_empty() && (sums.len() < PHASES_MAX || sums.contains_key(name)) {
            let (sum_ns, count) = sums.entry(name.to_owned()).or_default();
            *sum_ns += duration_ms * 1e6;
            *count += 1;
        }
    }
}

/// The phases that both loads told of, the one that grew most first. A total is no phase.
pub(super) fn growth(before: &Sums, after: &Sums) -> Vec<Growth> {
    let mean = |(sum_ns, count): &(f64, u64)| sum_ns / (*count).max(1) as f64;
    let both = after.iter().filter(|(name, _)| name.as_str() != "total");
    let mut all: Vec<Growth> = both
        .filter_map(|(name, after)| {
            let before_ns = mean(before.get(name)?);
            Some(Growth { phase: name.clone(), before_ns, after_ns: mean(after) })
        })
        .collect();
    all.sort_by(|a, b| b.added_ns().total_cmp(&a.added_ns()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_summed_and_compared() {
        let (mut before, mut after) = (Sums::new(), Sums::new());
        add(&mut before, " parse;dur=0.5, db;desc=\"a b\";dur=2, total;dur=2.5, cache");
        add(&mut before, "parse;dur=1.5,db;dur=nonsense,;dur=3");
        add(&mut after, "db;dur=7, parse;dur=1.1, total;dur=8.1");
        assert_eq!(before["parse"], (2e6, 2));
        assert_eq!(before["db"], (2e6, 1));
        let growth = growth(&before, &after);
        let told: Vec<(&str, f64)> =
            growth.iter().map(|g| (g.phase.as_str(), (g.added_ns() / 1e5).round())).collect();
        assert_eq!(told, [("db", 50.0), ("parse", 1.0)]);
    }
}

//! How punctual a machine can be: a thread that does nothing but look at the clock is kept from it
//! by interrupts, and by a host that runs somebody else on the processor without saying so. What is
//! due in such a gap is late by what is left of it, whoever was to do it.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::peers::{LOAD_CORE, text};

/// How long one look takes.
const LOOK: Duration = Duration::from_secs(1);
/// Shorter gaps are the look itself.
const GAP_NS: u64 = 1_000;
/// The percentile that is told, as a share of all instants.
const LATE_SHARE: f64 = 0.01;

/// The 99th percentile of the lateness of instants at random on the core of the load, in
/// microseconds: no generator on it is more punctual.
pub fn floor_us() -> Result<f64, String> {
    let program = std::env::current_exe().map_err(text)?;
    let output = Command::new("taskset")
        .args(["-c", LOAD_CORE])
        .arg(program)
        .arg("floor")
        .output()
        .map_err(text)?;
    let said = String::from_utf8_lossy(&output.stdout);
    said.trim().parse().map_err(|error| format!("the look at the clock said {said:?}: {error}"))
}

/// Looks at the clock, and prints that percentile.
pub fn look() -> Result<bool, String> {
    let begin = Instant::now();
    let (mut before, mut gaps) = (0, Vec::with_capacity(1 << 16));
    let all_ns = loop {
        let now = u64::try_from(begin.elapsed().as_nanos()).map_err(text)?;
        if now - before > GAP_NS {
            gaps.push(now - before);
        }
        before = now;
        if now > LOOK.as_nanos() as u64 {
            break now;
        }
    };
    println!("{:.1}", late_ns(&gaps, all_ns) as f64 / 1e3);
    Ok(true)
}

/// The lateness that a hundredth of all instants pass, in nanoseconds.
fn late_ns(gaps: &[u64], all_ns: u64) -> u64 {
    let allowed = all_ns as f64 * LATE_SHARE;
    let later = |ns: u64| gaps.iter().map(|gap| gap.saturating_sub(ns)).sum::<u64>() as f64;
    let (mut low, mut high) = (0, all_ns);
    while low < high {
        let middle = low + (high - low) / 2;
        if later(middle) > allowed { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::late_ns;

    #[test]
    fn instants_in_a_gap_are_late_by_what_is_left_of_it() {
        assert_eq!(late_ns(&[], 1_000_000), 0);
        assert_eq!(late_ns(&[9_000], 1_000_000), 0, "less than a hundredth is late at all");
        assert_eq!(late_ns(&[30_000], 1_000_000), 20_000);
        assert_eq!(late_ns(&[20_000, 20_000], 1_000_000), 15_000);
    }
}

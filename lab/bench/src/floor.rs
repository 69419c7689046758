//! How punctual a machine can be: a thread that does nothing but look at the clock is kept from it
//! by interrupts, and by a host that runs somebody else on the processor without saying so. What is
//! due in such a gap is late by what is left of it, whoever was to do it.
//!
//! A virtual machine leaves its processor to the host when it wakes another one, and may not get it
//! back at once. So there is a second thread that wakes a process on the other core at the rate of
//! the requests, and does nothing else.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::peers::{LOAD_CORE, SERVER_CORE, text};

/// How long one look takes.
const LOOK: Duration = Duration::from_secs(1);
/// Shorter gaps are the look itself.
const GAP_NS: u64 = 1_000;
/// The percentile that is told, as a share of all instants.
const LATE_SHARE: f64 = 0.01;
/// How often the second thread wakes the process on the other core, and how many times.
const WAKE_EVERY: Duration = Duration::from_micros(100);
const WAKES: u32 = 10_000;

/// The 99th percentiles, in microseconds, of the lateness on the core of the load.
#[derive(Clone, Copy)]
pub struct Floor {
    /// Of instants at random, to a thread that only looks at the clock: no generator is more
    /// punctual.
    pub looking_us: f64,
    /// Of instants at the rate of the requests, to a thread that wakes another process at each.
    pub waking_us: f64,
}

/// Has both threads run on the core of the load, one after the other.
pub fn floor() -> Result<Floor, String> {
    let program = std::env::current_exe().map_err(text)?;
    let output = Command::new("taskset")
        .args(["-c", LOAD_CORE])
        .arg(program)
        .arg("floor")
        .output()
        .map_err(text)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let mut figures = said.split_whitespace().map(str::parse);
    match (figures.next(), figures.next()) {
        (Some(Ok(looking_us)), Some(Ok(waking_us))) => Ok(Floor { looking_us, waking_us }),
        _ => Err(format!("the look at the clock said {said:?}")),
    }
}

/// Looks at the clock, and prints both percentiles.
pub fn look() -> Result<bool, String> {
    println!("{:.1} {:.1}", looking_ns()? as f64 / 1e3, waking_ns()? as f64 / 1e3);
    Ok(true)
}

fn looking_ns() -> Result<u64, String> {
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
    Ok(late_ns(&gaps, all_ns))
}

fn waking_ns() -> Result<u64, String> {
    let mut woken = Command::new("taskset")
        .args(["-c", SERVER_CORE, "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(text)?;
    let mut pipe = woken.stdin.take().ok_or("the process has no input")?;
    let begin = Instant::now();
    let mut lates_ns = Vec::with_capacity(WAKES as usize);
    for due in (1..=WAKES).map(|wake| WAKE_EVERY * wake) {
        let late = loop {
            if let Some(late) = begin.elapsed().checked_sub(due) {
                break late;
            }
        };
        lates_ns.push(late.as_nanos() as u64);
        pipe.write_all(b".").map_err(text)?;
    }
    drop(pipe);
    woken.wait().map_err(text)?;
    lates_ns.sort_unstable();
    Ok(lates_ns[((1.0 - LATE_SHARE) * f64::from(WAKES)) as usize])
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

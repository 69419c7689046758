//! The lateness that the machine itself causes. Even a thread that only reads the clock in a loop
//! is stopped: by interrupts, and by a host that runs another guest on the processor without
//! telling this one. An event that is due in such a gap is late by the rest of the gap, whichever
//! program was to handle it.
//!
//! When a virtual machine wakes another processor, it gives its own to the host, and may not get it
//! back at once. So a second measurement wakes a process on the other core at the rate of the
//! requests, and does nothing else.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::peers::{LOAD_CORE, SERVER_CORE, text};

/// The duration of the measurement that only reads the clock.
const LOOK: Duration = Duration::from_secs(1);
/// The shortest gap that counts. Shorter ones are the time that reading the clock takes.
const GAP_NS: u64 = 1_000;
/// The share of all instants that is later than the reported percentile.
const LATE_SHARE: f64 = 0.01;
/// The interval at which the second measurement wakes the process on the other core, and the number
/// of times.
const WAKE_EVERY: Duration = Duration::from_micros(100);
const WAKES: u32 = 10_000;

/// The 99th percentiles, in microseconds, of the lateness on the core of the load.
#[derive(Clone, Copy)]
pub struct LatenessFloor {
    /// The lateness of random instants in a thread that only reads the clock. No load generator can
    /// be more punctual.
    pub looking_us: f64,
    /// The lateness of instants at the rate of the requests, in a thread that wakes another process
    /// at each of them.
    pub waking_us: f64,
}

/// Runs both measurements on the core of the load, one after the other, in a process of their own.
pub fn floor() -> Result<LatenessFloor, String> {
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
        (Some(Ok(looking_us)), Some(Ok(waking_us))) => Ok(LatenessFloor { looking_us, waking_us }),
        _ => Err(format!("the look at the clock said {said:?}")),
    }
}

/// Runs both measurements in this process, and prints both percentiles.
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

/// The 99th percentile of the lateness of all instants in `all_ns`, in nanoseconds.
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
    fn instants_in_a_gap_are_late_by_the_rest_of_the_gap() {
        assert_eq!(late_ns(&[], 1_000_000), 0);
        assert_eq!(late_ns(&[9_000], 1_000_000), 0, "less than a hundredth is late at all");
        assert_eq!(late_ns(&[30_000], 1_000_000), 20_000);
        assert_eq!(late_ns(&[20_000, 20_000], 1_000_000), 15_000);
    }
}

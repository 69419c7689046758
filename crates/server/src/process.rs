//! Figures of this process, from the operating system.

use std::path::Path;

use pellucid_thread::{RunAccount, RunTimes};

/// The beginning of the names of threads that answer requests.
const EVENT_LOOP: &str = "pellucid-loop";

/// Figures of this process; zero where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessFigures {
    /// User and system time so far.
    pub cpu_seconds: f64,
    /// Resident memory, mapped files included.
    pub resident_bytes: u64,
    /// Resident memory that is not of files.
    pub anonymous_bytes: u64,
    /// The event loops: `waited_ns` is the time for which others had the processors.
    pub loops: RunTimes,
}

impl ProcessFigures {
    /// The figures now.
    #[must_use]
    pub fn now() -> ProcessFigures {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        ProcessFigures {
            cpu_seconds: cpu_seconds(),
            resident_bytes: kilobytes(&status, "VmRSS:") * 1_024,
            anonymous_bytes: kilobytes(&status, "RssAnon:") * 1_024,
            loops: loop_times(),
        }
    }
}

/// The times of the event loops of this process.
pub(crate) fn loop_times() -> RunTimes {
    times_of_loops(Path::new("/proc/self/task"))
}

/// The times of the event loops among the threads whose accounts are in a folder.
fn times_of_loops(tasks: &Path) -> RunTimes {
    let mut sum = RunTimes::default();
    for task in std::fs::read_dir(tasks).into_iter().flatten().flatten() {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let account = RunAccount::open(&task.path().join("schedstat"));
        let times = account.ok().filter(|_| name.starts_with(EVENT_LOOP));
        if let Some(times) = times.and_then(|account| account.times()) {
            sum.ran_ns += times.ran_ns;
            sum.waited_ns += times.waited_ns;
        }
    }
    sum
}

fn kilobytes(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn cpu_seconds() -> f64 {
    // The first two fields of schedstat would do, were they not the main thread's alone.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program may hold spaces; what follows its closing parenthesis does not.
    let after_name = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let field = |index: usize| {
        after_name.split_whitespace().nth(index).and_then(|text| text.parse::<f64>().ok())
    };
    // Linux counts these in hundredths of a second on every architecture that it shows them to.
    (field(11).unwrap_or(0.0) + field(12).unwrap_or(0.0)) / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_waits_of_event_loops_are_added_up() {
        let folder = tempfile::tempdir().unwrap();
        let tasks = [
            ("pellucid-loop-0", "2 30 1"),
            ("pellucid-merge", "7 700 1"),
            ("pellucid-loop-1", "5 60 1"),
        ];
        for (name, times) in tasks {
            let task = folder.path().join(name);
            std::fs::create_dir(&task).unwrap();
            std::fs::write(task.join("comm"), format!("{name}\n")).unwrap();
            std::fs::write(task.join("schedstat"), times).unwrap();
        }
        let expected = RunTimes { ran_ns: 7, waited_ns: 90 };
        assert_eq!(times_of_loops(folder.path()), expected);
    }

    #[test]
    fn this_process_has_memory_and_time() {
        let figures = ProcessFigures::now();
        assert!(figures.resident_bytes > figures.anonymous_bytes);
        assert!(figures.anonymous_bytes > 0 && figures.cpu_seconds >= 0.0);
    }
}

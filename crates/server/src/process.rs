//! Figures of this process, from the operating system.

use std::path::Path;

use pellucid_thread::{RunAccount, RunTimes};

/// The prefix of the names of event loop threads.
const EVENT_LOOP: &str = "pellucid-loop";

/// Figures of this process; zero if the system does not provide a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessFigures {
    /// The user and system time since the start of the process.
    pub cpu_seconds: f64,
    /// Resident memory, mapped files included.
    pub resident_bytes: u64,
    /// Resident memory without mapped files.
    pub anonymous_bytes: u64,
    /// The sums over all event loops; `waited_ns` is the time in which they could run but had no
    /// processor.
    pub loops: RunTimes,
}

impl ProcessFigures {
    /// Reads the present figures.
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

/// The summed times of the event loops of this process.
pub(crate) fn loop_times() -> RunTimes {
    times_of_loops(Path::new("/proc/self/task"))
}

/// The summed times of the event loops among the threads in the folder `tasks`, which has the form
/// of `/proc/self/task`.
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
    // Not from schedstat, which counts the main thread alone.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name may contain spaces; the fields behind its closing parenthesis do not.
    let after_name = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let field = |index: usize| {
        after_name.split_whitespace().nth(index).and_then(|text| text.parse::<f64>().ok())
    };
    // Linux shows these times to programs in hundredths of a second on every architecture.
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

//! Figures of this process, from the operating system.

/// Figures of this process; zero where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessFigures {
    /// User and system time so far.
    pub cpu_seconds: f64,
    /// Resident memory, mapped files included.
    pub resident_bytes: u64,
    /// Resident memory that is not of files.
    pub anonymous_bytes: u64,
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
        }
    }
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
    fn this_process_has_memory_and_time() {
        let figures = ProcessFigures::now();
        assert!(figures.resident_bytes > figures.anonymous_bytes);
        assert!(figures.anonymous_bytes > 0 && figures.cpu_seconds >= 0.0);
    }
}

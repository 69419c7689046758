//! The machine on which figures were measured. A latency without its machine says little: the
//! processor's frequency alone changes it more than most code does.

use std::fs;
use std::thread;

use pellucid_account::ClockFacts;
use pellucid_clock::Clock;
use serde::{Deserialize, Serialize};

/// Facts about a machine. A fact that could not be read is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The model of the processor, as it names itself.
    pub processor: Option<String>,
    /// The frequency of the processor in MHz, at the time of the query.
    pub processor_mhz: Option<f64>,
    /// Cores that the process may use.
    pub cores: Option<usize>,
    /// Main memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Name and release of the kernel.
    pub kernel: Option<String>,
    /// The clock by which all durations were measured.
    pub clock: Option<ClockFacts>,
    /// Version of the program that was measured.
    pub program_version: Option<String>,
}

impl Machine {
    /// The machine that this process runs on, and the version of the program that was measured.
    /// Never fails: a fact that cannot be read is left out.
    #[must_use]
    pub fn of_this_machine(program_version: &str) -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let processor_facts = read("/proc/cpuinfo");
        let field = |text: &str, name: &str| field_of(text, name).map(str::to_owned);
        Machine {
            processor: field(&processor_facts, "model name")
                .or_else(|| field(&processor_facts, "Model")),
            processor_mhz: field(&processor_facts, "cpu MHz").and_then(|mhz| mhz.parse().ok()),
            cores: thread::available_parallelism().ok().map(usize::from),
            memory_bytes: field(&read("/proc/meminfo"), "MemTotal")
                .and_then(|size| size.trim_end_matches("kB").trim().parse::<u64>().ok())
                .and_then(|kibibytes| kibibytes.checked_mul(1024)),
            kernel: kernel_of(
                &read("/proc/sys/kernel/ostype"),
                &read("/proc/sys/kernel/osrelease"),
            ),
            clock: Some(ClockFacts::of(&Clock::system())),
            program_version: Some(program_version.to_owned()).filter(|text| !text.is_empty()),
        }
    }
}

/// The first value of a `name : value` line.
fn field_of<'text>(text: &'text str, name: &str) -> Option<&'text str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .filter(|(key, value)| key.trim() == name && !value.trim().is_empty())
        .map(|(_, value)| value.trim())
        .next()
}

fn kernel_of(name: &str, release: &str) -> Option<String> {
    let text = format!("{} {} {}", name.trim(), release.trim(), std::env::consts::ARCH);
    (!release.trim().is_empty()).then(|| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_from_the_first_processor() {
        let text = "processor\t: 0\nmodel name\t: Fast One\ncpu MHz\t\t: 2000.5\n\n\
                    processor\t: 1\nmodel name\t: Other\n";
        assert_eq!(field_of(text, "model name"), Some("Fast One"));
        assert_eq!(field_of(text, "cpu MHz"), Some("2000.5"));
        assert_eq!(field_of(text, "Model"), None);
        assert_eq!(field_of("model name :  \nno colon", "model name"), None);
    }

    #[test]
    fn a_kernel_without_a_release_is_unknown() {
        assert_eq!(kernel_of("Linux\n", "\n"), None);
        let kernel = kernel_of("Linux\n", "6.1.0\n").unwrap();
        assert!(kernel.starts_with("Linux 6.1.0 "), "{kernel}");
    }

    #[test]
    fn this_machine_has_at_least_its_version() {
        let machine = Machine::of_this_machine("1.2.3");
        assert_eq!(machine.program_version.as_deref(), Some("1.2.3"));
        assert_eq!(Machine::of_this_machine("").program_version, None);
    }
}

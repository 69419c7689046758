//! Memory of requests: what calls take of the server's budget, and how much there is of it.

use pellucid_budget::OverBudget;
use pellucid_document::{DocumentError, ErrorNumber};
use rustix::process::{Resource, getrlimit};

/// Requests may take one part in so many of the memory of the machine or its control group.
const MEMORY_PART: usize = 2;

/// And of a limited address space, which files, stacks and the allocator's reserves share.
const ADDRESS_SPACE_PART: usize = 4;

/// And no less than this.
const MEMORY_BYTES_MIN: usize = 256 << 20;

/// The error of a call that cannot have memory.
pub(super) fn over_budget(error: OverBudget) -> DocumentError {
    DocumentError::new(ErrorNumber::RESOURCE_LIMIT, error.to_string())
}

/// The error of a call that the system has no memory for.
pub(super) fn out_of_memory() -> DocumentError {
    DocumentError::new(ErrorNumber::RESOURCE_LIMIT, "the system has no memory for this")
}

/// Bytes that all requests may take together unless the operator says.
pub(crate) fn request_memory_default() -> usize {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let total = read("/proc/meminfo").and_then(|text| total_of(&text));
    let group = read("/proc/self/cgroup").and_then(|text| {
        let folder = text.lines().find_map(|line| line.strip_prefix("0::"))?;
        read(&format!("/sys/fs/cgroup{folder}/memory.max"))?.trim().parse().ok()
    });
    let group_1 = read("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    let group_1 = group_1.and_then(|text| text.trim().parse().ok());
    let machine = [total, group, group_1].into_iter().flatten().min();
    let address_space = getrlimit(Resource::As).current;
    let parts = [
        machine.map(|bytes: u64| bytes / MEMORY_PART as u64),
        address_space.map(|bytes| bytes / ADDRESS_SPACE_PART as u64),
    ];
    let least = parts.into_iter().flatten().min().unwrap_or(u64::MAX);
    usize::try_from(least).unwrap_or(usize::MAX).max(MEMORY_BYTES_MIN)
}

/// The total of `/proc/meminfo` in bytes.
fn total_of(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kibibytes.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_a_part_of_the_machine() {
        assert_eq!(total_of("MemFree: 1 kB\nMemTotal:  2048 kB\n"), Some(2 << 20));
        assert_eq!(total_of("MemTotal: much\n"), None);
        assert!(request_memory_default() >= MEMORY_BYTES_MIN);
    }
}

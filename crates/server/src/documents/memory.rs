//! Memory of requests: shares of the server's budget, and the size of the budget.

use std::path::Path;

use pellucid_budget::{Budget, BudgetError, Share};
use pellucid_document::{DocumentError, ErrorNumber};
use rustix::process::{Resource, getrlimit};

/// The divisor of the memory of the machine or its control group that gives the default budget.
const MEMORY_PART: usize = 2;

/// The divisor of a limited address space. It is larger, because mapped files, stacks and the
/// allocator's reserves are in the address space as well.
const ADDRESS_SPACE_PART: usize = 4;

/// The least default budget.
const MEMORY_BYTES_MIN: usize = 256 << 20;

/// The most bytes that the parsed forms of a query's body take together for each of its bytes: the
/// packed document, and the bind variables as values.
const PARSED_PER_BYTE: usize = 6;

/// The most bytes that the packed form of a document takes for each byte of the body.
const PACKED_PER_BYTE: usize = 2;

/// A body up to this size is parsed without taking memory from the budget.
const UNCOUNTED_BODY_BYTES: usize = 4 << 10;

/// Copies of a document up to this size are made without taking memory from the budget.
const UNCOUNTED_COPIES_BYTES: usize = 64 << 10;

/// The memory of the document API's calls.
#[derive(Clone)]
pub(crate) struct RequestMemory {
    budget: Budget,
    call_bytes_max: usize,
}

impl RequestMemory {
    /// Makes the memory of calls from `budget`. One call takes at most `call_bytes_max`.
    pub(super) fn new(budget: Budget, call_bytes_max: usize) -> RequestMemory {
        RequestMemory { budget, call_bytes_max }
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// A share for one call, which holds nothing yet.
    pub(super) fn of_call(&self) -> Share {
        self.budget.share(self.call_bytes_max)
    }

    /// Takes the memory to parse the body of a query.
    ///
    /// # Errors
    /// 32 if there is not enough.
    pub(super) fn of_body(&self, body: &[u8]) -> Result<Share, DocumentError> {
        let mut memory = self.of_call();
        if body.len() > UNCOUNTED_BODY_BYTES {
            memory.take(body.len().saturating_mul(PARSED_PER_BYTE)).map_err(over_budget)?;
        }
        Ok(memory)
    }

    /// Takes the memory to pack the document of a body; `None` for a short body. The limit of one
    /// call does not apply to documents.
    ///
    /// # Errors
    /// 32 if there is not enough.
    pub(super) fn of_document(&self, body: &[u8]) -> Result<Option<Share>, DocumentError> {
        if body.len() <= UNCOUNTED_BODY_BYTES {
            return Ok(None);
        }
        let mut memory = self.budget.share(usize::MAX);
        memory.take(body.len().saturating_mul(PACKED_PER_BYTE)).map_err(over_budget)?;
        Ok(Some(memory))
    }

    /// Makes `held` the memory of `bytes` of copies of one document; `None` for few. The limit of
    /// one call does not apply to documents.
    ///
    /// # Errors
    /// 32 if there is not enough.
    pub(super) fn hold(&self, held: &mut Option<Share>, bytes: usize) -> Result<(), DocumentError> {
        if bytes <= UNCOUNTED_COPIES_BYTES {
            *held = None;
            return Ok(());
        }
        let share = held.get_or_insert_with(|| self.budget.share(usize::MAX));
        let before_bytes = share.held_bytes();
        share.give_back(before_bytes.saturating_sub(bytes));
        share.take(bytes.saturating_sub(before_bytes)).map_err(over_budget)
    }
}

/// Makes the error of a call that exceeds the budget.
pub(super) fn over_budget(error: BudgetError) -> DocumentError {
    DocumentError::new(ErrorNumber::RESOURCE_LIMIT, error.to_string())
}

/// Makes the error of a call for which the system has no memory.
pub(super) fn out_of_memory() -> DocumentError {
    DocumentError::new(ErrorNumber::RESOURCE_LIMIT, "the system has no memory for this")
}

/// The bytes that all requests may take together, unless the operator sets them.
pub(crate) fn request_memory_default() -> usize {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let total = read("/proc/meminfo").and_then(|text| total_of(&text));
    let group = read("/proc/self/cgroup").and_then(|text| {
        let folder = text.lines().find_map(|line| line.strip_prefix("0::"))?;
        limit_of_group(folder, read)
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

/// The least limit of a control group and of those around it; `None` if there is none.
fn limit_of_group(folder: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let limits = Path::new(folder).ancestors().filter_map(|group| {
        let group = group.to_str()?.trim_end_matches('/');
        read(&format!("/sys/fs/cgroup{group}/memory.max"))?.trim().parse().ok()
    });
    limits.min()
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

    /// Regression: only the limit of the innermost control group was taken, so that the default was
    /// above a limit of a group around it, such as that of a pod.
    #[test]
    fn the_least_limit_of_nested_groups_counts() {
        let read = |path: &str| match path {
            "/sys/fs/cgroup/pod/server/memory.max" => Some("max\n".to_owned()),
            "/sys/fs/cgroup/pod/memory.max" => Some("4096\n".to_owned()),
            "/sys/fs/cgroup/memory.max" => Some("8192\n".to_owned()),
            _ => None,
        };
        assert_eq!(limit_of_group("/pod/server", read), Some(4_096));
        assert_eq!(limit_of_group("/", read), Some(8_192));
        assert_eq!(limit_of_group("/other", |_| None), None);
    }
}

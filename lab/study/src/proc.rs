//! The operating system's figures about this process and its disk.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The resources that a process has used so far, according to the kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProcessFigures {
    /// Bytes read from disks, read-ahead included.
    pub(crate) read_bytes: u64,
    /// Bytes caused to be written.
    pub(crate) written_bytes: u64,
    /// Resident memory that is not mapped from files.
    pub(crate) anonymous_bytes: u64,
    /// Processor time by the name of the thread, in nanoseconds.
    pub(crate) processor_ns: BTreeMap<String, u64>,
}

impl ProcessFigures {
    /// The figures of this process now. A figure that cannot be read is zero.
    pub(crate) fn now() -> ProcessFigures {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let (io, status) = (read("/proc/self/io"), read("/proc/self/status"));
        ProcessFigures {
            read_bytes: field(&io, "read_bytes"),
            written_bytes: field(&io, "write_bytes"),
            anonymous_bytes: field(&status, "RssAnon") << 10,
            processor_ns: processor_ns(),
        }
    }
}

/// The number of a `name: number …` line.
fn field(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let value = lines.find(|(key, _)| *key == name).map(|(_, value)| value);
    let number = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

/// The processor time of all present threads, summed by their names.
fn processor_ns() -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let ns: u64 =
            read("schedstat").split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0);
        *times.entry(read("comm").trim().to_owned()).or_insert(0) += ns;
    }
    times
}

/// The free bytes of the file system of `folder`; `None` if they cannot be read.
pub(crate) fn free_bytes(folder: &Path) -> Option<u64> {
    use pellucid_io::FileSystem;
    pellucid_io::SystemFileSystem.free_bytes(folder).ok()
}

/// Returns true if `folder` is on a file system in memory (tmpfs).
pub(crate) fn is_in_memory(folder: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(folder.as_os_str().as_bytes()) else { return false };
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut facts: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero byte and the structure is valid for the write.
    let outcome = unsafe { libc::statfs(path.as_ptr(), &raw mut facts) };
    // The C libraries differ in the sign of the field.
    outcome == 0 && i128::from(facts.f_type) == i128::from(libc::TMPFS_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_by_their_names() {
        let text = "rchar: 5\nread_bytes: 4096\nRssAnon:\t  12 kB\n";
        assert_eq!((field(text, "read_bytes"), field(text, "RssAnon")), (4096, 12));
        assert_eq!(field(text, "bytes"), 0);
    }

    #[test]
    fn this_process_has_figures() {
        let figures = ProcessFigures::now();
        assert!(figures.anonymous_bytes > 0 && !figures.processor_ns.is_empty());
        assert!(free_bytes(Path::new("/")).is_some_and(|bytes| bytes > 0));
        assert!(!is_in_memory(Path::new("/proc")) && !is_in_memory(Path::new("/nowhere")));
    }
}

//! Reads facts about a machine from the kernel's files below a root folder: `/`, or a folder that a
//! test has filled.

use std::path::{Path, PathBuf};

/// A machine, as the files below `root` describe it.
pub(crate) struct Machine {
    root: PathBuf,
}

/// A mounted file system.
pub(super) struct Mount {
    pub(super) point: String,
    pub(super) kind: String,
    pub(super) is_read_only: bool,
}

impl Machine {
    pub(crate) fn below(root: &Path) -> Machine {
        Machine { root: root.to_owned() }
    }

    /// The text of a file without surrounding white space; `None` if it cannot be read.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim().to_owned())
    }

    /// The number that a file contains.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// The choice in brackets of a file such as `always [madvise] never`.
    pub(super) fn choice(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0.to_owned())
    }

    /// A limit of the process: the soft limit, which is in force, and the hard limit, up to which
    /// the process may raise it. `u64::MAX` means no limit.
    pub(super) fn limit(&self, name: &str) -> Option<(u64, u64)> {
        let limits = self.text("proc/self/limits")?;
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        let mut numbers = line.split_whitespace().map(|text| match text {
            "unlimited" => Some(u64::MAX),
            number => number.parse().ok(),
        });
        Some((numbers.next()??, numbers.next()??))
    }

    /// The file system of a folder: the mount with the longest mount point above the folder.
    pub(super) fn mount_of(&self, folder: &Path) -> Option<Mount> {
        let table = self.text("proc/self/mountinfo")?;
        let mounts = table.lines().filter_map(parse_mount);
        let above = mounts.filter(|mount| folder.starts_with(&mount.point));
        above.max_by_key(|mount| mount.point.len())
    }

    /// The processor quota of the process's control group: the quota and its period, both in
    /// microseconds. `None` without a quota.
    pub(super) fn processor_quota(&self) -> Option<(u64, u64)> {
        let limit = self.group_limit("cpu.max")?;
        let (quota, period) = limit.split_once(' ')?;
        Some((quota.parse().ok()?, period.parse().ok()?))
    }

    /// The most threads of the process's control group. `None` without such a limit.
    pub(super) fn tasks_max(&self) -> Option<u64> {
        self.group_limit("pids.max")?.parse().ok()
    }

    /// The text of a limit of the process's control group.
    fn group_limit(&self, name: &str) -> Option<String> {
        let groups = self.text("proc/self/cgroup")?;
        let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
        self.text(&format!("sys/fs/cgroup/{group}/{name}"))
    }

    /// Returns true if the machine has swap space.
    pub(super) fn has_swap(&self) -> Option<bool> {
        Some(self.text("proc/swaps")?.lines().count() > 1)
    }
}

/// Parses a line of `mountinfo`. Its fields are: number, parent, device, root, mount point,
/// options, …, `-`, kind, source, and options of the file system.
fn parse_mount(line: &str) -> Option<Mount> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(4);
    let point = fields.next()?.replace("\\040", " ");
    let options = fields.next()?;
    let mut of_file_system = file_system.split(' ');
    let kind = of_file_system.next()?.to_owned();
    let further = of_file_system.nth(1).unwrap_or_default();
    let is_read_only = [options, further].iter().any(|list| list.split(',').any(|o| o == "ro"));
    Some(Mount { point, kind, is_read_only })
}

//! Limits the memory of a process by a control group, page cache included, so that a store outgrows
//! it within minutes. It uses version 1 (`memory.limit_in_bytes`) or 2 (`memory.max`), whichever
//! the system has. If no group can be made, a study continues without a limit, and says so.

use std::path::{Path, PathBuf};

/// The mount point of control groups.
const MOUNT: &str = "/sys/fs/cgroup";

/// A control group made for a study; it is removed on drop.
#[derive(Debug)]
pub(crate) struct MemoryCgroup {
    folder: PathBuf,
}

impl MemoryCgroup {
    /// Makes a group whose members share `limit_bytes`.
    ///
    /// # Errors
    /// A sentence with the reason, if no group can be made.
    pub(crate) fn new(limit_bytes: u64) -> Result<MemoryCgroup, String> {
        let own = std::fs::read_to_string("/proc/self/cgroup")
            .map_err(|error| format!("this system tells of no control groups ({error})"))?;
        let name = format!("pellucid-study-{}", std::process::id());
        let mut refused = "this system has no control group for memory".to_owned();
        for (parent, file) in candidates(&own) {
            match make(&parent.join(&name), file, limit_bytes) {
                Ok(group) => return Ok(group),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// The group's folder, for [`CgroupMembership::enter`].
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        // The child has ended, so the group is empty and can be removed.
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// The folders in which a group may be made, each with the name of its limit file. `own` is the
/// text of `/proc/self/cgroup`. A group below our own comes first, because then the limits of ours
/// stay in force; version 2 often allows only one beside our own.
fn candidates(own: &str) -> Vec<(PathBuf, &'static str)> {
    let below = |mount: &str, path: &str| Path::new(mount).join(path.trim_start_matches('/'));
    let mut found = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        if controllers.split(',').any(|name| name == "memory") {
            found.push((below(&format!("{MOUNT}/memory"), path), "memory.limit_in_bytes"));
        } else if controllers.is_empty() {
            let own = below(MOUNT, path);
            let beside = own.parent().filter(|parent| parent.starts_with(MOUNT));
            found.extend(beside.map(|parent| (parent.to_path_buf(), "memory.max")));
            found.insert(0, (own, "memory.max"));
        }
    }
    // If both versions are mounted, version 1 has the memory controller if it lists it.
    found.sort_by_key(|(_, file)| *file == "memory.max");
    found
}

fn make(folder: &Path, limit_file: &str, limit_bytes: u64) -> Result<MemoryCgroup, String> {
    let failed = |what: &str, path: &Path, error: std::io::Error| {
        format!("cannot {what} {}: {error}", path.display())
    };
    match std::fs::create_dir(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(failed("make", folder, error));
        }
        _ => {}
    }
    let group = MemoryCgroup { folder: folder.to_path_buf() };
    let limit = folder.join(limit_file);
    if !limit.exists() {
        return Err(format!("groups of {} do not bound memory", folder.display()));
    }
    std::fs::write(&limit, limit_bytes.to_string())
        .map_err(|error| failed("write", &limit, error))?;
    let set = std::fs::read_to_string(&limit).ok().and_then(|text| text.trim().parse().ok());
    match set {
        // The kernel rounds the limit to pages.
        Some(set) if limit_bytes.abs_diff(set) < 1 << 20 => Ok(group),
        _ => Err(format!("{} does not keep the limit", limit.display())),
    }
}

/// The membership of this process in a group.
#[derive(Debug)]
pub(crate) struct CgroupMembership {
    folder: PathBuf,
}

impl CgroupMembership {
    /// Puts this process into the group.
    pub(crate) fn enter(folder: &Path) -> Result<CgroupMembership, String> {
        let processes = folder.join("cgroup.procs");
        match std::fs::write(&processes, std::process::id().to_string()) {
            Ok(()) => Ok(CgroupMembership { folder: folder.to_path_buf() }),
            Err(error) => Err(format!("cannot write {}: {error}", processes.display())),
        }
    }

    /// Removes the limit, for the work after the measurement.
    pub(crate) fn lift(&self) {
        let without = [("memory.max", "max"), ("memory.limit_in_bytes", "-1")];
        for (file, none) in without {
            let file = self.folder.join(file);
            if file.exists() {
                // If this is refused, that work runs within the limit.
                let _ = std::fs::write(file, none);
            }
        }
    }

    /// Bytes of the group's memory that are page cache; 0 if they cannot be read.
    pub(crate) fn page_cache_bytes(&self) -> u64 {
        let text = std::fs::read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        page_cache_of(&text)
    }
}

fn page_cache_of(text: &str) -> u64 {
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(key, _)| *key == name).and_then(|(_, value)| value.trim().parse().ok())
    };
    // The field is `file` in version 2 and `cache` in version 1.
    field("file").or_else(|| field("cache")).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_groups_with_the_memory_controller() {
        let first = "9:name=systemd:/\n4:memory:/a/b\n1:cpu,cpuacct:/\n0::/\n";
        let found = candidates(first);
        assert_eq!(found[0].0, Path::new("/sys/fs/cgroup/memory/a/b"));
        assert_eq!(found[0].1, "memory.limit_in_bytes");
        let second = candidates("0::/user.slice/one.scope\n");
        assert_eq!(second[0].0, Path::new("/sys/fs/cgroup/user.slice/one.scope"));
        assert_eq!(second[1].0, Path::new("/sys/fs/cgroup/user.slice"));
        assert!(second.iter().all(|(_, file)| *file == "memory.max"));
        assert_eq!(candidates("nonsense\n\n:"), []);
    }

    #[test]
    fn a_group_without_a_limit_is_an_error_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let refused = make(&folder.path().join("group"), "memory.max", 1 << 30).unwrap_err();
        assert!(refused.contains("do not bound memory"), "{refused}");
        let refused = make(&folder.path().join("no/group"), "memory.max", 1 << 30).unwrap_err();
        assert!(refused.contains("cannot make"), "{refused}");
        assert!(!folder.path().join("group").exists(), "what was made is removed");
    }

    #[test]
    fn page_cache_is_read_from_either_version() {
        assert_eq!(page_cache_of("cache 4096\nrss 1\n"), 4096);
        assert_eq!(page_cache_of("anon 1\nfile 8192\n"), 8192);
        assert_eq!(page_cache_of(""), 0);
    }
}

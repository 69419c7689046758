//! Limits memory by a control group (version 1), page cache included, and counts the disk reads of
//! the group. This needs root; otherwise the benchmark reports that it did not measure this part.

use std::path::{Path, PathBuf};

use crate::peer::Outcome;

/// The mount point of version 1.
const MOUNT: &str = "/sys/fs/cgroup";
/// A limit of reads that is never reached. The kernel counts reads only on disks with a limit.
const READS_PER_SECOND_UNBOUNDED: u64 = 1_000_000_000;

/// The groups of one child. They are inside those of this process, so that its limits stay in
/// force.
pub struct ChildCgroups {
    memory: PathBuf,
    disk: Option<PathBuf>,
}

impl ChildCgroups {
    /// Makes groups whose members share `limit_bytes` of memory and whose reads are counted on the
    /// disk of `folder`.
    pub fn new(limit_bytes: u64, folder: &Path) -> Outcome<ChildCgroups> {
        let memory = make_group("memory")?;
        let disk = make_group("blkio").ok();
        let groups = ChildCgroups { memory, disk };
        write(&groups.memory.join("memory.limit_in_bytes"), &limit_bytes.to_string())?;
        if let Some(disk) = &groups.disk {
            count_reads(disk, folder);
        }
        Ok(groups)
    }

    /// The text for [`CgroupMembership::enter`]: the folders of the groups, one per line.
    pub fn description(&self) -> String {
        let disk = self.disk.as_deref().unwrap_or(Path::new(""));
        format!("{}\n{}\n", self.memory.display(), disk.display())
    }
}

impl Drop for ChildCgroups {
    fn drop(&mut self) {
        for group in std::iter::once(&self.memory).chain(&self.disk) {
            // The child has ended, so the group is empty and can be removed.
            let _ = std::fs::remove_dir(group);
        }
    }
}

/// The membership of this process in the groups.
pub struct CgroupMembership {
    disk: PathBuf,
}

impl CgroupMembership {
    /// Puts this process into the groups that the file at `description` names.
    pub fn enter(description: &Path) -> Outcome<CgroupMembership> {
        let text = std::fs::read_to_string(description)
            .map_err(|error| format!("cannot read {}: {error}", description.display()))?;
        let mut lines = text.lines().map(PathBuf::from);
        let (memory, disk) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        let process = std::process::id().to_string();
        write(&memory.join("cgroup.procs"), &process)?;
        if !disk.as_os_str().is_empty() {
            write(&disk.join("cgroup.procs"), &process)?;
        }
        Ok(CgroupMembership { disk })
    }

    /// The number of disk reads so far; `None` if the kernel does not count them.
    pub fn disk_reads(&self) -> Option<u64> {
        let path = self.disk.join("blkio.throttle.io_serviced");
        let account = std::fs::read_to_string(path).ok()?;
        let reads =
            account.lines().filter_map(|line| line.split_once(" Read ")?.1.parse::<u64>().ok());
        // The process has read its store by now, so zero means that reads are not counted.
        Some(reads.sum()).filter(|sum| *sum > 0)
    }
}

fn make_group(controller: &str) -> Outcome<PathBuf> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let parent = own
        .lines()
        .find_map(|line| line.split_once(&format!(":{controller}:")))
        .ok_or_else(|| format!("no control group (version 1) for {controller}"))?;
    let path = Path::new(MOUNT)
        .join(controller)
        .join(parent.1.trim_start_matches('/'))
        .join(format!("pellucid-bench-{}", std::process::id()));
    match std::fs::create_dir(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(format!("cannot make {}: {error}", path.display()))
        }
        _ => Ok(path),
    }
}

/// Makes the kernel count the reads of `group` on the disk of `folder`, if that is possible.
fn count_reads(group: &Path, folder: &Path) {
    use std::os::unix::fs::MetadataExt;
    let Ok(facts) = std::fs::metadata(folder) else { return };
    let (major, minor) = (libc::major(facts.dev()), libc::minor(facts.dev()));
    let rule = format!("{major}:{minor} {READS_PER_SECOND_UNBOUNDED}");
    // If this fails, reads are not counted, and the benchmark reports that.
    let _ = write(&group.join("blkio.throttle.read_iops_device"), &rule);
}

fn write(path: &Path, text: &str) -> Outcome<()> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

//! Checks of a machine. Each has the value that was read, its cost, and the cure.

use std::path::Path;

use pellucid_io::folder_cure;
use rustix::fs::{Access, access, statvfs};

use super::machine::Machine;

/// Descriptors that a server with the default limit of connections may need: 16,384 for
/// connections, and 512 for everything else.
const DESCRIPTORS: u64 = 16_384 + 512;
/// A limit of threads of one user that is enough for a server beside other programs.
const THREADS: u64 = 1_024;
/// The limit of threads below which a server does not start.
const THREADS_LEAST: u64 = 64;
/// The size of the address space in bytes below which a server does not start.
const ADDRESS_SPACE_LEAST: u64 = 1 << 30;
/// The largest size of a file in bytes below which a server does not start.
const FILE_SIZE_LEAST: u64 = 64 << 20;
/// The default limit of memory maps of a process on Linux.
const MAPS: u64 = 65_530;
/// Bytes of a large store per memory map, about: 65,530 maps are enough for 4 TB.
const BYTES_A_MAP: f64 = 6.1e7;
/// Free bytes that a file system should have for a new store.
const ROOM: u64 = 1 << 30;
/// The limit of descriptors below which a server has too few for the store's files.
const DESCRIPTORS_LEAST: u64 = 256;
/// The highest swappiness at which the kernel prefers to drop cached files over swapping memory.
const SWAPPINESS: u64 = 10;
/// The backlog of connections to accept that the server asks the kernel for.
const BACKLOG: u64 = 4_096;
/// The value of `vm.overcommit_memory` with which reserved memory counts as used.
const OVERCOMMIT_NEVER: u64 = 2;
/// Clock sources that can be read without a system call.
const FAST_CLOCKS: [&str; 4] =
    ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"];
/// Network file systems: another machine implements their locks and syncs.
const REMOTE: [&str; 6] = ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph"];

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing to do.
    Fine,
    /// A server works, but loses time, memory or safety.
    Costly,
    /// A server cannot work.
    Broken,
    /// The value cannot be read.
    Unknown,
}

/// The result of one check.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) state: State,
    /// The value that was read.
    pub(crate) value: String,
    /// The cost of this value and its cure; `None` if there is nothing to do.
    pub(crate) advice: Option<String>,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Fine => "fine",
            State::Costly => "costly",
            State::Broken => "broken",
            State::Unknown => "unknown",
        }
    }
}

/// The name of a check and its value, or `None` if the value could not be read.
struct CheckReading<T>(&'static str, Option<T>);

impl<T: std::fmt::Display> CheckReading<T> {
    /// Completes the check. `judge` returns the state and the advice for a value that is not fine,
    /// and `None` for one that is.
    fn judge(self, judge: impl FnOnce(&T) -> Option<(State, String)>) -> Check {
        let CheckReading(name, value) = self;
        let Some(value) = value else {
            let value = "the machine does not say".to_owned();
            return Check { name, state: State::Unknown, value, advice: None };
        };
        let (state, advice) = judge(&value).map_or((State::Fine, None), |(s, a)| (s, Some(a)));
        Check { name, state, value: value.to_string(), advice }
    }
}

fn costly(is: bool, advice: impl Into<String>) -> Option<(State, String)> {
    is.then(|| (State::Costly, advice.into()))
}

/// Runs all checks for a store in `folder`.
pub(crate) fn examine(machine: &Machine, folder: &Path) -> Vec<Check> {
    let mut checks = vec![descriptors(machine), threads(machine), address_space(machine)];
    checks.extend([file_size(machine), maps(machine)]);
    checks.extend([writable(folder), room(folder), file_system(machine, folder)]);
    checks.push(clock(machine));
    checks.extend([huge_pages(machine), swap(machine), overcommit(machine), backlog(machine)]);
    checks.extend([governor(machine), quota(machine)]);
    checks
}

fn descriptors(machine: &Machine) -> Check {
    // The server raises its soft limit to the hard limit.
    let most = machine.limit("Max open files").map(|(_, hard)| hard);
    CheckReading("descriptors", most).judge(|most| {
        let cure = "raise it with ulimit -n, or LimitNOFILE= of the unit";
        if *most < DESCRIPTORS_LEAST {
            return Some((State::Broken, format!("flushes and merges fail without files: {cure}")));
        }
        let connections = most - 512.min(most / 2);
        let advice = format!("at most {connections} connections are served at a time: {cure}");
        costly(*most < DESCRIPTORS, advice)
    })
}

/// Checks that the process has no limit of this kind; a limit below `least` is broken. `kernel` is
/// the name of the limit in `/proc/self/limits`.
fn unlimited(
    machine: &Machine,
    (name, kernel): (&'static str, &str),
    least: u64,
    advice: &str,
) -> Check {
    let limit = machine.limit(kernel).map(|(soft, _)| soft);
    let is_less = |least: u64| limit.is_some_and(|limit| limit < least);
    let value = limit.map(|limit| match limit {
        u64::MAX => "no limit".to_owned(),
        limit => limit.to_string(),
    });
    CheckReading(name, value).judge(|_| match is_less(least) {
        true => Some((State::Broken, advice.to_owned())),
        false => costly(is_less(u64::MAX), advice),
    })
}

fn threads(machine: &Machine) -> Check {
    let of_user = machine.limit("Max processes").map(|(soft, _)| soft);
    let most = of_user.map(|most| most.min(machine.tasks_max().unwrap_or(u64::MAX)));
    CheckReading("threads", most).judge(|most| {
        let advice = "all threads of this user, unit or container count, and where one cannot be \
                      started a server ends: raise it with ulimit -u, TasksMax= of the unit, or \
                      --pids-limit of the container";
        match *most < THREADS_LEAST {
            true => Some((State::Broken, advice.to_owned())),
            false => costly(*most < THREADS, advice),
        }
    })
}

fn address_space(machine: &Machine) -> Check {
    let advice = "files are mapped, and a store as large as this can be no longer opened: raise it \
                  with ulimit -v, or LimitAS= of the unit";
    unlimited(machine, ("address space", "Max address space"), ADDRESS_SPACE_LEAST, advice)
}

fn file_size(machine: &Machine) -> Check {
    let advice = "tables and backups grow beyond it, and flushes and merges fail then: raise it \
                  with ulimit -f, or LimitFSIZE= of the unit";
    unlimited(machine, ("file size", "Max file size"), FILE_SIZE_LEAST, advice)
}

fn maps(machine: &Machine) -> Check {
    CheckReading("maps", machine.number("proc/sys/vm/max_map_count")).judge(|most| {
        let terabytes = *most as f64 * BYTES_A_MAP / 1e12;
        let advice = format!(
            "segments and tables are maps, and a store can have about {terabytes:.1} TB: \
             sysctl vm.max_map_count=1048576"
        );
        costly(*most < MAPS, advice)
    })
}

/// Checks the free space of the folder's file system.
fn room(folder: &Path) -> Check {
    let facts = statvfs(folder).ok();
    let free_bytes = facts.map(|facts| facts.f_bavail.saturating_mul(facts.f_frsize));
    let value = free_bytes.map(|bytes| format!("{} MiB", bytes >> 20));
    CheckReading("room", value).judge(|_| {
        let advice = "PUTs are refused with 507 when the reserve for deletes is all that is left: \
                      make room, or name another folder";
        costly(free_bytes? < ROOM, advice)
    })
}

/// Checks that the folder can be written to: that of the store, or its nearest existing ancestor.
fn writable(folder: &Path) -> Check {
    CheckReading("folder", Some(folder.display().to_string())).judge(|_| {
        if !folder.is_dir() {
            let advice = "it is no folder: name another one";
            return Some((State::Broken, advice.to_owned()));
        }
        let refused = access(folder, Access::WRITE_OK | Access::EXEC_OK).err()?;
        let cure = folder_cure(&refused.into());
        Some((State::Broken, format!("this user cannot write to it{cure}")))
    })
}

fn file_system(machine: &Machine, folder: &Path) -> Check {
    let Some(mount) = machine.mount_of(folder) else {
        return CheckReading::<String>("file system", None).judge(|_| None);
    };
    let kind = mount.kind.as_str();
    let value = format!("{kind} at {}", mount.point);
    CheckReading("file system", Some(value)).judge(|_| {
        if mount.is_read_only {
            let advice = "it is mounted read-only: mount it for writing, or name another folder";
            return Some((State::Broken, advice.to_owned()));
        }
        let advice = match kind {
            "tmpfs" | "ramfs" => {
                "all is gone with the machine's power, and takes its memory: use a disk's folder"
            }
            "overlay" => {
                "a container's own layer goes with the container, and each first write copies a \
                 file: mount a volume"
            }
            "btrfs" | "zfs" => {
                "each sync also writes the trees of checksums, about twice the time: ext4 or XFS, \
                 or chattr +C on the empty folder of btrfs"
            }
            _ if REMOTE.contains(&kind) || kind.starts_with("fuse") => {
                "a sync is a question over the network or to a program, milliseconds instead of \
                 microseconds, and its promise is theirs: use a disk of this machine"
            }
            _ => return None,
        };
        Some((State::Costly, advice.to_owned()))
    })
}

fn clock(machine: &Machine) -> Check {
    let path = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    CheckReading("clock source", machine.text(path)).judge(|source| {
        let advice = "a reading is a system call, about 1 µs instead of 20 ns, and a request takes \
                      six: boot with clocksource=tsc where the processor's is stable, or serve \
                      with --accounting off";
        costly(!FAST_CLOCKS.contains(&source.as_str()), advice)
    })
}

fn huge_pages(machine: &Machine) -> Check {
    let choice = machine.choice("sys/kernel/mm/transparent_hugepage/enabled");
    CheckReading("huge pages", choice).judge(|choice| {
        let advice = "small allocations take 2 MiB each, so resident memory grows, and the kernel \
                      stops threads to join pages: echo madvise > \
                      /sys/kernel/mm/transparent_hugepage/enabled";
        costly(choice == "always", advice)
    })
}

fn swap(machine: &Machine) -> Check {
    let swappiness = match machine.has_swap() {
        Some(false) => Some(0),
        Some(true) => machine.number("proc/sys/vm/swappiness"),
        None => None,
    };
    CheckReading("swappiness", swappiness).judge(|swappiness| {
        let advice = "memory of the store is swapped while files could be dropped, and a read of \
                      it waits for the disk, 0.1 to 10 ms: sysctl vm.swappiness=1";
        costly(*swappiness > SWAPPINESS, advice)
    })
}

fn overcommit(machine: &Machine) -> Check {
    CheckReading("overcommit", machine.number("proc/sys/vm/overcommit_memory")).judge(|mode| {
        let advice = "memory that is only reserved (threads' stacks, maps of files) counts as \
                      used, so allocations fail early: sysctl vm.overcommit_memory=0";
        costly(*mode == OVERCOMMIT_NEVER, advice)
    })
}

fn backlog(machine: &Machine) -> Check {
    CheckReading("somaxconn", machine.number("proc/sys/net/core/somaxconn")).judge(|most| {
        let advice = "connections beyond it that come at once are dropped, and come again after \
                      1 s: sysctl net.core.somaxconn=4096";
        costly(*most < BACKLOG, advice)
    })
}

fn governor(machine: &Machine) -> Check {
    let path = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    // Virtual machines have no governor: the host decides.
    let name = machine.text(path).unwrap_or_else(|| "none".to_owned());
    CheckReading("processor governor", Some(name)).judge(|name| {
        let advice = "a processor that was idle begins slowly, tens of µs for a request: \
                      cpupower frequency-set -g performance";
        costly(name == "powersave" || name == "conservative", advice)
    })
}

fn quota(machine: &Machine) -> Check {
    let quota = machine.processor_quota();
    let value =
        quota.map_or("none".to_owned(), |(quota, period)| format!("{quota} of {period} µs"));
    CheckReading("processor quota", Some(value)).judge(|_| {
        let (quota, period) = quota?;
        let pause_ms = period / 1_000;
        let cores = quota.div_ceil(period).max(1);
        let advice = format!(
            "threads that used the quota up stand still for up to {pause_ms} ms: serve with \
             --threads {cores}, or give whole processors (cpuset) instead of a quota"
        );
        costly(true, advice)
    })
}

//! The operating system's figures about this process: time, memory and disk.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::peer::{Outcome, text};

/// The interval at which memory is measured.
const MEMORY_PERIOD: Duration = Duration::from_millis(100);

/// User and system time of all threads so far, in seconds.
pub fn cpu_seconds() -> f64 {
    let usage = usage();
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Page faults so far that had to wait for the disk.
pub fn major_faults() -> f64 {
    usage().ru_majflt as f64
}

fn usage() -> libc::rusage {
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is valid for the write, and the call cannot fail for this process.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    usage
}

/// The bytes read from and written to the disk so far, according to the kernel.
///
/// The kernel counts a page as written when it becomes dirty, by `write` or through a mapping, and
/// again if that happens after it was written back. So several small appends to one page count
/// once, and the figure is what this process causes to be written, whichever thread writes it back.
#[derive(Clone, Copy)]
pub struct DiskTraffic {
    /// Bytes read from the disk, read-ahead included.
    pub read_bytes: f64,
    /// Bytes caused to be written.
    pub written_bytes: f64,
    /// The part of `written_bytes` in files that were deleted before they were written back.
    pub cancelled_bytes: f64,
}

/// The traffic so far.
pub fn disk_traffic() -> DiskTraffic {
    let account = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let field = |name: &str| {
        let line = account.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim_start_matches(':').trim().parse().ok()).unwrap_or(f64::NAN)
    };
    DiskTraffic {
        read_bytes: field("read_bytes"),
        written_bytes: field("write_bytes"),
        cancelled_bytes: field("cancelled_write_bytes"),
    }
}

/// The resident memory of this process that is not mapped from files, in bytes.
pub fn anonymous_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

/// Runs `work`, and also returns the highest anonymous memory seen meanwhile, in bytes.
pub fn watching_memory<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut peak = anonymous_bytes();
            while !is_done.load(Ordering::Relaxed) {
                std::thread::park_timeout(MEMORY_PERIOD);
                peak = peak.max(anonymous_bytes());
            }
            peak
        });
        let outcome = work();
        is_done.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        (outcome, watcher.join().unwrap_or(0))
    })
}

/// Calls `visit` with every file below `folder`.
pub fn each_file(folder: &Path, visit: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            each_file(&path, visit)?;
        } else {
            visit(&path)?;
        }
    }
    Ok(())
}

/// The disk space of the files below `folder`, in bytes.
pub fn disk_bytes(folder: &Path) -> Outcome<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    each_file(folder, &mut |path| {
        sum += std::fs::metadata(path)?.blocks() * 512;
        Ok(())
    })
    .map_err(text)?;
    Ok(sum)
}

/// Writes the files below `folder` back and drops them from the page cache.
pub fn evict(folder: &Path) -> Outcome<()> {
    use std::os::fd::AsRawFd;
    each_file(folder, &mut |path| {
        let file = std::fs::File::open(path)?;
        file.sync_all()?;
        // SAFETY: the descriptor is open for the length of the call.
        match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    })
    .map_err(text)
}

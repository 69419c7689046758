//! The kernel's account of a thread: the time that it ran, and the time that it waited for a
//! processor while it could have run (the run delay of `schedstat`).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The longest line: three decimal 64-bit numbers with separators.
const LINE_BYTES_MAX: usize = 64;

/// The times of a thread since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTimes {
    /// The time for which it ran.
    pub ran_ns: u64,
    /// The time for which it was ready to run and had no processor.
    pub waited_ns: u64,
}

/// The kernel's account of one thread.
#[derive(Debug)]
pub struct RunAccount {
    file: File,
}

impl RunAccount {
    /// The account of the calling thread; other threads may read it later.
    ///
    /// # Errors
    /// If the kernel has no such account.
    pub fn of_this_thread() -> io::Result<RunAccount> {
        RunAccount::open(Path::new("/proc/thread-self/schedstat"))
    }

    /// The account that is read at `path`.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(path: &Path) -> io::Result<RunAccount> {
        Ok(RunAccount { file: File::open(path)? })
    }

    /// The times so far; none if the thread has ended. Costs a system call.
    #[must_use]
    pub fn times(&self) -> Option<RunTimes> {
        let mut line = [0; LINE_BYTES_MAX];
        let count = self.file.read_at(&mut line, 0).ok()?;
        let mut numbers = std::str::from_utf8(&line[..count]).ok()?.split_whitespace();
        let mut next = || numbers.next()?.parse().ok();
        Some(RunTimes { ran_ns: next()?, waited_ns: next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_working_thread_has_run_time() {
        let account = RunAccount::of_this_thread().unwrap();
        let before = account.times().unwrap();
        // The kernel updates its account at a tick, or when the thread yields.
        while account.times().unwrap().ran_ns == before.ran_ns {
            std::thread::yield_now();
        }
        assert!(account.times().unwrap().waited_ns >= before.waited_ns);
        assert!(RunAccount::open(Path::new("/proc/self/nothing")).is_err());
    }
}

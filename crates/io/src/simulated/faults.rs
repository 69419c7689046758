//! The faults that the simulated file system injects on demand.

use std::io;

/// The free bytes without a limit of the space.
const FREE_BYTES: u64 = 1 << 40;

/// The faults to inject. The default is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The number of the call that fails, counted from 1 from now on.
    pub fail_call: Option<u64>,
    /// True if all calls after that one fail as well, as if the device were gone.
    pub keep_failing: bool,
    /// True if the next sync of a file fails and marks its pages as clean: they stay in memory
    /// until the power is lost, and later syncs succeed without them. As on ext4, writing them
    /// again does not help: the space behind them counts as never written.
    pub fail_next_sync: bool,
    /// The number of syncs of files that succeed before the one that fails.
    pub spared_syncs: u64,
    /// The number of creations and openings of files that fail for lack of a descriptor; later ones
    /// succeed.
    pub exhausted_opens: u32,
    /// The most bytes of all files together.
    pub space_bytes: Option<u64>,
    /// True if hard links fail, as if each folder were a file system of its own.
    pub refuses_links: bool,
    /// True if the identity of the mount is unknown.
    pub hides_mount: bool,
}

/// The faults to inject, and the counts of calls.
#[derive(Default)]
pub(crate) struct FaultState {
    faults: Faults,
    /// The number of calls since the faults were set.
    calls_since: u64,
    pub(crate) calls: u64,
    pub(crate) syncs: u64,
}

impl FaultState {
    pub(crate) fn set(&mut self, faults: Faults) {
        self.faults = faults;
        self.calls_since = 0;
    }

    /// Counts a call. An error if a fault is due.
    pub(crate) fn call(&mut self) -> io::Result<()> {
        self.calls += 1;
        self.calls_since += 1;
        let fails = self.faults.fail_call.is_some_and(|number| {
            self.calls_since == number || self.faults.keep_failing && self.calls_since > number
        });
        if fails { Err(io::Error::other("injected failure")) } else { Ok(()) }
    }

    /// Counts a call that opens a file. An error if a fault is due.
    pub(crate) fn open(&mut self) -> io::Result<()> {
        self.call()?;
        if self.faults.exhausted_opens > 0 {
            self.faults.exhausted_opens -= 1;
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        Ok(())
    }

    /// Counts a call that makes a hard link. An error if a fault is due.
    pub(crate) fn link(&mut self) -> io::Result<()> {
        self.call()?;
        match self.faults.refuses_links {
            true => Err(io::Error::from_raw_os_error(libc::EXDEV)),
            false => Ok(()),
        }
    }

    /// Counts a sync. True if it must fail and lose the dirty pages.
    pub(crate) fn sync(&mut self) -> bool {
        self.syncs += 1;
        if self.faults.spared_syncs > 0 {
            self.faults.spared_syncs -= 1;
            return false;
        }
        std::mem::take(&mut self.faults.fail_next_sync)
    }

    /// Checks that `more` bytes fit beside the `used` ones. An error if they do not.
    pub(crate) fn take_space(&self, used: u64, more: u64) -> io::Result<()> {
        if more > self.free_bytes(used) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        Ok(())
    }

    pub(crate) fn hides_mount(&self) -> bool {
        self.faults.hides_mount
    }

    pub(crate) fn free_bytes(&self, used: u64) -> u64 {
        self.faults.space_bytes.map_or(FREE_BYTES, |space| space.saturating_sub(used))
    }
}

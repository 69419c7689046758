//! The faults of the simulated file system, on demand.

use std::io;

/// Bytes that are free where no limit is set.
const FREE_BYTES: u64 = 1 << 40;

/// The faults to come. The default is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The call with this number, counted from 1 from now on, fails once.
    pub fail_call: Option<u64>,
    /// All calls from the failing one on fail, as if the device were gone.
    pub keep_failing: bool,
    /// The next sync of a file fails and marks its pages as clean: they stay in memory until the
    /// power is lost, and later syncs succeed without them. As on ext4, it is of no help to write
    /// to them again: the space behind them counts as never written.
    pub fail_next_sync: bool,
    /// So many syncs of files succeed before the one that fails.
    pub spared_syncs: u64,
    /// So many creations and openings of files fail for want of a descriptor; later ones succeed.
    pub exhausted_opens: u32,
    /// The files together may take this many bytes.
    pub space_bytes: Option<u64>,
    /// Files get no second names, as if each folder were a file system of its own.
    pub refuses_links: bool,
}

#[derive(Default)]
pub(crate) struct FaultState {
    faults: Faults,
    /// Calls since the faults were set.
    calls_since: u64,
    pub(crate) calls: u64,
    pub(crate) syncs: u64,
}

impl FaultState {
    pub(crate) fn set(&mut self, faults: Faults) {
        self.faults = faults;
        self.calls_since = 0;
    }

    /// Counts a call, and fails it if it is its turn.
    pub(crate) fn call(&mut self) -> io::Result<()> {
        self.calls += 1;
        self.calls_since += 1;
        let fails = match self.faults.fail_call {
            Some(number) if self.faults.keep_failing => self.calls_since >= number,
            Some(number) => self.calls_since == number,
            None => false,
        };
        if fails { Err(io::Error::other("injected failure")) } else { Ok(()) }
    }

    /// As [`FaultState::call`], for a call that opens a file.
    pub(crate) fn open(&mut self) -> io::Result<()> {
        self.call()?;
        match self.faults.exhausted_opens.checked_sub(1) {
            None => Ok(()),
            Some(left) => {
                self.faults.exhausted_opens = left;
                Err(io::Error::from_raw_os_error(libc::EMFILE))
            }
        }
    }

    /// As [`FaultState::call`], for a call that gives a file a second name.
    pub(crate) fn link(&mut self) -> io::Result<()> {
        self.call()?;
        match self.faults.refuses_links {
            true => Err(io::Error::from_raw_os_error(libc::EXDEV)),
            false => Ok(()),
        }
    }

    /// Counts a sync, and says whether it loses what it should keep.
    pub(crate) fn sync(&mut self) -> bool {
        self.syncs += 1;
        match self.faults.spared_syncs.checked_sub(1) {
            None => std::mem::take(&mut self.faults.fail_next_sync),
            Some(left) => {
                self.faults.spared_syncs = left;
                false
            }
        }
    }

    /// Refuses if `more` bytes do not fit beside those that are `used`.
    pub(crate) fn take_space(&self, used: u64, more: u64) -> io::Result<()> {
        if more > self.free_bytes(used) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        Ok(())
    }

    pub(crate) fn free_bytes(&self, used: u64) -> u64 {
        self.faults.space_bytes.map_or(FREE_BYTES, |space| space.saturating_sub(used))
    }
}

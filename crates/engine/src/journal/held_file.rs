//! The open file of a segment, and its syncs.

use std::io;
use std::sync::Arc;

use pellucid_io::File;
use pellucid_thread::Mutex;

/// The open file of a segment, as long as it may have to be synced. Reads go through the map, so a
/// store with many segments holds few descriptors open.
pub(crate) struct HeldFile {
    file: Mutex<Option<Arc<dyn File>>>,
    /// Locked during a sync; the error of the first sync that failed.
    failure: Mutex<Option<String>>,
}

impl HeldFile {
    fn new(file: Option<Arc<dyn File>>) -> HeldFile {
        HeldFile { file: Mutex::new(file), failure: Mutex::new(None) }
    }

    /// The file of a segment that is not on the medium yet.
    pub(crate) fn open(file: Arc<dyn File>) -> HeldFile {
        HeldFile::new(Some(file))
    }

    /// A segment that is on the medium already.
    pub(crate) fn closed() -> HeldFile {
        HeldFile::new(None)
    }

    /// Closes the file, which was synced completely.
    pub(crate) fn close(&self) {
        *self.file.lock() = None;
    }

    /// True if nothing is left to sync.
    pub(crate) fn is_closed(&self) -> bool {
        self.file.lock().is_none()
    }

    /// Makes all writes to the file durable; a closed file is durable already. Syncs run one at a
    /// time, and never again after a failure: the system reports a failure once, to only one of two
    /// concurrent callers, and a later sync succeeds although pages were lost.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let mut failure = self.failure.lock();
        if let Some(cause) = &*failure {
            return Err(io::Error::other(format!("an earlier sync failed: {cause}")));
        }
        // Not under the lock of `file`: a sync takes long.
        let file = self.file.lock().clone();
        let synced = file.map_or(Ok(()), |file| file.sync());
        if let Err(error) = &synced {
            *failure = Some(error.to_string());
        }
        synced
    }

    /// Cuts or extends the file.
    ///
    /// # Panics
    /// If the file was closed: a sealed segment never changes.
    pub(crate) fn set_length(&self, length: u64) -> io::Result<()> {
        let file = self.file.lock().clone();
        file.expect("a segment is cut before it is closed").set_length(length)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use pellucid_io::FileSystem;
    use pellucid_io::simulated::{Faults, SimulatedFileSystem};

    use super::*;

    /// Time for a second sync to begin before the first one fails.
    const MEETING: Duration = Duration::from_millis(100);

    /// Regression: the thread that seals a segment took its records for durable, although a
    /// concurrent sync of the same file had reported a failure.
    #[test]
    fn of_two_syncs_at_once_neither_succeeds_if_one_fails() {
        let files = SimulatedFileSystem::new();
        let held = HeldFile::open(files.create(Path::new("/segment")).unwrap());
        files.set_faults(Faults { fail_next_sync: true, ..Faults::default() });
        files.observe(|| std::thread::sleep(MEETING));
        let outcomes = std::thread::scope(|scope| {
            let syncs = [0, 1].map(|_| scope.spawn(|| held.sync().is_ok()));
            syncs.map(|sync| sync.join().unwrap())
        });
        assert_eq!(outcomes, [false, false]);
        assert!(held.sync().is_err(), "the first failure is final");
    }
}

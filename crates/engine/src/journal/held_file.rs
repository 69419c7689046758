//! The open file of a segment, and its syncs.

use std::io;
use std::sync::Arc;

use pellucid_io::File;
use pellucid_thread::Mutex;

use crate::locks::lock;

/// The open file of a segment for as long as something is left to sync. Reading goes through the
/// map, so that a store of many segments holds few descriptors.
pub(crate) struct HeldFile {
    file: Mutex<Option<Arc<dyn File>>>,
    /// Held during a sync: the failure of the first one that failed.
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

    /// That of a segment that is.
    pub(crate) fn closed() -> HeldFile {
        HeldFile::new(None)
    }

    /// Closes the file, all of which was synced.
    pub(crate) fn close(&self) {
        *lock(&self.file) = None;
    }

    /// True if nothing is left to sync.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.file).is_none()
    }

    /// Makes what was written durable; a file that was closed is so already. One at a time, and
    /// never again after a failure: the system tells it once, to one of two who sync at the same
    /// time, and a later sync says nothing of the pages that were lost.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let mut failure = lock(&self.failure);
        if let Some(cause) = &*failure {
            return Err(io::Error::other(format!("an earlier sync failed: {cause}")));
        }
        // Not under its lock: a sync takes long.
        let file = lock(&self.file).clone();
        let synced = file.map_or(Ok(()), |file| file.sync());
        if let Err(error) = &synced {
            *failure = Some(error.to_string());
        }
        synced
    }

    /// Cuts or extends the file.
    ///
    /// # Panics
    /// If it was closed: nobody changes a segment that is sealed.
    pub(crate) fn set_length(&self, length: u64) -> io::Result<()> {
        let file = lock(&self.file).clone();
        file.expect("a segment is cut before it is closed").set_length(length)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use pellucid_io::{Map, MapMode};

    use super::*;

    /// Time for a second sync to begin while the first one is under way.
    const MEETING: Duration = Duration::from_millis(100);

    /// A file of which the first sync fails, once the second one has had time to begin.
    #[derive(Default)]
    struct Failing(AtomicU32);

    fn unused<T>() -> io::Result<T> {
        Err(io::ErrorKind::Unsupported.into())
    }

    impl File for Failing {
        fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
            unused()
        }

        fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
            unused()
        }

        fn length(&self) -> io::Result<u64> {
            unused()
        }

        fn set_length(&self, _: u64) -> io::Result<()> {
            unused()
        }

        fn allocate(&self, _: u64) -> io::Result<()> {
            unused()
        }

        fn sync(&self) -> io::Result<()> {
            if self.0.fetch_add(1, Ordering::Relaxed) > 0 {
                return Ok(());
            }
            std::thread::sleep(MEETING);
            Err(io::Error::other("the medium"))
        }

        fn map(&self, _: u64, _: MapMode) -> io::Result<Arc<dyn Map>> {
            unused()
        }
    }

    /// The thread that seals a segment took its records for durable, while the one that syncs it
    /// for those who wait was told of the failure.
    #[test]
    fn of_two_syncs_at_once_neither_succeeds_if_one_fails() {
        let held = HeldFile::open(Arc::new(Failing::default()));
        let outcomes = std::thread::scope(|scope| {
            let syncs = [0, 1].map(|_| scope.spawn(|| held.sync().is_ok()));
            syncs.map(|sync| sync.join().unwrap())
        });
        assert_eq!(outcomes, [false, false]);
        assert!(held.sync().is_err(), "the first failure is final");
    }
}

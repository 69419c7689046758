//! A reserve of descriptors for the files of a store. Connections may take all others, and a flush
//! that cannot open its table blocks every write.

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// The size of the reserve: a flush and a merge open a table each, the journal opens a segment, and
/// each of them may sync a folder.
const RESERVED_MAX: usize = 8;
/// The file that is opened to hold a descriptor.
const PLACEHOLDER: &str = "/dev/null";
const NONE: i32 = -1;

static RESERVED: [AtomicI32; RESERVED_MAX] = [const { AtomicI32::new(NONE) }; RESERVED_MAX];
/// The number of empty places of the reserve.
static MISSING: AtomicUsize = AtomicUsize::new(0);

/// True if this error code means that the process, or the machine, has no descriptor left.
#[must_use]
pub fn is_out_of_descriptors(code: i32) -> bool {
    code == libc::EMFILE || code == libc::ENFILE
}

/// Begins the reserve, on the first call. A process calls it when it opens a store.
pub(crate) fn begin() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        MISSING.store(RESERVED_MAX, Ordering::Relaxed);
        fill();
    });
}

/// Fills the empty places of the reserve, as far as there are descriptors.
#[cold]
fn fill() {
    for place in &RESERVED {
        if place.load(Ordering::Relaxed) != NONE {
            continue;
        }
        let Ok(file) = File::open(PLACEHOLDER) else { return };
        let descriptor = file.into_raw_fd();
        let (none, order) = (NONE, Ordering::AcqRel);
        if place.compare_exchange(none, descriptor, order, Ordering::Relaxed).is_ok() {
            MISSING.fetch_sub(1, Ordering::Relaxed);
        } else {
            give_back(descriptor);
        }
    }
}

/// Closes a descriptor of the reserve.
fn give_back(descriptor: i32) {
    // SAFETY: the descriptor came from `into_raw_fd`, and the caller, who has taken it out of the
    // reserve, is its only owner.
    drop(unsafe { File::from_raw_fd(descriptor) });
}

/// Takes a descriptor out of the reserve and closes it; false if there is none.
fn give_one_back() -> bool {
    let mut taken = RESERVED.iter().map(|place| place.swap(NONE, Ordering::AcqRel));
    let Some(descriptor) = taken.find(|descriptor| *descriptor != NONE) else { return false };
    MISSING.fetch_add(1, Ordering::Relaxed);
    give_back(descriptor);
    true
}

/// Calls `open`; if there is no other descriptor, closes one of the reserve and tries again.
pub(crate) fn open<T>(open: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let is_short = |outcome: &io::Result<T>| {
        let error = outcome.as_ref().err().and_then(io::Error::raw_os_error);
        error.is_some_and(is_out_of_descriptors)
    };
    let mut outcome = open();
    if !is_short(&outcome) {
        if MISSING.load(Ordering::Relaxed) > 0 {
            fill();
        }
        return outcome;
    }
    // Another thread may take the freed descriptor first, but the reserve bounds the attempts.
    while is_short(&outcome) && give_one_back() {
        outcome = open();
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileSystem, SystemFileSystem};

    const CHILD: &str = "PELLUCID_IO_RESERVE_CHILD";

    /// The test runs in a child process, because it takes all descriptors.
    #[test]
    fn files_of_the_store_open_where_no_descriptor_is_left_and_the_reserve_comes_back() {
        if std::env::var_os(CHILD).is_none() {
            let name = "reserve::tests::files_of_the_store_open_where_no_descriptor_is_left_and_\
                        the_reserve_comes_back";
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            let output =
                child.args([name, "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            return;
        }
        let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
        // SAFETY: the limit is a valid structure.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
        let folder = tempfile::tempdir().unwrap();
        let files = SystemFileSystem;
        let _lock = files.lock(&folder.path().join("LOCK")).unwrap();
        let take_all = || std::iter::from_fn(|| File::open(PLACEHOLDER).ok()).collect::<Vec<_>>();
        for _ in 0..3 {
            let taken = take_all();
            assert!(File::open(PLACEHOLDER).is_err());
            let path = |number: usize| folder.path().join(number.to_string());
            let create = |number| files.create(&path(number)).unwrap();
            let created: Vec<_> = (0..RESERVED_MAX).map(create).collect();
            let refused = files.open(&path(0), false).err().unwrap();
            assert!(is_out_of_descriptors(refused.raw_os_error().unwrap()), "{refused}");
            drop((created, taken));
            // The next successful opening fills the reserve again.
            files.open(&path(0), false).unwrap();
            assert_eq!(MISSING.load(Ordering::Relaxed), 0);
        }
    }
}

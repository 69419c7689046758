//! A reserve of descriptors for the files of a store. Connections may take all others, and a flush
//! that cannot open its table blocks every write.
#![allow(clippy::disallowed_types, reason = "files are opened off the path of a request")]

use std::fs::File;
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The size of the reserve: a flush and a merge open a table each, the journal opens a segment, and
/// each of them may sync a folder.
const RESERVED_MAX: usize = 8;
/// The file that is opened to hold a descriptor.
const PLACEHOLDER: &str = "/dev/null";

static RESERVED: OnceLock<Mutex<Vec<File>>> = OnceLock::new();

/// True if this error code means that the process, or the machine, has no descriptor left.
#[must_use]
pub fn is_out_of_descriptors(code: i32) -> bool {
    code == libc::EMFILE || code == libc::ENFILE
}

/// Begins the reserve. A process calls it when it opens a store.
pub(crate) fn begin() {
    RESERVED.get_or_init(Mutex::default);
    fill();
}

/// The reserve, if it has begun.
fn reserved() -> Option<MutexGuard<'static, Vec<File>>> {
    RESERVED.get().map(|files| files.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Fills the reserve, as far as there are descriptors.
fn fill() {
    let Some(mut files) = reserved() else { return };
    while files.len() < RESERVED_MAX
        && let Ok(file) = File::open(PLACEHOLDER)
    {
        files.push(file);
    }
}

/// Calls `open`; if there is no other descriptor, closes one of the reserve and tries again.
pub(crate) fn open<T>(open: impl Fn() -> io::Result<T>) -> io::Result<T> {
    // Another thread may take the freed descriptor first, but the reserve bounds the attempts.
    loop {
        let outcome = open();
        let code = outcome.as_ref().err().and_then(io::Error::raw_os_error);
        if !code.is_some_and(is_out_of_descriptors) {
            fill();
            return outcome;
        }
        let Some(file) = reserved().and_then(|mut files| files.pop()) else { return outcome };
        drop(file);
    }
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
            assert_eq!(reserved().unwrap().len(), RESERVED_MAX);
        }
    }
}

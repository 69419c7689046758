//! Hands the mode of a read down to the ledger's table readers.

use std::cell::Cell;

use crate::read_mode::ReadMode;

thread_local! {
    /// Whether this thread's read must end rather than wait.
    static REQUIRED: Cell<bool> = const { Cell::new(false) };
}

/// Whether the read of this thread must end with [`crate::Error::NotInMemory`] rather than wait.
#[inline]
pub(crate) fn is_required() -> bool {
    REQUIRED.get()
}

/// Runs `read` in `mode`.
#[inline]
pub(crate) fn in_mode<T>(mode: ReadMode, read: impl FnOnce() -> T) -> T {
    if mode == ReadMode::MayBlock {
        return read();
    }
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            REQUIRED.set(false);
        }
    }
    let _end = End;
    REQUIRED.set(true);
    read()
}

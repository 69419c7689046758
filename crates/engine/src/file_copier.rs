//! Copies of files that never change: a second name where the file system gives one, otherwise the
//! bytes, at a bounded speed.

use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use pellucid_clock::Clock;
use pellucid_io::FileSystem;

use crate::error::{Error, Result};
use crate::mapped::PAGE_BYTES;

/// Bytes that are copied in one go where files cannot be linked.
const PIECE_LENGTH: usize = 1 << 20;
/// The longest rest without a look whether the copy is stopped.
const REST_MAX: Duration = Duration::from_millis(100);

/// Options of a backup, and of restoring one.
#[derive(Clone, Copy, Default)]
pub struct CopyOptions<'a> {
    /// Bytes a second that are copied at most, so that requests beside it have the medium; nothing
    /// sets no bound. Files that are linked cost nothing, and are not counted.
    pub bytes_per_second_max: Option<NonZeroU64>,
    /// Called behind each file and each MiB of one that is copied, and now and then while a copy
    /// rests, on the calling thread. With `Break`, copying ends in [`Error::Stopped`].
    pub progress: Option<&'a dyn Fn(CopyProgress) -> ControlFlow<()>>,
}

/// The progress of a backup, or of restoring one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyProgress {
    /// Bytes of the files that are linked or copied.
    pub done_bytes: u64,
    /// Bytes of all files.
    pub total_bytes: u64,
}

/// A file to be copied.
pub(crate) struct CopySource<'a> {
    pub(crate) path: &'a Path,
    /// The bytes of a map of it.
    pub(crate) bytes: &'a [u8],
    /// An error if a page of the map could not be read: then its bytes are zeros.
    pub(crate) check: &'a dyn Fn() -> Result<()>,
}

/// See the module.
pub(crate) struct FileCopier<'a> {
    files: &'a dyn FileSystem,
    options: CopyOptions<'a>,
    clock: Clock,
    progress: CopyProgress,
    /// Files that got a second name.
    pub(crate) linked_files: u64,
    /// Files of which the bytes were copied.
    pub(crate) copied_files: u64,
}

impl<'a> FileCopier<'a> {
    /// A copier of files with so many bytes together.
    pub(crate) fn new(
        files: &'a dyn FileSystem,
        options: CopyOptions<'a>,
        clock: Clock,
        total_bytes: u64,
    ) -> FileCopier<'a> {
        FileCopier {
            files,
            options,
            clock,
            progress: CopyProgress { done_bytes: 0, total_bytes },
            linked_files: 0,
            copied_files: 0,
        }
    }

    /// Gives a file a second name in `folder`, or copies it there.
    pub(crate) fn link_or_copy(&mut self, source: &CopySource<'_>, folder: &Path) -> Result<()> {
        let target = folder.join(source.path.file_name().unwrap_or_default());
        if let Err(error) = self.files.hard_link(source.path, &target) {
            if self.files.exists(&target) {
                // Over a network, a link may be made and fail: a copy would overwrite its source.
                return Err(Error::io("link", &target, error));
            }
            return self.copy(source, folder);
        }
        self.linked_files += 1;
        self.advance(source.bytes.len())
    }

    /// Copies a file to `folder`.
    pub(crate) fn copy(&mut self, source: &CopySource<'_>, folder: &Path) -> Result<()> {
        let target = folder.join(source.path.file_name().unwrap_or_default());
        let copied = self.write(source.bytes, &target);
        if let Err(Error::Io { .. }) = copied {
            // It may be the source that failed: a call that cannot read a page tells no more than
            // that, and the page is noted when this process reads it.
            std::hint::black_box(source.bytes.iter().step_by(PAGE_BYTES).max());
        }
        (source.check)()?;
        copied?;
        self.copied_files += 1;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], target: &Path) -> Result<()> {
        let failed = |error| Error::io("write", target, error);
        let copy = self.files.create(target).map_err(failed)?;
        for (index, piece) in bytes.chunks(PIECE_LENGTH).enumerate() {
            let watch = self.clock.stopwatch();
            copy.write_all_at(piece, (index * PIECE_LENGTH) as u64).map_err(failed)?;
            if let Some(bytes_per_second_max) = self.options.bytes_per_second_max {
                // What the page cache gathers would reach the medium at its own speed.
                copy.sync().map_err(failed)?;
                // Each piece by itself: what a slow one took longer is no credit for the next.
                self.rest(pause(piece.len(), bytes_per_second_max, watch.elapsed_ns()))?;
            }
            self.advance(piece.len())?;
        }
        copy.sync().map_err(failed)
    }

    /// Bytes of the files so far.
    pub(crate) fn done_bytes(&self) -> u64 {
        self.progress.done_bytes
    }

    /// Rests for so long, and looks now and then whether it is stopped.
    fn rest(&mut self, mut left: Duration) -> Result<()> {
        while !left.is_zero() {
            let rest = left.min(REST_MAX);
            std::thread::sleep(rest);
            left -= rest;
            self.advance(0)?;
        }
        Ok(())
    }

    fn advance(&mut self, bytes: usize) -> Result<()> {
        self.progress.done_bytes += bytes as u64;
        match self.options.progress.map(|tell| tell(self.progress)) {
            Some(ControlFlow::Break(())) => Err(Error::Stopped),
            _ => Ok(()),
        }
    }
}

/// The pause behind `bytes` that were copied in `elapsed_ns`.
fn pause(bytes: usize, bytes_per_second_max: NonZeroU64, elapsed_ns: u64) -> Duration {
    let due_ns = bytes as u128 * 1_000_000_000 / u128::from(bytes_per_second_max.get());
    let pause_ns = due_ns.saturating_sub(u128::from(elapsed_ns));
    Duration::from_nanos(u64::try_from(pause_ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_pauses_for_what_it_is_ahead() {
        let of = |bytes, rate, elapsed_ns| {
            pause(bytes, NonZeroU64::new(rate).unwrap(), elapsed_ns).as_nanos()
        };
        assert_eq!(of(1 << 20, 1 << 20, 0), 1_000_000_000);
        assert_eq!(of(3 << 20, 1 << 20, 2_250_000_000), 750_000_000);
        assert_eq!(of(1 << 20, 1 << 20, 1_000_000_001), 0, "the medium is slower than the bound");
        assert_eq!(of(usize::MAX, 1, 0), u128::from(u64::MAX), "no overflow");
    }
}

//! Copies of files that never change: hard links where the file system allows them, otherwise
//! copies of the bytes, at a bounded speed.

use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use pellucid_clock::Clock;
use pellucid_io::FileSystem;

use crate::error::{Error, Result};
use crate::mapped_file::PAGE_BYTES;

/// Bytes that are copied at a time.
const PIECE_LENGTH: usize = 1 << 20;
/// The longest sleep between two checks whether the copying is to stop.
const REST_MAX: Duration = Duration::from_millis(100);

/// Options of a backup and of restoring one.
#[derive(Clone, Copy, Default)]
pub struct CopyOptions<'a> {
    /// The largest number of bytes copied per second, so that other requests get their share of the
    /// medium; `None` for no limit. Files that are linked do not count.
    pub bytes_per_second_max: Option<NonZeroU64>,
    /// A function that is called after each file, after each MiB of a file that is copied, and now
    /// and then while copying pauses, on the calling thread. If it returns `Break`, copying ends
    /// with [`Error::Stopped`].
    pub progress: Option<&'a dyn Fn(CopyProgress) -> ControlFlow<()>>,
}

/// The progress of a backup or of restoring one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyProgress {
    /// Bytes that were linked or copied so far.
    pub done_bytes: u64,
    /// Bytes of all files.
    pub total_bytes: u64,
}

/// A file to be copied.
pub(crate) struct CopySource<'a> {
    pub(crate) path: &'a Path,
    /// The bytes of the mapped file.
    pub(crate) bytes: &'a [u8],
    /// Returns an error if a page of the map could not be read; the bytes of such a page are zeros.
    pub(crate) check: &'a dyn Fn() -> Result<()>,
}

/// A copier of files: it links or copies them, reports its progress, and keeps to a speed limit.
pub(crate) struct FileCopier<'a> {
    files: &'a dyn FileSystem,
    options: CopyOptions<'a>,
    clock: Clock,
    progress: CopyProgress,
    /// Files that were linked.
    pub(crate) linked_files: u64,
    /// Files whose bytes were copied.
    pub(crate) copied_files: u64,
}

impl<'a> FileCopier<'a> {
    /// A copier of files that have `total_bytes` together.
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

    /// Links a file into `folder`, or copies it there.
    pub(crate) fn link_or_copy(&mut self, source: &CopySource<'_>, folder: &Path) -> Result<()> {
        let target = folder.join(source.path.file_name().unwrap_or_default());
        if let Err(error) = self.files.hard_link(source.path, &target) {
            if self.files.exists(&target) {
                // On a network file system, a link may be made although the call fails. Copying
                // would then overwrite the source.
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
            // The source may be what failed: a system call that cannot read a page of the map only
            // fails. Touching the pages in this process notes the one that cannot be read.
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
                // Otherwise the page cache would write back later, at its own speed.
                copy.sync().map_err(failed)?;
                // Each piece is timed by itself: time lost on a slow piece gives no credit to the
                // next.
                self.rest(pause(piece.len(), bytes_per_second_max, watch.elapsed_ns()))?;
            }
            self.advance(piece.len())?;
        }
        copy.sync().map_err(failed)
    }

    /// Bytes that were linked or copied so far.
    pub(crate) fn done_bytes(&self) -> u64 {
        self.progress.done_bytes
    }

    /// Sleeps for `left`, and checks now and then whether the copying is to stop.
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

/// The pause after `bytes` that took `elapsed_ns` to copy.
fn pause(bytes: usize, bytes_per_second_max: NonZeroU64, elapsed_ns: u64) -> Duration {
    let due_ns = bytes as u128 * 1_000_000_000 / u128::from(bytes_per_second_max.get());
    let pause_ns = due_ns.saturating_sub(u128::from(elapsed_ns));
    Duration::from_nanos(u64::try_from(pause_ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_pauses_when_it_is_ahead_of_its_limit() {
        let of = |bytes, rate, elapsed_ns| {
            pause(bytes, NonZeroU64::new(rate).unwrap(), elapsed_ns).as_nanos()
        };
        assert_eq!(of(1 << 20, 1 << 20, 0), 1_000_000_000);
        assert_eq!(of(3 << 20, 1 << 20, 2_250_000_000), 750_000_000);
        assert_eq!(of(1 << 20, 1 << 20, 1_000_000_001), 0, "the medium is slower than the bound");
        assert_eq!(of(usize::MAX, 1, 0), u128::from(u64::MAX), "no overflow");
    }
}

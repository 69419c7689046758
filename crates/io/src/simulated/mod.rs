//! Files in memory that can lose power, run out of space, and fail.
//!
//! Each file has two images: the one that a process sees (*live*), and the one that is on the
//! medium (*durable*). The names in a directory have two versions as well. A sync copies live to
//! durable. [`SimulatedFileSystem::kill`] simulates the death of the process: the next process
//! finds everything live. [`SimulatedFileSystem::crash`] simulates the loss of power: the next
//! process finds everything durable, and some of the 512-byte sectors and names that were not
//! synced, drawn from a seed. [`SimulatedFileSystem::write_back`] writes some of them to the medium
//! at any time.
#![allow(
    clippy::disallowed_types,
    reason = "simulated files need no profiles of waits, and delay no request"
)]

mod buffer;
mod content;
mod faults;
mod file;
mod state;
mod tree;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{File, FileSystem, LockGuard, SeededRandom};
use content::Content;
pub use faults::Faults;
use file::SimulatedFile;
use state::{SharedState, survival};
use tree::Tree;

/// A file system in memory. Clones share the same files.
#[derive(Clone)]
pub struct SimulatedFileSystem {
    shared: Arc<SharedState>,
}

impl Default for SimulatedFileSystem {
    fn default() -> SimulatedFileSystem {
        SimulatedFileSystem::new()
    }
}

impl std::fmt::Debug for SimulatedFileSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedFileSystem").field("calls", &self.calls()).finish_non_exhaustive()
    }
}

impl SimulatedFileSystem {
    /// An empty file system.
    #[must_use]
    pub fn new() -> SimulatedFileSystem {
        SimulatedFileSystem::with(Tree::default(), 1)
    }

    fn with(tree: Tree, boot: u64) -> SimulatedFileSystem {
        SimulatedFileSystem { shared: Arc::new(SharedState::new(tree, boot)) }
    }

    /// The state after the death of the process: everything that it has written. This file system
    /// is not changed.
    #[must_use]
    pub fn kill(&self) -> SimulatedFileSystem {
        let tree = self.shared.state().tree.after_kill();
        SimulatedFileSystem::with(tree, self.shared.boot)
    }

    /// The state after a loss of power: all synced data, and some of the other sectors and names,
    /// drawn with `seed`.
    #[must_use]
    pub fn crash(&self, seed: u64) -> SimulatedFileSystem {
        let mut random = SeededRandom::new(seed);
        let tree = self.shared.state().tree.after_crash(&mut survival(&mut random));
        SimulatedFileSystem::with(tree, self.shared.boot + 1)
    }

    /// Sets the faults to inject from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.shared.state().faults.set(faults);
    }

    /// Writes some sectors and names back to the medium now, drawn with `seed`, as a system may do
    /// at any time.
    pub fn write_back(&self, seed: u64) {
        let mut random = SeededRandom::new(seed);
        self.shared.state().tree.write_back(&mut survival(&mut random));
    }

    /// Writes back like [`SimulatedFileSystem::write_back`] before some of the calls from now on.
    /// Then a loss of power may leave any state of a page since its last sync.
    pub fn keep_writing_back(&self, seed: u64) {
        self.shared.state().write_back = Some(SeededRandom::new(seed));
    }

    /// Registers `observer`, which runs before each call on the thread of the call, to let other
    /// threads run or to inspect the files. It must not make calls of the file system itself.
    ///
    /// # Panics
    /// If there is an observer already.
    pub fn observe(&self, observer: impl Fn() + Send + Sync + 'static) {
        self.shared.observe(Box::new(observer));
    }

    /// The number of calls so far that can fail.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.shared.state().faults.calls
    }

    /// The number of syncs of files so far.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.shared.state().faults.syncs
    }

    /// The number of bytes so far for which [`File::will_need`] was called.
    #[must_use]
    pub fn expected_bytes(&self) -> u64 {
        self.shared.state().expected_bytes
    }

    /// The bytes that all files take together.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.shared.state().tree.used_bytes()
    }

    /// Flips bits of the byte at `offset` of a file, in memory and on the medium.
    ///
    /// # Errors
    /// If there is no such file, or no such byte in it.
    pub fn flip_bits(&self, path: &Path, offset: u64, bits: u8) -> io::Result<()> {
        self.shared.state().tree.find(path)?.flip_bits(offset, bits)
    }

    /// Makes the pages of these bytes of a file unreadable, like bad sectors: read calls of them
    /// fail, and maps have known zeros there ([`Map::unreadable_in`]). They stay so after a loss of
    /// power, until the file is emptied.
    ///
    /// [`Map::unreadable_in`]: crate::Map::unreadable_in
    ///
    /// # Errors
    /// If there is no such file.
    pub fn fail_reads(&self, path: &Path, range: Range<u64>) -> io::Result<()> {
        self.shared.state().tree.find(path)?.fail_reads(range);
        Ok(())
    }

    /// The bytes of a file as a process sees them.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Ok(self.shared.state().tree.find(path)?.live_bytes())
    }

    fn open_content(&self, content: Arc<Content>) -> Arc<dyn File> {
        Arc::new(SimulatedFile { shared: Arc::clone(&self.shared), content })
    }
}

impl FileSystem for SimulatedFileSystem {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut state = self.shared.call();
        state.faults.open()?;
        Ok(self.open_content(state.tree.create(path)?))
    }

    fn open(&self, path: &Path, _writable: bool) -> io::Result<Arc<dyn File>> {
        let mut state = self.shared.call();
        state.faults.open()?;
        Ok(self.open_content(state.tree.find(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.shared.fallible_call()?.tree.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.shared.fallible_call()?.tree.remove(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.shared.fallible_call()?.tree.list(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.shared.fallible_call()?.tree.create_directory(directory);
        Ok(())
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.shared.fallible_call()?.tree.sync_directory(directory);
        Ok(())
    }

    fn exists(&self, path: &Path) -> bool {
        self.shared.call().tree.exists(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.shared.call();
        state.faults.link()?;
        state.tree.hard_link(from, to)
    }

    fn lock(&self, path: &Path) -> io::Result<LockGuard> {
        let mut state = self.shared.fallible_call()?;
        if !state.locks.insert(path.to_path_buf()) {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        let (shared, path) = (Arc::clone(&self.shared), path.to_path_buf());
        Ok(LockGuard::new(Box::new(HeldLock { shared, path })))
    }

    fn free_bytes(&self, _directory: &Path) -> io::Result<u64> {
        let state = self.shared.fallible_call()?;
        let used = state.tree.used_bytes();
        Ok(state.faults.free_bytes(used))
    }

    fn mount_identity(&self, _directory: &Path) -> [u8; 16] {
        if self.shared.state().faults.hides_mount() {
            return [0; 16];
        }
        let mut identity = [0xb0; 16];
        identity[..8].copy_from_slice(&self.shared.boot.to_le_bytes());
        identity
    }
}

struct HeldLock {
    shared: Arc<SharedState>,
    path: PathBuf,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.shared.state().locks.remove(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::content::SECTOR_LENGTH;
    use super::*;
    use crate::MapMode;

    fn with_durable_file(bytes: &[u8]) -> (SimulatedFileSystem, Arc<dyn File>) {
        let (files, file) = with_file(bytes);
        files.sync_directory(Path::new("/d")).unwrap();
        file.sync().unwrap();
        (files, file)
    }

    fn with_file(bytes: &[u8]) -> (SimulatedFileSystem, Arc<dyn File>) {
        let files = SimulatedFileSystem::new();
        files.create_directory(Path::new("/d")).unwrap();
        files.sync_directory(Path::new("/")).unwrap();
        let file = files.create(Path::new("/d/a")).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        (files, file)
    }

    #[test]
    fn synced_data_survives_every_crash() {
        let (files, file) = with_file(&[7; 2000]);
        // Here the content is synced before the name.
        file.sync().unwrap();
        files.sync_directory(Path::new("/d")).unwrap();
        for seed in 0..100 {
            assert_eq!(files.crash(seed).read(Path::new("/d/a")).unwrap(), [7; 2000]);
        }
    }

    #[test]
    fn unsynced_data_survives_in_sectors() {
        let (files, file) = with_durable_file(&[7; 2048]);
        file.write_all_at(&[9; 2048], 0).unwrap();
        let mut outcomes = HashSet::new();
        for seed in 0..200 {
            let bytes = files.crash(seed).read(Path::new("/d/a")).unwrap();
            for sector in bytes.chunks(SECTOR_LENGTH) {
                assert!(sector.iter().all(|byte| byte == &sector[0]), "a sector is never torn");
            }
            outcomes.insert(bytes);
        }
        assert!(outcomes.len() > 10, "only {} outcomes", outcomes.len());
        assert_eq!(files.kill().read(Path::new("/d/a")).unwrap(), [9; 2048]);
    }

    #[test]
    fn a_crash_may_find_any_state_that_was_written_back() {
        let path = Path::new("/d/a");
        let mut found = HashSet::new();
        for seed in 0..200 {
            let (files, file) = with_durable_file(&[0; 1024]);
            let map = file.map(1024, MapMode::Write).unwrap();
            files.keep_writing_back(seed);
            for value in 1..=9 {
                for at in [0, SECTOR_LENGTH] {
                    // SAFETY: the bytes are within the map, and nobody else uses them.
                    unsafe { map.pointer().add(at).write_bytes(value, SECTOR_LENGTH) };
                }
                file.length().unwrap();
            }
            let bytes = files.crash(seed).read(path).unwrap();
            found.extend(bytes.chunks(SECTOR_LENGTH).map(|sector| sector[0]));
            file.sync().unwrap();
            assert_eq!(files.crash(seed).read(path).unwrap(), [9; 1024]);
        }
        assert_eq!(found.len(), 10, "each state since the sync");
    }

    #[test]
    fn a_crash_may_find_removed_names_that_were_written_back() {
        let mut found = HashSet::new();
        for seed in 0..200 {
            let (files, _) = with_file(b"x");
            files.sync_directory(Path::new("/d")).unwrap();
            files.keep_writing_back(seed);
            for (from, to) in [("/d/a", "/d/b"), ("/d/b", "/d/c")] {
                files.rename(Path::new(from), Path::new(to)).unwrap();
                (0..5).for_each(|_| assert!(!files.exists(Path::new(from))));
            }
            found.extend(files.crash(seed).list(Path::new("/d")).unwrap());
            files.sync_directory(Path::new("/d")).unwrap();
            assert_eq!(files.crash(seed).list(Path::new("/d")).unwrap(), ["c"]);
        }
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn unreadable_pages_are_known_zeros_in_maps() {
        let path = Path::new("/d/a");
        let (files, file) = with_durable_file(&[7; 10_000]);
        let map = file.map(10_000, MapMode::Read).unwrap();
        assert_eq!(map.unreadable_in(0, 10_000), None);
        files.fail_reads(path, 5_000..5_001).unwrap();
        for files in [&files, &files.kill(), &files.crash(1), &files.kill().crash(1)] {
            let file = files.open(path, false).unwrap();
            let map = file.map(10_000, MapMode::Read).unwrap();
            assert!(crate::any_unreadable());
            assert_eq!(map.unreadable_in(0, 4_096), None);
            assert_eq!(map.unreadable_in(100, 5_000), Some(4_096));
            assert_eq!(map.unreadable_in(8_191, 9), Some(8_191));
            assert_eq!(map.unreadable_in(8_192, 1_808), None);
            assert_eq!(map.bytes()[4_095..=4_096], [7, 0]);
            assert_eq!(map.bytes()[8_191..=8_192], [0, 7]);
            file.read_exact_at(&mut [0; 4_096], 0).unwrap();
            assert!(file.read_exact_at(&mut [0; 4_096], 1).is_err());
        }
        assert_eq!(map.unreadable_in(0, 10_000), Some(4_096), "a page may go at any time");
        assert_eq!(files.create(path).unwrap().length().unwrap(), 0);
        files.open(path, true).unwrap().write_all_at(&[8; 10_000], 0).unwrap();
        files.open(path, false).unwrap().read_exact_at(&mut [0; 10_000], 0).unwrap();
    }

    /// Regression: a file could be renamed or linked into a directory that did not exist.
    #[test]
    fn a_file_goes_only_into_a_directory_that_exists() {
        let (files, _) = with_file(b"x");
        let (from, to) = (Path::new("/d/a"), Path::new("/nowhere/a"));
        for refused in [files.rename(from, to), files.hard_link(from, to)] {
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::NotFound);
        }
        assert!(files.exists(from) && !files.exists(to));
    }

    /// Regression: a page that was cut off a file was unreadable again when the file grew.
    #[test]
    fn a_page_that_is_cut_off_is_no_longer_unreadable() {
        let (files, file) = with_file(&[7; 10_000]);
        files.fail_reads(Path::new("/d/a"), 9_000..9_001).unwrap();
        assert!(file.read_exact_at(&mut [0; 10_000], 0).is_err());
        file.set_length(8_000).unwrap();
        file.set_length(10_000).unwrap();
        file.read_exact_at(&mut [0; 10_000], 0).unwrap();
    }

    /// Regression: the end of a write behind the highest offset was computed modulo 2^64.
    #[test]
    fn a_write_behind_the_highest_offset_is_refused() {
        let (_files, file) = with_file(b"x");
        assert!(file.write_all_at(b"ab", u64::MAX).is_err());
        assert_eq!(file.length().unwrap(), 1);
    }

    /// Pages that a failed sync has lost are not written back later.
    #[test]
    fn lost_pages_are_not_written_back() {
        let path = Path::new("/d/a");
        let (files, file) = with_durable_file(&[7; 10_000]);
        file.write_all_at(&[8; 10_000], 0).unwrap();
        files.set_faults(Faults { fail_next_sync: true, ..Faults::default() });
        assert!(file.sync().is_err());
        files.keep_writing_back(1);
        (0..200).for_each(|_| assert_eq!(file.length().unwrap(), 10_000));
        assert_eq!(files.crash(1).read(path).unwrap(), [7; 10_000]);
    }

    #[test]
    fn names_vanish_one_by_one_until_their_directory_is_synced() {
        let (files, file) = with_file(b"x");
        file.sync().unwrap();
        files.create(Path::new("/d/b")).unwrap().sync().unwrap();
        let mut outcomes = HashSet::new();
        for seed in 0..200 {
            outcomes.insert(files.crash(seed).list(Path::new("/d")).unwrap());
        }
        assert_eq!(outcomes.len(), 4);
        files.sync_directory(Path::new("/d")).unwrap();
        files.rename(Path::new("/d/b"), Path::new("/d/a")).unwrap();
        for seed in 0..50 {
            assert!(files.crash(seed).exists(Path::new("/d/a")), "a rename replaces or does not");
        }
    }

    #[test]
    fn maps_and_calls_see_the_same_bytes() {
        let (files, file) = with_file(&[0; 4096]);
        file.allocate(8192).unwrap();
        let map = file.map(8192, MapMode::Write).unwrap();
        // SAFETY: the offset is within the map, and nobody else uses it.
        unsafe { map.pointer().add(8000).write(1) };
        assert_eq!(files.read(Path::new("/d/a")).unwrap()[8000], 1);
        file.set_length(4096).unwrap();
        assert_eq!(file.length().unwrap(), 4096);
        file.write_all_at(&[5], 8191).unwrap();
        assert_eq!(files.read(Path::new("/d/a")).unwrap()[8000], 0, "a cut leaves zeros");
        assert!(file.allocate(1 << 20).is_err(), "a mapped file does not move");
    }

    /// Regression: contrary to the documentation, a later sync wrote the lost pages to the medium.
    #[test]
    fn a_failed_sync_loses_its_pages_for_good() {
        let path = Path::new("/d/a");
        let (files, file) = with_durable_file(&[7; 10_000]);
        file.write_all_at(&[8; 10_000], 0).unwrap();
        files.set_faults(Faults { fail_next_sync: true, ..Faults::default() });
        assert!(file.sync().is_err());
        file.sync().unwrap();
        assert_eq!(files.read(path).unwrap(), [8; 10_000]);
        assert_eq!(files.crash(1).read(path).unwrap(), [7; 10_000]);
        // Writing the pages again does not help, but emptying the file does.
        let killed = files.kill();
        assert_eq!(killed.read(path).unwrap(), [8; 10_000]);
        let file = killed.open(path, true).unwrap();
        file.write_all_at(&[9; 10_000], 0).unwrap();
        file.sync().unwrap();
        assert_eq!(killed.crash(1).read(path).unwrap(), [7; 10_000]);
        let file = killed.create(path).unwrap();
        file.write_all_at(&[9; 10_000], 0).unwrap();
        file.sync().unwrap();
        assert_eq!(killed.crash(1).read(path).unwrap(), [9; 10_000]);
    }

    #[test]
    fn faults_are_injected_when_they_are_due() {
        let (files, file) = with_file(b"x");
        files.set_faults(Faults { fail_call: Some(2), ..Faults::default() });
        file.sync().unwrap();
        assert!(file.sync().is_err());
        file.sync().unwrap();
        files.set_faults(Faults { space_bytes: Some(100), ..Faults::default() });
        let full = file.write_all_at(&[1; 200], 0).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        files.set_faults(Faults { fail_next_sync: true, ..Faults::default() });
        assert!(file.sync().is_err());
        file.sync().unwrap();
    }
}

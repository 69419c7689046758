//! Files that run code of a test at certain moments: a write in the middle of a sync, or a merge in
//! the middle of a collection. Threads may meet at such moments by chance, but no seed reproduces
//! that.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pellucid_engine::{Engine, EngineOptions, TableId};
use pellucid_io::simulated::SimulatedFileSystem;
use pellucid_io::{File, FileSystem, LockGuard, Map, MapMode, pass_on};
use pellucid_thread::Mutex;

use super::open_table;

/// A moment of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileEvent {
    /// A file was created.
    Created,
    /// A file is about to be synced.
    Syncing,
    /// A file was synced; its caller does not have the result yet.
    Synced,
    /// A directory was synced; its caller does not have the result yet.
    FolderSynced,
    /// A full segment is about to be sealed.
    Sealing,
    /// Pages of a map were checked; the caller does not have the result yet.
    Checked,
}

/// An action that runs once, at a certain moment.
struct ScheduledAction {
    moment: FileEvent,
    wants: Box<dyn Fn(&Path) -> bool + Send>,
    act: Box<dyn FnOnce() -> io::Result<()> + Send>,
}

/// A condition on a page: the path of its file, and its offset.
type PageFilter = fn(&Path, usize) -> bool;

/// Simulated files with at most one plan. Clones share it. A file keeps the path under which it was
/// created.
#[derive(Clone)]
pub(crate) struct WatchedFiles {
    files: SimulatedFileSystem,
    plan: Arc<Mutex<Option<ScheduledAction>>>,
    /// Accepts the pages that are not in memory.
    is_away: Arc<Mutex<Option<PageFilter>>>,
}

/// True for the file of a segment, which gets its final name later.
pub(crate) fn is_segment(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".journal.new")
}

impl WatchedFiles {
    pub(crate) fn new(files: &SimulatedFileSystem) -> WatchedFiles {
        WatchedFiles { files: files.clone(), plan: Arc::default(), is_away: Arc::default() }
    }

    /// Runs `act` at the next such moment of a path for which `wants` holds, on the thread of that
    /// call. If `act` fails, the call fails with its error.
    pub(crate) fn at_next(
        &self,
        moment: FileEvent,
        wants: impl Fn(&Path) -> bool + Send + 'static,
        act: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) {
        let plan = ScheduledAction { moment, wants: Box::new(wants), act: Box::new(act) };
        *self.plan.lock() = Some(plan);
    }

    /// Has the pages that `is_away` accepts count as not in memory from now on.
    pub(crate) fn send_away(&self, is_away: PageFilter) {
        *self.is_away.lock() = Some(is_away);
    }

    fn notice(&self, moment: FileEvent, path: &Path) -> io::Result<()> {
        let is_due = |plan: &mut ScheduledAction| plan.moment == moment && (plan.wants)(path);
        let due = self.plan.lock().take_if(is_due);
        // Not under the lock, because the action makes calls of its own.
        due.map_or(Ok(()), |plan| (plan.act)())
    }

    fn watch(&self, file: Arc<dyn File>, path: &Path) -> Arc<dyn File> {
        Arc::new(WatchedFile { file, files: self.clone(), path: path.to_path_buf() })
    }
}

impl FileSystem for WatchedFiles {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = self.files.create(path)?;
        self.notice(FileEvent::Created, path)?;
        Ok(self.watch(file, path))
    }

    fn open(&self, path: &Path, writable: bool) -> io::Result<Arc<dyn File>> {
        Ok(self.watch(self.files.open(path, writable)?, path))
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.files.sync_directory(directory)?;
        self.notice(FileEvent::FolderSynced, directory)
    }

    pass_on! { files:
        fn rename(from: &Path, to: &Path) -> io::Result<()>;
        fn remove(path: &Path) -> io::Result<()>;
        fn list(directory: &Path) -> io::Result<Vec<String>>;
        fn create_directory(directory: &Path) -> io::Result<()>;
        fn exists(path: &Path) -> bool;
        fn hard_link(from: &Path, to: &Path) -> io::Result<()>;
        fn lock(path: &Path) -> io::Result<LockGuard>;
        fn free_bytes(directory: &Path) -> io::Result<u64>;
        fn mount_identity(directory: &Path) -> [u8; 16];
    }
}

/// Opens a new store on watched files, and its table "t".
pub(crate) fn open_watched(
    options: impl FnOnce(&SimulatedFileSystem) -> EngineOptions,
) -> (SimulatedFileSystem, WatchedFiles, Engine, TableId) {
    let files = SimulatedFileSystem::new();
    let watched = WatchedFiles::new(&files);
    let file_system = Arc::new(watched.clone());
    let (engine, table) = open_table(EngineOptions { file_system, ..options(&files) });
    (files, watched, engine, table)
}

struct WatchedFile {
    file: Arc<dyn File>,
    files: WatchedFiles,
    path: PathBuf,
}

impl File for WatchedFile {
    pass_on! { file:
        fn write_all_at(bytes: &[u8], offset: u64) -> io::Result<()>;
        fn read_exact_at(buffer: &mut [u8], offset: u64) -> io::Result<()>;
        fn length() -> io::Result<u64>;
        fn set_length(length: u64) -> io::Result<()>;
        fn allocate(length: u64) -> io::Result<()>;
        fn will_need(offset: u64, length: usize);
    }

    fn sync(&self) -> io::Result<()> {
        self.files.notice(FileEvent::Syncing, &self.path)?;
        self.file.sync()?;
        self.files.notice(FileEvent::Synced, &self.path)
    }

    fn map(&self, length: u64, mode: MapMode) -> io::Result<Arc<dyn Map>> {
        let map = self.file.map(length, mode)?;
        Ok(Arc::new(WatchedMap { map, files: self.files.clone(), path: self.path.clone() }))
    }
}

struct WatchedMap {
    map: Arc<dyn Map>,
    files: WatchedFiles,
    path: PathBuf,
}

impl Map for WatchedMap {
    pass_on! { map:
        fn pointer() -> *mut u8;
        fn length() -> usize;
    }

    fn is_resident(&self, offset: usize, _length: usize) -> bool {
        self.files.is_away.lock().is_none_or(|is_away| !is_away(&self.path, offset))
    }

    fn settle(&self) {
        self.files.notice(FileEvent::Sealing, &self.path).unwrap();
        self.map.settle();
    }

    fn unreadable_in(&self, offset: usize, length: usize) -> Option<usize> {
        let page = self.map.unreadable_in(offset, length);
        self.files.notice(FileEvent::Checked, &self.path).unwrap();
        page
    }
}

//! The engine: what an embedder holds, from opening to closing.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use pellucid_account::Activity;
use pellucid_clock::Ticks;
use pellucid_io::{FileSystem, LockGuard, Random, SeededRandom, SystemRandom};
use pellucid_thread::{Mutex, MutexGuard, RwLock};

use crate::catalogue::{CATALOGUE_TABLE, Catalogue, TableShapes};
use crate::codec::{TABLE_PREFIX_LENGTH, split_internal_key};
use crate::collect::{self, Collector};
use crate::definition::Definition;
use crate::error::{Error, Result};
use crate::expiry::MarkedTime;
use crate::jobs;
use crate::journal::{Appender, JOURNAL_FOLDER, Journal, JournalSetting, RecordKind};
use crate::ledger::{self, Entry, JournalLink, KeyRange, Kind, Ledger, Manifest, NEWEST};
use crate::options::EngineOptions;
use crate::read_mode::ReadMode;
use crate::rules::TableRules;
use crate::scan::internal_range;
use crate::stats::{
    EngineStats, LedgerFigures, LevelReads, MemoryFigures, ReadFigures, WriteFigures,
};
use crate::stem::StemRule;

/// The file that is locked for as long as the store is open.
pub(crate) const LOCK_FILE: &str = "LOCK";
/// Where the ledger's tables lie within the store's folder.
pub(crate) const LEDGER_FOLDER: &str = "ledger";

/// When the sync that made a write durable began and ended, on the engine's clock. Zero ticks if
/// the write was durable before anybody asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncTimes {
    /// The beginning: the time from the write to here is the wait for the group.
    pub begun: Ticks,
    /// The end.
    pub ended: Ticks,
    /// Its number among the background jobs ([`Engine::activity`]).
    pub job: u64,
}

/// Called once a write is durable, or cannot become durable any more.
pub type DurableCallback = Box<dyn FnOnce(Result<SyncTimes>) + Send>;

/// A store that is open. Clones are the same store, for any number of threads.
///
/// Dropping the last clone without [`Engine::close`] loses nothing that was acknowledged; the next
/// opening then replays the end of the journal.
///
/// ```
/// use pellucid_account::Timeline;
/// use pellucid_engine::{Acknowledgement, Condition, Engine, EngineOptions, Error, Operation};
///
/// # fn main() -> pellucid_engine::Result<()> {
/// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
/// # let options = EngineOptions { file_system: files, ..EngineOptions::default() };
/// let engine = Engine::open("/var/lib/example", options)?;
/// let users = engine.table("users")?;
/// let mut timeline = Timeline::off();
///
/// // A head is stored beside the value, and read without it.
/// let put = Operation::put(users, b"ada", b"{...}").with_head(b"text/plain");
/// let put = put.with_condition(Condition::Absent);
/// let written = engine.write(&[put], Acknowledgement::Disk)?;
/// if written.pending {
///     engine.wait_durable(written.sequence)?;
/// }
/// let head = engine.head(users, b"ada")?.expect("it was put");
/// assert_eq!((&*head.metadata, head.value_length), (&b"text/plain"[..], 5));
///
/// // The condition does not hold a second time.
/// let again = engine.write(&[put], Acknowledgement::Os);
/// assert!(matches!(again, Err(Error::ConditionFailed { index: 0, .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) options: EngineOptions,
    /// What follows for writers from the memory setting.
    pub(crate) limits: Limits,
    pub(crate) directory: PathBuf,
    /// The time by which entries expire.
    pub(crate) time: Arc<MarkedTime>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) ledger: Ledger,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) catalogue: RwLock<Catalogue>,
    /// What the write path has to know of each table.
    pub(crate) shapes: TableShapes,
    /// What the options of tables mean for their entries.
    pub(crate) rules: Arc<TableRules>,
    pub(crate) collector: Arc<Collector>,
    /// What runs beside reads and writes.
    pub(crate) activity: Activity,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
    lock: Mutex<Option<LockGuard>>,
}

/// What follows for writers from the memory setting.
pub(crate) struct Limits {
    /// What the entries of a batch may take in a memtable.
    pub(crate) batch_memory_max_bytes: u64,
}

/// What the writer lock protects.
pub(crate) struct Writer {
    pub(crate) appender: Appender,
    pub(crate) is_closed: bool,
    /// Delay that writers owe to the merges behind them and have not yet taken.
    pub(crate) owed_ns: u64,
}

/// Locks a mutex of the engine; a panic elsewhere is no reason to lock up.
#[track_caller]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("directory", &self.inner.directory).finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens the store in `directory`, which is made if it does not exist. Whatever was
    /// acknowledged before is there again.
    ///
    /// # Errors
    /// If the store is open already, if its files are damaged, or if the file system fails.
    pub fn open(directory: impl AsRef<Path>, options: EngineOptions) -> Result<Engine> {
        options.check()?;
        let directory = directory.as_ref().to_path_buf();
        let file_system = Arc::clone(&options.file_system);
        make_folders(&*file_system, &directory)?;
        let guard = take_lock(&*file_system, &directory)?;
        let manifest = Manifest::read(&*file_system, &directory)?;
        if manifest.is_none() {
            refuse_orphans(&*file_system, &directory)?;
        }
        let is_new = manifest.is_none();
        let manifest = manifest.unwrap_or_else(|| Manifest::empty(new_identity(&options)));
        let time = Arc::new(MarkedTime::new(options.clock, manifest.time_mark_ms));
        let activity = jobs::activity();
        let setting = JournalSetting {
            file_system: Arc::clone(&file_system),
            directory: directory.clone(),
            clock: options.clock,
            segment_size_bytes: options.segment_size_bytes,
            segment_records_max: options.shares().segment_records_max(),
            time: Arc::clone(&time),
            activity: activity.clone(),
        };
        let (journal, appender) = Journal::open(setting, &manifest)?;
        let journal = Arc::new(journal);
        let link: Arc<dyn JournalLink> = Arc::clone(&journal) as Arc<dyn JournalLink>;
        let rules = Arc::new(TableRules::default());
        let ledger_options = options.ledger_options(&rules, &activity);
        let ledger = if is_new {
            let identity = manifest.store_identity;
            Ledger::create(file_system, &directory, identity, ledger_options, link)?
        } else {
            Ledger::open(file_system, &directory, manifest, ledger_options, link)?
        };
        let writer = Writer { appender, is_closed: false, owed_ns: 0 };
        let limits = Limits { batch_memory_max_bytes: options.shares().batch_memory_max_bytes() };
        let inner = Arc::new(Inner {
            options,
            limits,
            directory,
            time,
            journal,
            ledger,
            writer: Mutex::new(writer),
            catalogue: RwLock::default(),
            shapes: TableShapes::default(),
            rules,
            collector: Arc::default(),
            activity,
            threads: Mutex::default(),
            lock: Mutex::new(Some(guard)),
        });
        // What is in tables first: replay depends on the options of tables, and so does the thread
        // that collects the stems of their keys.
        inner.ledger.publish(inner.ledger.flushed_sequence());
        inner.load_catalogue()?;
        // The threads before replay: a long one needs flushes while it goes on.
        inner.start_threads()?;
        inner.replay()?;
        inner.load_catalogue()?;
        inner.start_collection()?;
        // Of a store that was just opened nobody knows what is in memory.
        inner.journal.note_away();
        Ok(Engine { inner })
    }

    /// Writes everything to tables that is only in memory and the journal, so that an opening has
    /// nothing to replay.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn flush(&self) -> Result<()> {
        let writer = lock(&self.inner.writer);
        self.inner.flush(&writer)
    }

    /// Merges all tables of the ledger into one level.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn compact(&self) -> Result<()> {
        self.inner.ledger.compact_all()
    }

    /// Makes everything durable, writes it to tables, and releases the store for the next opening,
    /// which is quick then. Reads of this engine go on; writes are refused.
    ///
    /// # Errors
    /// If the file system fails; the store is then released as it is.
    pub fn close(&self) -> Result<()> {
        let inner = &*self.inner;
        inner.collector.close();
        let mut writer = lock(&inner.writer);
        if writer.is_closed {
            return Ok(());
        }
        writer.is_closed = true;
        let outcome = inner
            .flush(&writer)
            .and_then(|()| inner.journal.close(&mut writer.appender))
            .and_then(|()| inner.ledger.write_manifest());
        drop(writer);
        inner.stop_threads();
        *lock(&inner.lock) = None;
        outcome
    }

    /// The time by which entries expire, in milliseconds since the Unix epoch: the wall clock, but
    /// it never goes back. A lifetime is added to this.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.inner.time.now_ms()
    }

    /// The background jobs of the store, as they begin and end; [`jobs`] has their kinds.
    #[must_use]
    pub fn activity(&self) -> Activity {
        self.inner.activity.clone()
    }

    /// Figures of the store.
    #[must_use]
    pub fn stats(&self) -> EngineStats {
        let inner = &*self.inner;
        let segments = inner.journal.facts();
        let tally = inner.ledger.tally();
        let stats = inner.ledger.stats();
        let shares = inner.options.shares();
        let memory = MemoryFigures::of(&shares, &stats.memory, inner.journal.places_bytes());
        let mut ledger = LedgerFigures::from(stats);
        for (number, level) in ledger.levels.iter_mut().enumerate() {
            level.reads = LevelReads::of(tally, number);
        }
        EngineStats {
            published_sequence: inner.ledger.published_sequence(),
            durable_sequence: inner.journal.durable_sequence(),
            flushed_sequence: inner.ledger.flushed_sequence(),
            segments: segments.len() as u64,
            journal_bytes: segments.iter().map(|segment| segment.size_bytes).sum(),
            journal_dead_bytes: segments.iter().map(|segment| segment.dead_bytes).sum(),
            journal_marker_bytes: segments.iter().map(|segment| segment.marker_bytes).sum(),
            collected: inner.collected(),
            collection_trouble: inner.collector.trouble(),
            syncs: inner.journal.syncs(),
            durability: inner.journal.durability(),
            reads: ReadFigures::of(tally),
            writes: WriteFigures::of(tally),
            ledger,
            memory,
        }
    }
}

impl Inner {
    pub(crate) fn flush(&self, writer: &MutexGuard<'_, Writer>) -> Result<()> {
        self.journal.check_poison()?;
        self.ledger.flush_now(writer.appender.next_sequence() - 1)
    }

    /// Takes note of the rule of a table, if the entry with this key and head defines one. What
    /// cannot be read is reported when the whole catalogue is.
    fn note_entry(&self, key: &[u8], head: &[u8]) {
        if key.starts_with(&CATALOGUE_TABLE.to_be_bytes())
            && let Ok(definition) = Definition::decode(head)
        {
            self.note_definition(key.get(TABLE_PREFIX_LENGTH..).unwrap_or_default(), &definition);
        }
    }

    /// Takes note of what a definition, which is in the catalogue under `key`, means for the
    /// entries of its table.
    pub(crate) fn note_definition(&self, key: &[u8], definition: &Definition) {
        self.shapes.note(definition);
        definition.note_rule(&self.rules);
        let is_its_own = |rule: &&StemRule| rule.table.as_bytes() == key;
        if let Some(rule) = self.options.stem_rules.iter().find(is_its_own) {
            self.rules.set_stems(definition.table.0, rule.stem_of);
        }
    }

    /// Brings what is only in the journal back into memory.
    fn replay(&self) -> Result<()> {
        let flushed = self.ledger.flushed_sequence();
        let last = self.journal.appended_sequence();
        self.ledger.publish(flushed);
        self.journal.replay(flushed + 1, last, |record| {
            let kind = match record.kind {
                RecordKind::Put => Kind::Put,
                RecordKind::Delete | RecordKind::SyncMark => Kind::Delete,
            };
            self.time.raise(record.written_at_ms);
            self.note_entry(record.key, record.head);
            let is_held =
                kind == Kind::Put && self.rules.of_key(record.key).holds(record.value_length());
            // Should it be damaged, reads of the record will tell.
            let held = if is_held { record.unpacked().ok() } else { None };
            self.ledger.insert(&Entry {
                key: record.key,
                sequence: record.sequence,
                kind,
                value_length: record.value_length() as u32,
                stored_length: record.value.len() as u32,
                written_at_ms: record.written_at_ms,
                expires_at_ms: record.expires_at_ms,
                head: record.head,
                value: held.as_deref(),
            });
            if !record.batch_goes_on {
                self.ledger.publish(record.sequence);
                self.ledger.rotate_if_full(record.sequence);
                self.keep_room()?;
            }
            Ok(())
        })?;
        // The last ones may have been collected.
        self.ledger.publish(last);
        Ok(())
    }

    /// Keeps replay within the memory budget. On a full disk it goes beyond, because a store that
    /// can be read is better than one that cannot be opened.
    fn keep_room(&self) -> Result<()> {
        match self.ledger.wait_for_room() {
            Ok(_) => Ok(()),
            Err(error) if error.passes() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn load_catalogue(&self) -> Result<()> {
        let range = internal_range(CATALOGUE_TABLE, (Bound::Unbounded, Bound::Unbounded));
        let mut scan = self.ledger.scan(
            range.as_key_range(),
            ledger::Direction::Forward,
            NEWEST,
            ReadMode::MayBlock,
        )?;
        let mut catalogue = Catalogue::default();
        while let Some((key, entry)) = scan.next()? {
            let unreadable = |what| Error::corruption(&self.directory, 0, what);
            let definition = Definition::decode(&entry.head).map_err(unreadable)?;
            let key = key.get(TABLE_PREFIX_LENGTH..).unwrap_or_default();
            self.note_definition(key, &definition);
            let added = catalogue.add(key, definition, &self.options.head_rules);
            added.map_err(unreadable)?;
        }
        // A salvage may have lost a definition. No other table gets the number while entries are
        // left under it.
        let all = KeyRange { start: Bound::Unbounded, end: Bound::Unbounded };
        let mut last =
            self.ledger.scan(all, ledger::Direction::Reverse, NEWEST, ReadMode::MayBlock)?;
        if let Some((key, _)) = last.next()?
            && let Some((number, _)) = split_internal_key(key)
        {
            catalogue.highest = catalogue.highest.max(number);
        }
        *self.catalogue.write().unwrap_or_else(PoisonError::into_inner) = catalogue;
        Ok(())
    }

    fn start_threads(&self) -> Result<()> {
        if !self.options.background {
            return Ok(());
        }
        let mut threads = lock(&self.threads);
        threads.push(self.journal.start_sync_thread()?);
        threads.extend(self.journal.start_roll_threads()?);
        self.ledger.start_background()
    }

    /// Starts collecting once replay is done, so that it does not hold an opening up.
    fn start_collection(self: &Arc<Self>) -> Result<()> {
        if self.options.background {
            let thread = collect::start_thread(self)?;
            lock(&self.threads).push(thread);
        }
        Ok(())
    }

    fn stop_threads(&self) {
        self.collector.stop();
        self.ledger.close();
        self.journal.stop_sync_thread();
        self.journal.stop_roll_threads();
        let threads = std::mem::take(&mut *lock(&self.threads));
        let own = std::thread::current().id();
        for thread in threads {
            // The last clone may be dropped by a callback, on the sync thread itself.
            if thread.thread().id() != own {
                // A thread that panicked has said so on standard error.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop_threads();
    }
}

pub(crate) fn make_folders(file_system: &dyn FileSystem, directory: &Path) -> Result<()> {
    for folder in [directory, &directory.join(JOURNAL_FOLDER), &directory.join(LEDGER_FOLDER)] {
        if !file_system.exists(folder) {
            let made = file_system.create_directory(folder);
            made.map_err(|error| Error::io("create", folder, error))?;
        }
    }
    let synced = file_system.sync_directory(directory);
    synced.map_err(|error| Error::io("sync", directory, error))?;
    if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        // Not every parent may be opened by us; then its names are its owner's business.
        let _ = file_system.sync_directory(parent);
    }
    Ok(())
}

pub(crate) fn take_lock(file_system: &dyn FileSystem, directory: &Path) -> Result<LockGuard> {
    let path = directory.join(LOCK_FILE);
    file_system.lock(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => Error::Locked { path: path.clone() },
        _ => Error::io("lock", &path, error),
    })
}

/// A folder that holds data but no manifest is not taken for an empty store.
fn refuse_orphans(file_system: &dyn FileSystem, directory: &Path) -> Result<()> {
    for (folder, suffix) in [(JOURNAL_FOLDER, ".journal"), (LEDGER_FOLDER, ".table")] {
        let folder = directory.join(folder);
        let names = file_system.list(&folder);
        let names = names.map_err(|error| Error::io("list", &folder, error))?;
        if names.iter().any(|name| name.ends_with(suffix)) {
            return Err(Error::ManifestMissing { directory: directory.to_path_buf() });
        }
    }
    Ok(())
}

fn new_identity(options: &EngineOptions) -> u64 {
    match options.identity_seed {
        Some(seed) => SeededRandom::new(seed).next_u64(),
        None => SystemRandom.next_u64(),
    }
}

//! An open store: its parts, from opening to closing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pellucid_account::Activity;
use pellucid_io::{LockGuard, Random, SeededRandom, SystemRandom};
use pellucid_thread::{JoinHandle, Mutex};

use crate::catalogue::Catalogue;
use crate::error::{Error, Result};
use crate::expiry::ExpiryClock;
use crate::folder::{make_folders, refuse_orphans, take_lock};
use crate::garbage::{CollectionRules, GarbageCollector};
use crate::jobs;
use crate::journal::{Journal, JournalSetting, RecordKind};
use crate::ledger::{Entry, EntryKind, JournalLink, Ledger, Manifest};
use crate::options::EngineOptions;
use crate::reader::Reader;
use crate::rules::TableRules;
use crate::writer::Writer;

/// The parts of an open store. It is released when the last owner drops it.
pub(crate) struct OpenStore {
    pub(crate) options: EngineOptions,
    pub(crate) directory: PathBuf,
    /// The time by which entries expire.
    pub(crate) time: Arc<ExpiryClock>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) collector: Arc<GarbageCollector>,
    /// The jobs that run in the background of reads and writes.
    pub(crate) activity: Activity,
    threads: Mutex<Vec<JoinHandle<()>>>,
    lock: Mutex<Option<LockGuard>>,
}

impl OpenStore {
    /// Opens the store in `directory`; creates both if they do not exist.
    pub(crate) fn open(directory: &Path, options: EngineOptions) -> Result<OpenStore> {
        options.check()?;
        let directory = directory.to_path_buf();
        let file_system = Arc::clone(&options.file_system);
        make_folders(&*file_system, &directory)?;
        let guard = take_lock(&*file_system, &directory)?;
        let manifest = Manifest::read(&*file_system, &directory)?;
        if manifest.is_none() {
            refuse_orphans(&*file_system, &directory)?;
        }
        let is_new = manifest.is_none();
        let manifest = manifest.unwrap_or_else(|| Manifest::empty(new_identity(&options)));
        let (clock, activity) = (options.clock, jobs::activity());
        let time = Arc::new(ExpiryClock::new(clock, manifest.time_mark_ms));
        let setting = JournalSetting {
            file_system: Arc::clone(&file_system),
            directory: directory.clone(),
            clock,
            segment_size_bytes: options.segment_size_bytes,
            dead_bound: options.dead_bound(),
            segment_records_max: options.shares().segment_records_max(),
            ledger_room: options.shares().ledger_room(),
            time: Arc::clone(&time),
            activity: activity.clone(),
        };
        let (journal, journal_writer) = Journal::open(setting, &manifest)?;
        let journal = Arc::new(journal);
        let link: Arc<dyn JournalLink> = Arc::clone(&journal) as Arc<dyn JournalLink>;
        let rules = Arc::new(TableRules::default());
        let ledger_options = options.ledger_options(&rules, &activity);
        let ledger = Ledger::open(file_system, &directory, manifest, ledger_options, link)?;
        if is_new {
            ledger.write_manifest()?;
        }
        let ledger = Arc::new(ledger);
        let (metadata_extractors, prefix_rules) =
            (options.metadata_extractors.clone(), options.prefix_rules.clone());
        let catalogue = Arc::new(Catalogue::new(rules, metadata_extractors, prefix_rules));
        let reader = Reader::new(
            Arc::clone(&ledger),
            Arc::clone(journal.segments()),
            Arc::clone(&time),
            clock,
        );
        let collector = Arc::new(GarbageCollector::new(
            Arc::clone(&journal),
            Arc::clone(&ledger),
            Arc::clone(&time),
            (clock, activity.clone()),
            CollectionRules {
                dead_share: options.dead_share,
                kept_bytes: options.kept_changes_bytes,
            },
        ));
        let writer = Writer::new(
            journal_writer,
            options.write_limits(),
            (Arc::clone(&catalogue), Arc::clone(&ledger), Arc::clone(journal.sync())),
            Arc::clone(&time),
            (clock, activity.clone()),
            Arc::clone(&collector),
        );
        let store = OpenStore {
            options,
            directory,
            time,
            journal,
            ledger,
            catalogue,
            reader,
            writer,
            collector,
            activity,
            threads: Mutex::default(),
            lock: Mutex::new(Some(guard)),
        };
        store.begin()?;
        Ok(store)
    }

    /// Replays the journal, and starts the threads.
    fn begin(&self) -> Result<()> {
        // Load the definitions that are in tables first: replay depends on the options of the
        // tables, and so does the thread that gathers key prefixes.
        self.ledger.publish(self.ledger.flushed_sequence());
        self.catalogue.load(&self.ledger, &self.directory)?;
        let is_background = self.options.background;
        if is_background {
            // The threads start before the replay: a long replay needs flushes while it goes on.
            self.threads.lock().extend(self.journal.start_threads()?);
            self.ledger.start_background()?;
        }
        self.replay()?;
        self.catalogue.load(&self.ledger, &self.directory)?;
        if is_background {
            // After the replay: garbage collection would delay the opening of the store.
            let thread = self.collector.start_thread();
            let failed = |error| Error::io("start a thread for", &self.directory, error);
            self.threads.lock().push(thread.map_err(failed)?);
        }
        // Nothing is known yet about which pages of the store are in memory: assume that reads are
        // slow.
        self.journal.segments().medium().note_away();
        Ok(())
    }

    /// Replays the journal: inserts into memory all records that are not in tables yet.
    fn replay(&self) -> Result<()> {
        let flushed = self.ledger.flushed_sequence();
        let last = self.journal.sync().appended_sequence();
        self.ledger.publish(flushed);
        self.journal.segments().replay(flushed + 1, last, |record| {
            let kind = match record.kind {
                RecordKind::Put => EntryKind::Put,
                RecordKind::Delete | RecordKind::SyncMark => EntryKind::Delete,
            };
            self.time.raise(record.written_at_ms);
            self.catalogue.note_entry(record.key, record.head);
            let is_held = kind == EntryKind::Put
                && self.catalogue.rules().of_key(record.key).holds(record.value_length());
            // A damaged record is not an error here: reads of it will report the damage.
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
        // The last records may have been collected.
        self.ledger.publish(last);
        Ok(())
    }

    /// Keeps replay within the memory budget. On a full disk replay exceeds the budget, because a
    /// store that can be read is better than one that cannot be opened. Nor does it wait for the
    /// next attempt of a flush: attempts are seconds apart, and each batch would wait for one.
    fn keep_room(&self) -> Result<()> {
        if self.ledger.has_room() || self.ledger.is_flush_put_off() {
            return Ok(());
        }
        match self.ledger.wait_for_memtables() {
            Ok(_) => Ok(()),
            Err(error) if error.passes() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes everything durable, writes it to tables, and releases the store.
    pub(crate) fn close(&self) -> Result<()> {
        self.collector.close();
        let Some(outcome) = self.writer.close() else { return Ok(()) };
        self.stop_threads();
        *self.lock.lock() = None;
        outcome
    }

    fn stop_threads(&self) {
        self.collector.stop();
        self.ledger.close();
        self.journal.stop_threads();
        let threads = std::mem::take(&mut *self.threads.lock());
        let own = std::thread::current().id();
        for thread in threads {
            // The last owner may be a callback on the sync thread; a thread cannot join itself.
            if thread.thread().id() != own {
                // A thread that panicked has already written that to standard error.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        self.stop_threads();
    }
}

fn new_identity(options: &EngineOptions) -> u64 {
    match options.identity_seed {
        Some(seed) => SeededRandom::new(seed).next_u64(),
        None => SystemRandom.next_u64(),
    }
}

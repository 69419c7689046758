//! The table files of a ledger: creating, opening and removing them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_io::FileSystem;
use pellucid_thread::Mutex;

use super::table::{
    DirectorySetBuilder, Table, TableDirectories, TableMemory, TableMetadata, TableWriter,
    table_folder, table_path,
};
use super::{DroppedList, LedgerOptions};
use crate::error::{Error, Result};
use crate::stats::JobFigures;

/// The most tables that are written at once: by the two parts of a merge, and by the flush that
/// interrupts it. Each writer closes its table at this share of the memory of jobs.
const WRITERS_MAX: usize = 3;
/// The list of dropped entries of a job may take one in this many of the bytes of the memory of
/// jobs.
const DROPPED_SHARE: u64 = 24;

/// A table that was written, with the directories for which there was memory.
pub(super) struct WrittenTable {
    facts: TableMetadata,
    directories: TableDirectories,
}

impl WrittenTable {
    /// The number of the table's file.
    pub(super) fn number(&self) -> u64 {
        self.facts.number
    }
}

/// The table files of a store.
pub(super) struct TableFiles {
    fs: Arc<dyn FileSystem>,
    directory: PathBuf,
    store_identity: u64,
    options: Arc<LedgerOptions>,
    /// The memory of the parts of tables that are held.
    memory: Arc<TableMemory>,
    /// Memory in which the keys of tables are collected while they are written. It is kept between
    /// jobs, because freed memory is not always reused.
    builders: Mutex<Vec<DirectorySetBuilder>>,
    next_number: AtomicU64,
    /// The most memory that a job took for a table, in bytes.
    jobs_peak_bytes: AtomicU64,
}

impl TableFiles {
    pub(super) fn new(
        fs: Arc<dyn FileSystem>,
        directory: PathBuf,
        store_identity: u64,
        next_number: u64,
        options: &Arc<LedgerOptions>,
        memory: Arc<TableMemory>,
    ) -> TableFiles {
        TableFiles {
            fs,
            directory,
            store_identity,
            options: Arc::clone(options),
            memory,
            builders: Mutex::default(),
            next_number: AtomicU64::new(next_number),
            jobs_peak_bytes: AtomicU64::new(0),
        }
    }

    pub(super) fn fs(&self) -> &dyn FileSystem {
        &*self.fs
    }

    /// The directory of the store.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The free bytes of the disk; `u64::MAX` if the file system does not tell.
    pub(super) fn free_bytes(&self) -> u64 {
        self.fs.free_bytes(&self.directory).unwrap_or(u64::MAX)
    }

    pub(super) fn store_identity(&self) -> u64 {
        self.store_identity
    }

    pub(super) fn memory(&self) -> &Arc<TableMemory> {
        &self.memory
    }

    pub(super) fn jobs_peak_bytes(&self) -> u64 {
        self.jobs_peak_bytes.load(Ordering::Relaxed)
    }

    /// The number of the next file.
    pub(super) fn next_number(&self) -> u64 {
        self.next_number.load(Ordering::Relaxed)
    }

    /// Takes a number for a new file.
    pub(super) fn take_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Creates the file of table `number`.
    pub(super) fn create(&self, number: u64) -> Result<TableWriter> {
        let (identity, options) = (self.store_identity, Arc::clone(&self.options));
        let (fs, builder) = (&*self.fs, self.take_builder());
        TableWriter::create(fs, &self.directory, identity, number, options, builder)
    }

    /// The memory at which a writer closes its table, in bytes.
    pub(super) fn writer_memory_max_bytes(&self) -> u64 {
        self.options.job_memory_bytes / WRITERS_MAX as u64
    }

    /// Writes the rest of a table, syncs it, and builds its directories.
    pub(super) fn finish(&self, writer: TableWriter) -> Result<(WrittenTable, JobFigures)> {
        self.jobs_peak_bytes.fetch_max(writer.memory_bytes(), Ordering::Relaxed);
        let new = writer.finish()?;
        let directories = TableDirectories::new(new.places.keys().hashes().len() as u64);
        let knows_prefixes = self.options.knows_prefixes;
        directories.build(&new.places, new.blocks, &self.memory, knows_prefixes);
        self.give_back(new.places);
        Ok((WrittenTable { facts: new.facts, directories }, new.times))
    }

    /// Opens tables that were just written, after making their names durable.
    pub(super) fn open(&self, tables: Vec<WrittenTable>) -> Result<Vec<Arc<Table>>> {
        let folder = table_folder(&self.directory);
        self.fs.sync_directory(&folder).map_err(|error| Error::io("sync", &folder, error))?;
        let open = |new: WrittenTable| {
            let mut table =
                Table::open(&*self.fs, &self.directory, self.store_identity, new.facts)?;
            table.count_memory(&self.memory);
            table.set_directories(new.directories);
            table.blocks().prefault();
            Ok(Arc::new(table))
        };
        tables.into_iter().map(open).collect()
    }

    /// Removes table files that no manifest names. If that fails, the next opening of the store
    /// removes them.
    pub(super) fn remove(&self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            let _ = self.fs.remove(&table_path(&self.directory, number));
        }
    }

    /// An empty list for the entries that a job drops.
    pub(super) fn dropped_list(&self) -> DroppedList {
        let number = self.take_number();
        let path = table_folder(&self.directory).join(format!("{number:016x}.dropped.new"));
        let limit_bytes = self.options.job_memory_bytes / DROPPED_SHARE;
        DroppedList::spilling(&self.fs, path, limit_bytes as usize)
    }

    /// Builds the missing directories of an open table, unless `is_wanted` returns false meanwhile.
    pub(super) fn make_directories(&self, table: &Table, is_wanted: impl Fn() -> bool) {
        let mut builder = self.take_builder();
        let rules = (&*self.options.rules, self.options.knows_prefixes);
        table.directories().make(table.blocks(), &self.memory, &mut builder, rules, is_wanted);
        self.give_back(builder);
    }

    fn take_builder(&self) -> DirectorySetBuilder {
        self.builders.lock().pop().unwrap_or_default()
    }

    fn give_back(&self, builder: DirectorySetBuilder) {
        let mut builders = self.builders.lock();
        if builders.len() < WRITERS_MAX {
            builders.push(builder);
        }
    }
}

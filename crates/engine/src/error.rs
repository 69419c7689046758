//! The errors of the engine. Their messages tell the cure.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An error of the engine.
#[derive(Clone, Debug)]
pub enum Error {
    /// The file system failed.
    Io {
        /// The operation that failed.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the file system.
        source: Arc<io::Error>,
    },
    /// The disk is full. Nothing was written; writes work again once there is room.
    DiskFull {
        /// The file that could not grow, or the directory of the store.
        path: PathBuf,
        /// The room that was found, if the write was refused to leave the reserve alone.
        room: Option<SpaceShortage>,
    },
    /// The system had no file descriptor or no memory left. Nothing was written; the call can be
    /// tried again later.
    Exhausted {
        /// The operation that failed.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// Writes came faster than a merge of everything went on, which was given up so that they need
    /// not wait. Nothing was changed; the merge can be tried again later.
    MergeOvertaken {
        /// The number of tables that flushes added meanwhile.
        tables: usize,
    },
    /// Bytes on the medium differ from those that were written.
    Corruption {
        /// The file.
        path: PathBuf,
        /// Offset of the record, block or field within the file, in bytes.
        offset: u64,
        /// A description of the damage.
        what: String,
    },
    /// A file has a format version that is newer than this build reads.
    Version {
        /// The file.
        path: PathBuf,
        /// The format version of the file.
        found: u16,
    },
    /// A file belongs to another store.
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The directory has no manifest, where a store is expected or journal segments or tables lie.
    ManifestMissing {
        /// The directory.
        directory: PathBuf,
    },
    /// The directory holds a part of a store: a backup, a restore or a salvage did not finish.
    Incomplete {
        /// The directory.
        directory: PathBuf,
    },
    /// A directory that should become a store holds files already.
    Occupied {
        /// The directory.
        directory: PathBuf,
    },
    /// Another process, or another engine in this one, has the store open.
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// An earlier write or sync failed, so the state of the medium is unknown. Reads still work;
    /// writes are refused until the store is opened again.
    Poisoned {
        /// The failure that came first.
        cause: String,
    },
    /// The engine was closed.
    Closed,
    /// The caller stopped the copying of a backup ([`crate::CopyOptions::progress`]).
    Stopped,
    /// A key is empty or too long.
    KeyLength {
        /// The length of the key in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A head is too long.
    HeadLength {
        /// The length of the head in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A value is too long.
    ValueLength {
        /// The length of the value in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A batch has no entry, too many entries, or too many bytes.
    BatchSize {
        /// The number of entries.
        entries: usize,
        /// The size in the journal, in bytes.
        size_bytes: usize,
        /// The largest number of entries.
        entries_limit: usize,
        /// The largest size in the journal, in bytes.
        size_limit_bytes: usize,
    },
    /// A batch takes more memory in a memtable than the memory setting allows for one batch.
    BatchMemory {
        /// The number of entries.
        entries: usize,
        /// The approximate memory that they take, in bytes.
        memory_bytes: u64,
        /// The limit in bytes, which follows from [`crate::EngineOptions::memory_bytes`].
        limit_bytes: u64,
    },
    /// A condition of a batch does not hold. Nothing was written.
    ConditionFailed {
        /// The index of the operation within the batch.
        index: usize,
        /// The current sequence number of the key; `None` if the key is not there.
        current: Option<u64>,
    },
    /// The table is not in the catalogue.
    TableUnknown {
        /// The number of the table.
        number: u16,
    },
    /// No table number is left for a new table or index.
    TablesExhausted,
    /// A read that must not wait for the medium found data that is not in memory.
    NotInMemory,
    /// The journal does not hold every write after a sequence number: some were collected, or the
    /// number is higher than that of the last write.
    ChangesLost {
        /// The sequence number after which the writes were asked for.
        since: u64,
        /// The lowest sequence number after which all writes are there.
        oldest: u64,
        /// The sequence number of the last write.
        newest: u64,
    },
    /// A table exists, but its options differ from those that were asked for.
    TableDiffers {
        /// The name of the table.
        name: String,
        /// A description of the difference.
        what: String,
    },
    /// The heads of a table come from a metadata extractor that is not registered.
    ExtractorMissing {
        /// The name of the extractor.
        rule: String,
    },
    /// A head was given for a table whose heads a metadata extractor derives.
    HeadGiven {
        /// The number of the table.
        number: u16,
        /// The name of the extractor.
        rule: String,
    },
    /// A metadata extractor refused the object.
    HeadRefused {
        /// The name of the extractor.
        rule: String,
        /// The reason that the extractor gave.
        what: String,
    },
    /// A value was given to a table that holds heads only.
    ValueRefused {
        /// The number of the table.
        number: u16,
    },
    /// An index is not in the catalogue, or does not belong to the table of the operation that
    /// changes it.
    IndexUnknown {
        /// The number of the index.
        number: u16,
        /// The number of the operation's table.
        table: u16,
    },
    /// An index cannot be created, because its table has objects already.
    IndexLate {
        /// The name of the index.
        name: String,
        /// The number of the table.
        table: u16,
    },
    /// An operation deletes an object and adds it to an index.
    IndexedDelete {
        /// The number of the index.
        number: u16,
    },
    /// A term of an index entry is too long.
    TermLength {
        /// The length of the term in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// An option has an invalid value.
    Option {
        /// The option and the reason.
        what: String,
    },
}

/// The room on the disk that a write found, and that was not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceShortage {
    /// Bytes that the write needs: the size of a new journal segment.
    pub needed_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// The part of the free bytes that is reserved for deletes, and for work that frees space.
    pub reserve_bytes: u64,
}

/// True if the disk is full or a quota is exhausted.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// True if the system had no descriptor or no memory left, and the call did nothing.
fn is_exhaustion(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::OutOfMemory
        || error.raw_os_error().is_some_and(pellucid_io::is_out_of_descriptors)
}

/// The result of the engine's functions.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// True if the file does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// The error of `operation` on `path`. A full disk becomes [`Error::DiskFull`]; a lack of
    /// descriptors or memory becomes [`Error::Exhausted`].
    pub(crate) fn io(operation: &'static str, path: &Path, source: io::Error) -> Error {
        if is_full(&source) {
            return Error::full(path);
        }
        let (path, is_exhausted) = (path.to_path_buf(), is_exhaustion(&source));
        let source = Arc::new(source);
        match is_exhausted {
            true => Error::Exhausted { operation, path, source },
            false => Error::Io { operation, path, source },
        }
    }

    /// The error that there is no room for `path`.
    pub(crate) fn full(path: &Path) -> Error {
        Error::DiskFull { path: path.to_path_buf(), room: None }
    }

    /// True if the operation may succeed when it is tried again: nothing was written.
    pub(crate) fn passes(&self) -> bool {
        matches!(
            self,
            Error::DiskFull { .. } | Error::Exhausted { .. } | Error::MergeOvertaken { .. }
        )
    }

    /// The error that `path` is damaged at `offset`.
    pub(crate) fn corruption(path: &Path, offset: u64, what: impl Into<String>) -> Error {
        Error::Corruption { path: path.to_path_buf(), offset, what: what.into() }
    }
}

fn exhaustion_cure(source: &io::Error) -> &'static str {
    match source.raw_os_error().is_some_and(pellucid_io::is_out_of_descriptors) {
        true => "raise the limit of descriptors (ulimit -n, LimitNOFILE=), or try again later",
        false => "try again later",
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Io { operation, path, source } => {
                write!(
                    f,
                    "could not {operation} {}: {source}{}",
                    path.display(),
                    pellucid_io::folder_cure(source)
                )
            }
            Error::Exhausted { operation, path, source } => {
                let path = path.display();
                let cure = exhaustion_cure(source);
                write!(f, "no room in the system to {operation} {path} ({source}): {cure}")
            }
            Error::MergeOvertaken { tables } => {
                write!(
                    f,
                    "writes filled {tables} tables during a merge of everything, which was given \
                     up: try it again while fewer writes come"
                )
            }
            Error::DiskFull { path, room: None } => {
                write!(f, "no room for {}: make room and try again", path.display())
            }
            Error::DiskFull { path, room: Some(room) } => {
                let SpaceShortage { needed_bytes, free_bytes, reserve_bytes } = room;
                write!(
                    f,
                    "no room for {needed_bytes} bytes more in {}: the disk has {free_bytes} free, \
                     of which {reserve_bytes} are kept for deletes; delete what is not needed, \
                     which is still taken, or give the disk more room, and try again",
                    path.display()
                )
            }
            Error::Corruption { path, offset, what } => {
                write!(f, "{} is damaged at offset {offset}: {what}", path.display())
            }
            Error::Version { path, found } => {
                let path = path.display();
                write!(f, "{path} has format version {found}: open it with a newer release")
            }
            Error::Foreign { path } => {
                write!(
                    f,
                    "{} belongs to another store: restore the store's own file",
                    path.display()
                )
            }
            Error::ManifestMissing { directory } => {
                let directory = directory.display();
                write!(
                    f,
                    "{directory} has no manifest: it is no store, or its ledger has to be rebuilt \
                     from its journal"
                )
            }
            Error::Incomplete { directory } => {
                write!(
                    f,
                    "{} holds a part of a store: a backup, a restore or a salvage did not finish; \
                     remove the folder, and do it again",
                    directory.display()
                )
            }
            Error::Occupied { directory } => {
                write!(f, "{} is not empty: name a new folder", directory.display())
            }
            Error::Locked { path } => {
                write!(
                    f,
                    "{} is locked: the store is already open; end the program that has it open, or \
                     use another folder",
                    path.display()
                )
            }
            Error::Poisoned { cause } => {
                write!(f, "writes are refused since a failure ({cause}): open the store anew")
            }
            Error::Closed => f.write_str("the engine was closed"),
            Error::Stopped => f.write_str("copying was stopped"),
            Error::KeyLength { length, limit } => {
                write!(f, "the key has {length} bytes; it may have 1 to {limit}")
            }
            Error::HeadLength { length, limit } => {
                write!(f, "the head has {length} bytes; it may have up to {limit}")
            }
            Error::ValueLength { length, limit } => {
                write!(f, "the value has {length} bytes; it may have up to {limit}")
            }
            Error::BatchSize { entries, size_bytes, entries_limit, size_limit_bytes } => write!(
                f,
                "the batch has {entries} entries and {size_bytes} bytes; \
                 it may have 1 to {entries_limit} and up to {size_limit_bytes}"
            ),
            Error::BatchMemory { entries, memory_bytes, limit_bytes } => write!(
                f,
                "the {entries} entries of the batch take {memory_bytes} bytes of memory, above \
                 {limit_bytes}: split the batch, or give the store more memory"
            ),
            Error::ConditionFailed { index, current: Some(sequence) } => {
                write!(f, "condition of entry {index} failed: the key has sequence {sequence}")
            }
            Error::ConditionFailed { index, current: None } => {
                write!(f, "condition of entry {index} failed: the key is not there")
            }
            Error::TableUnknown { number } => write!(f, "there is no table {number}"),
            Error::NotInMemory => f.write_str("what was asked for is not in memory"),
            Error::TablesExhausted => f.write_str("all table numbers are in use"),
            Error::ChangesLost { since, oldest, newest } => {
                write!(
                    f,
                    "the writes after {since} are not all here: the journal has those after \
                     {oldest}, and the last one is {newest}; read the table anew, and go on from \
                     there"
                )
            }
            Error::TableDiffers { name, what } => {
                write!(f, "table `{name}` has other options: {what}; open it with its own")
            }
            Error::ExtractorMissing { rule } => {
                write!(
                    f,
                    "the metadata extractor `{rule}` is not registered: open the store with it in \
                     metadata_extractors"
                )
            }
            Error::HeadGiven { number, rule } => {
                write!(f, "the rule `{rule}` derives the heads of table {number}: give none")
            }
            Error::HeadRefused { rule, what } => {
                write!(f, "the metadata extractor `{rule}` refuses the object: {what}")
            }
            Error::ValueRefused { number } => {
                write!(f, "table {number} holds keys and heads only: give an empty value")
            }
            Error::IndexUnknown { number, table } => {
                write!(f, "table {table} has no index {number}: change indexes of its own only")
            }
            Error::IndexLate { name, table } => write!(
                f,
                "table {table} has objects already, of which the new index `{name}` would say \
                 nothing: make indexes first, and copy the objects into a new table otherwise"
            ),
            Error::IndexedDelete { number } => {
                write!(f, "a deletion adds to index {number}: let it remove entries only")
            }
            Error::TermLength { length, limit } => {
                write!(f, "the term has {length} bytes; it may have up to {limit}")
            }
            Error::Option { what } => write!(f, "bad option: {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } | Error::Exhausted { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}

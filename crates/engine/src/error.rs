//! The errors of the engine, and their cures.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why the engine could not do what it was asked to do.
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
    /// There is no room. Nothing was written; writes work again once there is room.
    DiskFull {
        /// The file that could not grow, or the store's folder.
        path: PathBuf,
        /// The room that there was, where the reserve was to be left alone.
        room: Option<RoomFound>,
    },
    /// The system had no descriptor or no memory left. Nothing was written; it works again once
    /// there are some.
    Exhausted {
        /// The operation that failed.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// Bytes on the medium are not those that were written.
    Corruption {
        /// The file.
        path: PathBuf,
        /// Offset of the record, block or field within the file, in bytes.
        offset: u64,
        /// The damage.
        what: String,
    },
    /// A file has a format version above those that this build reads.
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u16,
    },
    /// A file belongs to another store.
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The folder holds journal segments or tables, but no manifest.
    ManifestMissing {
        /// The folder.
        directory: PathBuf,
    },
    /// A folder that should become a store holds files already.
    Occupied {
        /// The folder.
        directory: PathBuf,
    },
    /// Another process, or another engine in this one, has the store open.
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// An earlier write or sync failed, so that it is unknown what is on the medium. Reads go on;
    /// writes are refused until the store is opened anew.
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
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A head is too long.
    HeadLength {
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A value is too long.
    ValueLength {
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A batch has no entry, too many entries, or too many bytes.
    BatchSize {
        /// Its entries.
        entries: usize,
        /// Its size in the journal, in bytes.
        size_bytes: usize,
        /// The limit of entries.
        entries_limit: usize,
        /// The limit of its size in the journal, in bytes.
        size_limit_bytes: usize,
    },
    /// The keys and heads of a batch take more memory than the setting allows for one.
    BatchMemory {
        /// Its entries.
        entries: usize,
        /// About what they take, in bytes.
        memory_bytes: u64,
        /// The limit in bytes, which follows from the memory setting.
        limit_bytes: u64,
    },
    /// A condition of a batch does not hold. Nothing was written.
    ConditionFailed {
        /// The index of the entry within the batch.
        index: usize,
        /// The sequence number that the key has, if it is there.
        current: Option<u64>,
    },
    /// The table is not in the catalogue.
    TableUnknown {
        /// Its number.
        number: u16,
    },
    /// There is no number left for a further table.
    TablesExhausted,
    /// A read that must not wait for the medium would have to.
    NotInMemory,
    /// The journal does not hold every write after a sequence number: some were collected, or the
    /// number is above that of the last write.
    ChangesLost {
        /// The sequence number after which writes were asked for.
        since: u64,
        /// The lowest one after which all are there.
        oldest: u64,
        /// The last write.
        newest: u64,
    },
    /// A table is there, but its options are not those that were asked for.
    TableDiffers {
        /// Its name.
        name: String,
        /// The difference.
        what: String,
    },
    /// The heads of a table come from a rule that is not registered.
    ExtractorMissing {
        /// The name of the rule.
        rule: String,
    },
    /// A head was given where a rule derives them.
    HeadGiven {
        /// The number of the table.
        number: u16,
        /// The name of its rule.
        rule: String,
    },
    /// A metadata extractor does not take the object.
    HeadRefused {
        /// The name of the rule.
        rule: String,
        /// The reason that the rule gave.
        what: String,
    },
    /// A value was given to a table that holds heads only.
    ValueRefused {
        /// The number of the table.
        number: u16,
    },
    /// An index is not in the catalogue, or not of the table of the operation that changes it.
    IndexUnknown {
        /// The number of the index.
        number: u16,
        /// The number of the operation's table.
        table: u16,
    },
    /// An index is to be made of a table that has objects already.
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
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// An option has a value that cannot work.
    Option {
        /// The option, and the reason.
        what: String,
    },
}

/// The room on the disk that a write found, and that is too little for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomFound {
    /// Bytes that the write needs: a segment of the journal.
    pub needed_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Bytes of them that are kept for deletes, and for all that gives room back.
    pub reserve_bytes: u64,
}

/// True if there was no room on the disk, or none within a quota.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// True if the system had no descriptor or no memory left for a call that did nothing then.
fn is_exhaustion(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::OutOfMemory
        || error.raw_os_error().is_some_and(pellucid_io::is_out_of_descriptors)
}

/// The result of the engine's functions.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// True if the file is not there.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// The failure of `operation` on `path`; a full disk becomes [`Error::DiskFull`], and a want of
    /// descriptors or memory [`Error::Exhausted`].
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

    /// There is no room for `path`.
    pub(crate) fn full(path: &Path) -> Error {
        Error::DiskFull { path: path.to_path_buf(), room: None }
    }

    /// True if what failed can be tried again, and may then succeed: nothing was written.
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Error::DiskFull { .. } | Error::Exhausted { .. })
    }

    /// Corruption of `path` at `offset`.
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
            Error::DiskFull { path, room: None } => {
                write!(f, "no room for {}: make room and try again", path.display())
            }
            Error::DiskFull { path, room: Some(room) } => {
                let RoomFound { needed_bytes, free_bytes, reserve_bytes } = room;
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
                write!(f, "{directory} holds data but no manifest: rebuild it from its journal")
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

//! Ledger tables: the immutable sorted files (SSTables) of the ledger, which is the engine's LSM
//! tree (docs/format.md, Ledger table). The tables of users are something else.

mod block;
mod block_builder;
mod block_compression;
mod blocks;
mod cache;
mod cursor;
mod directories;
mod directory;
mod directory_set;
mod file;
mod filter;
mod footer;
mod index;
mod memory;
mod memory_reservation;
mod output;
mod reader;
mod record_sequences;
mod step_times;
mod summary;
mod writer;

use std::path::{Path, PathBuf};

use crate::codec::checksum_seed;

pub(crate) use block_compression::check_block;
pub(crate) use cursor::TableCursor;
pub(crate) use directories::TableDirectories;
pub(crate) use directory_set::DirectorySetBuilder;
pub(crate) use file::TableFile;
pub(crate) use filter::check_filter;
pub(crate) use footer::check_footer;
pub(crate) use index::check_index;
pub(crate) use memory::TableMemory;
pub(crate) use reader::Table;
pub(crate) use step_times::{NoStepRecorder, StepTimes};
pub(crate) use writer::TableWriter;

const FOOTER_SIZE_BYTES: usize = 96;
const FOOTER_MAGIC: [u8; 4] = *b"PLTF";

/// The metadata of a table in the manifest, except its level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableMetadata {
    /// The number of the file.
    pub(crate) number: u64,
    pub(crate) size_bytes: u64,
    /// The number of entries.
    pub(crate) entries: u64,
    pub(crate) lowest_sequence: u64,
    pub(crate) highest_sequence: u64,
    /// The key of the first entry, as it is stored.
    pub(crate) smallest: Box<[u8]>,
    /// The key of the last entry, as it is stored.
    pub(crate) largest: Box<[u8]>,
}

/// The folder of the tables in the data folder of a store.
pub(crate) fn table_folder(directory: &Path) -> PathBuf {
    directory.join("ledger")
}

/// The path of the file of table `number` in the data folder of a store.
pub(crate) fn table_path(directory: &Path, number: u64) -> PathBuf {
    table_folder(directory).join(format!("{number:016x}.table"))
}

/// The initial CRC for the part of a table at `offset`. A part in the wrong file or at the wrong
/// offset fails its checksum.
fn part_seed(store_identity: u64, number: u64, offset: u64) -> u32 {
    checksum_seed(&[store_identity, number, offset])
}

#[cfg(test)]
mod tests;

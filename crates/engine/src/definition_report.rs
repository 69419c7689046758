//! The tables and indexes of a store that is not open, for the report to an operator.
//!
//! The catalogue is read from the files: from the front of the ledger's tables, and from the part
//! of the journal that is not in tables yet. Files that cannot be read are left out, and reported.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pellucid_io::FileSystem;

use crate::catalogue::name_of;
use crate::codec::{FileHeader, FileKind, TABLE_PREFIX_LENGTH, checksum_seed};
use crate::definition::{Definition, TableKind, TableOptions};
use crate::error::{Error, Result};
use crate::folder::LEDGER_FOLDER;
use crate::journal::{Record, SegmentRange, list_segments, segment_path, walk_records};
use crate::ledger::{Manifest, Table, TableCursor};
use crate::mapped_file::map_file;
use crate::read_mode::ReadMode;
use crate::table_id::CATALOGUE_TABLE;

/// A table of objects, or an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionReport {
    /// The name.
    pub name: String,
    /// The number under which its entries are kept.
    pub number: u16,
    /// The number of the table that the index belongs to; `None` for a table of objects.
    pub index_of: Option<u16>,
    /// The options of a table of objects; the default options for an index.
    pub options: TableOptions,
}

/// The entries of the catalogue: by key, the sequence number and the head of the newest one.
type Entries = BTreeMap<Vec<u8>, (u64, Vec<u8>)>;

/// The definitions of a store by number, and an error for each file or definition that cannot be
/// read.
pub(crate) fn read_definitions(
    files: &dyn FileSystem,
    directory: &Path,
    manifest: &Manifest,
) -> (Vec<DefinitionReport>, Vec<Error>) {
    let (mut entries, mut problems) = (Entries::new(), Vec::new());
    let mut note = |outcome: Result<()>| match outcome {
        // If the store is open, it may have removed a file that is no longer needed.
        Err(error) if error.is_missing() => {}
        outcome => problems.extend(outcome.err()),
    };
    for (_, facts) in &manifest.tables {
        let table = Table::open(files, directory, manifest.store_identity, facts.clone());
        note(table.and_then(|table| read_table(Arc::new(table), &mut entries)));
    }
    match list_segments(files, directory) {
        Err(error) => note(Err(error)),
        Ok(numbers) => numbers.into_iter().for_each(|number| {
            note(read_segment(files, directory, manifest, number, &mut entries));
        }),
    }
    let mut definitions = Vec::new();
    for (key, (_, head)) in entries {
        match Definition::decode(&head) {
            Ok(Definition { table, kind }) => {
                let name = name_of(&key, &kind);
                let (index_of, options) = match kind {
                    TableKind::Objects(options) => (None, options),
                    TableKind::Index { of } => (Some(of.number()), TableOptions::default()),
                };
                let number = table.number();
                definitions.push(DefinitionReport { name, number, index_of, options });
            }
            Err(what) => problems.push(Error::corruption(&directory.join(LEDGER_FOLDER), 0, what)),
        }
    }
    definitions.sort_by_key(|definition| definition.number);
    (definitions, problems)
}

/// Notes an entry if it belongs to the catalogue; returns true if it does.
fn note(entries: &mut Entries, key: &[u8], sequence: u64, head: &[u8]) -> bool {
    let prefix = CATALOGUE_TABLE.to_be_bytes();
    let Some(key) = key.strip_prefix(&prefix[..TABLE_PREFIX_LENGTH]) else { return false };
    let newest = entries.entry(key.to_vec()).or_default();
    if sequence >= newest.0 {
        *newest = (sequence, head.to_vec());
    }
    true
}

fn read_table(table: Arc<Table>, entries: &mut Entries) -> Result<()> {
    let mut cursor = TableCursor::new(table, ReadMode::MayBlock);
    cursor.seek_first()?;
    while let Some(entry) = cursor.entry() {
        if !note(entries, entry.key, entry.sequence, entry.head) {
            break;
        }
        cursor.next()?;
    }
    Ok(())
}

fn read_segment(
    files: &dyn FileSystem,
    directory: &Path,
    manifest: &Manifest,
    number: u64,
    entries: &mut Entries,
) -> Result<()> {
    let facts = manifest.segments.iter().find(|facts| facts.number == number);
    let is_in_tables =
        |last_sequence| last_sequence != 0 && last_sequence <= manifest.flushed_sequence;
    if facts.is_some_and(|facts| is_in_tables(facts.last_sequence)) {
        return Ok(());
    }
    let path = segment_path(directory, number);
    let map = map_file(files, &path)?;
    let (bytes, identity) = (map.bytes(), manifest.store_identity);
    let header = FileHeader::decode_expected(bytes, FileKind::Journal, identity, number, &path)?;
    let seed = checksum_seed(&[identity]);
    walk_records(bytes, (identity, number, seed), header.first_sequence, |found| {
        let SegmentRange::Record { sequence, offset, .. } = found else { return };
        if sequence > manifest.flushed_sequence
            && let Ok(record) = Record::decode(&bytes[offset as usize..], seed)
        {
            note(entries, record.key, sequence, record.head);
        }
    });
    Ok(())
}

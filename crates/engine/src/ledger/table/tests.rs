//! Tests of tables that are written and read back, and of tables with damaged bytes.

use std::path::Path;
use std::sync::Arc;

use pellucid_account::EngineCounts;
use pellucid_io::simulated::SimulatedFileSystem;
use pellucid_io::{FileSystem, SystemFileSystem};
use proptest::prelude::*;

use super::*;
use crate::codec::key_hash;
use crate::error::Error;
use crate::ledger::{
    Entry, FoundEntry, LedgerOptions, LookupRequest, LookupResult, NoRecordReader,
};
use crate::read_mode::ReadMode;
use crate::rules::TableRules;

const STORE: u64 = 0x5151;

fn create(files: &dyn FileSystem, directory: &Path, number: u64) -> TableWriter {
    let options = Arc::new(LedgerOptions { block_size_bytes: 256, ..LedgerOptions::default() });
    let places = DirectorySetBuilder::default();
    TableWriter::create(files, directory, STORE, number, options, places).unwrap()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    SystemFileSystem.create_directory(&table_folder(folder.path())).unwrap();
    folder
}

type Row = (Vec<u8>, u64);

/// Builds the directories of a table whose keys have their first three bytes as their prefix.
fn make_directories(table: &Table, budget: &Arc<TableMemory>) {
    let rules = TableRules::default();
    rules.set_prefixes(0, |key| (key.len() > 1).then_some(1));
    let mut builder = DirectorySetBuilder::default();
    table.directories().make(table.blocks(), budget, &mut builder, (&rules, true), || true);
}

fn entry((key, sequence): &Row) -> Entry<'_> {
    Entry::sample(key, *sequence)
}

/// `count` rows in key order.
fn numbered(count: u64) -> Vec<Row> {
    (0..count).map(|number| (format!("key{number:05}").into_bytes(), number + 1)).collect()
}

fn open(directory: &Path, facts: &TableMetadata) -> Table {
    Table::open(&SystemFileSystem, directory, STORE, facts.clone()).unwrap()
}

fn write(directory: &Path, number: u64, rows: &[Row]) -> TableMetadata {
    let mut writer = create(&SystemFileSystem, directory, number);
    for row in rows {
        writer.add(&entry(row)).unwrap();
    }
    writer.finish().unwrap().facts
}

/// Regression: a page fault in a map makes the system read megabytes around the page, so an opening
/// that looks at the ends of a table waited for the whole table.
#[test]
fn an_opening_requests_the_parts_that_it_checks_but_no_blocks() {
    let (files, directory) = (SimulatedFileSystem::new(), Path::new("/store"));
    files.create_directory(&table_folder(directory)).unwrap();
    let mut writer = create(&files, directory, 3);
    for number in 1..1_000_u64 {
        writer.add(&entry(&(number.to_be_bytes().to_vec(), number))).unwrap();
    }
    let facts = writer.finish().unwrap().facts;
    let (size_bytes, before) = (facts.size_bytes, files.expected_bytes());
    let file = TableFile::open(&files, directory, facts).unwrap();
    file.expect_parts().unwrap();
    let asked = files.expected_bytes() - before;
    let bytes = files.read(&table_path(directory, 3)).unwrap();
    let footer = footer::read_footer(&bytes, STORE, 3).map_err(|(_, what)| what).unwrap();
    let ends = crate::codec::FILE_HEADER_LENGTH + FOOTER_SIZE_BYTES;
    assert_eq!(asked, (ends + (4 << 10)) as u64 + size_bytes - footer.filter.offset as u64);
    Table::of_file(file, STORE).unwrap().verify().unwrap();
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let key = prop_oneof![
        4 => prop::collection::vec(0_u8..4, 1..6),
        1 => prop::collection::vec(any::<u8>(), 1..600),
    ];
    prop::collection::btree_set((key, (1_u64..200).prop_map(std::cmp::Reverse)), 1..200)
        .prop_map(|rows| rows.into_iter().map(|(key, sequence)| (key, sequence.0)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_table_round_trips(
        rows in rows(),
        sought in prop::collection::vec(0_u8..5, 0..6),
        at in 0_u64..220,
    ) {
        let folder = folder();
        let directory = folder.path();
        let facts = write(directory, 3, &rows);
        let table = Arc::new(open(directory, &facts));
        table.verify().unwrap();
        let mut counts = EngineCounts::default();
        let budget = TableMemory::new(1 << 20);
        for _ in 0..2 {
            for key in rows.iter().map(|row| &row.0).chain([&sought]) {
                let expected = rows.iter().find(|row| row.0 == *key && row.1 <= at);
                let found = get_at(&table, key, at, &mut counts).unwrap();
                prop_assert_eq!(found, expected.map(|row| entry(row).to_found()));
            }
            make_directories(&table, &budget);
            prop_assert!(budget.used_bytes() > 0);
            prop_assert!(!table.directories().wants_keys(&budget));
        }
        let mut cursor = TableCursor::new(Arc::clone(&table), ReadMode::MayBlock);
        let row_of = |entry: Entry<'_>| (entry.key.to_vec(), entry.sequence);
        cursor.seek_at_or_after(&sought).unwrap();
        let split = rows.partition_point(|row| row.0 < sought);
        for row in &rows[split..] {
            prop_assert_eq!(cursor.entry(), Some(entry(row)));
            cursor.next().unwrap();
        }
        prop_assert!(cursor.entry().is_none());
        cursor.seek_before(&sought).unwrap();
        for row in rows[..split].iter().rev() {
            prop_assert_eq!(cursor.entry(), Some(entry(row)));
            cursor.previous().unwrap();
        }
        prop_assert!(cursor.entry().is_none());
        cursor.seek_first().unwrap();
        prop_assert_eq!(cursor.entry().map(row_of), rows.first().cloned());
        cursor.seek_last().unwrap();
        prop_assert_eq!(cursor.entry().map(row_of), rows.last().cloned());
    }
}

/// A changed byte anywhere leads to an error that names the file, or changes no answer; it never
/// makes a key absent.
#[test]
fn every_changed_byte_is_noticed() {
    let rows = numbered(150);
    let folder = folder();
    let directory = folder.path();
    let facts = write(directory, 9, &rows);
    let path = table_path(directory, 9);
    let file = SystemFileSystem.open(&path, true).unwrap();
    for offset in 0..facts.size_bytes {
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
        let outcome = read_all(directory, &facts, &rows);
        file.write_all_at(&byte, offset).unwrap();
        match outcome {
            Err(Error::Corruption { path: named, offset: at, .. }) => {
                assert_eq!(named, path);
                assert!(at <= offset, "byte {offset} was blamed on {at}");
            }
            Err(Error::Foreign { path: named } | Error::Version { path: named, .. }) => {
                assert_eq!(named, path);
            }
            other => panic!("byte {offset}: {other:?}"),
        }
    }
    read_all(directory, &facts, &rows).unwrap();
}

fn get_at(
    table: &Table,
    key: &[u8],
    at_sequence: u64,
    counts: &mut EngineCounts,
) -> Result<Option<FoundEntry>, Error> {
    let sought = LookupRequest { key, hash: key_hash(key), at_sequence, mode: ReadMode::MayBlock };
    let found = table.get(&sought, counts, &mut NoRecordReader, &mut NoStepRecorder)?;
    Ok(found.map(LookupResult::into_entry))
}

/// Looks up the key of a row in the table.
fn get(table: &Table, row: &Row, counts: &mut EngineCounts) -> Result<Option<FoundEntry>, Error> {
    get_at(table, &row.0, u64::MAX, counts)
}

fn read_all(directory: &Path, facts: &TableMetadata, rows: &[Row]) -> crate::error::Result<()> {
    check_all(&Table::open(&SystemFileSystem, directory, STORE, facts.clone())?, rows)
}

/// Looks up all of `rows` in the table that holds them.
fn check_all(table: &Table, rows: &[Row]) -> crate::error::Result<()> {
    for row in rows {
        let found = get(table, row, &mut EngineCounts::default())?;
        assert_eq!(found, Some(entry(row).to_found()));
    }
    Ok(())
}

/// A directory built from the writer's data gives the same answers as one built from the blocks.
#[test]
fn a_directory_can_be_built_from_the_writers_data() {
    let rows = numbered(2_000);
    let folder = folder();
    let mut writer = create(&SystemFileSystem, folder.path(), 1);
    rows.iter().for_each(|row| writer.add(&entry(row)).unwrap());
    let new = writer.finish().unwrap();
    let mut table = open(folder.path(), &new.facts);
    let budget = TableMemory::new(1 << 20);
    table.count_memory(&budget);
    let directories = TableDirectories::new(rows.len() as u64);
    directories.build(&new.places, new.blocks, &budget, true);
    assert!(directories.has_keys());
    table.set_directories(directories);
    assert_eq!(budget.used_bytes(), table.memory_bytes() as u64);
    check_all(&table, &rows).unwrap();
    let mut counts = EngineCounts::default();
    assert_eq!(get(&table, &(b"none".to_vec(), 1), &mut counts).unwrap(), None);
    assert_eq!((counts.filters_excluded, counts.blocks), (1, 0), "the directory alone answered");
    drop(table);
    assert_eq!(budget.used_bytes(), 0);
}

/// A cursor moves to the first key of a prefix, whichever block that is in, and reports prefixes
/// that are absent.
#[test]
fn a_seek_finds_the_first_key_of_a_prefix() {
    let key = |prefix: u8, rest: u16| [&[0, 0, prefix][..], &rest.to_be_bytes()].concat();
    let prefixes = (0..200_u8).step_by(2);
    // Some prefixes have keys in several blocks, and their first key has two versions.
    let rows: Vec<Row> = prefixes
        .flat_map(|prefix| {
            let rests = (0..u16::from(prefix)).map(move |rest| (key(prefix, rest), 5));
            [(key(prefix, 0), 9)].into_iter().chain(rests)
        })
        .collect();
    let folder = folder();
    let facts = write(folder.path(), 1, &rows);
    let table = Arc::new(open(folder.path(), &facts));
    let mut cursor = TableCursor::new(Arc::clone(&table), ReadMode::MayBlock);
    let seek = |cursor: &mut TableCursor, prefix: u8| {
        let prefix = [0, 0, prefix];
        let found = cursor.seek_prefix(&prefix, key_hash(&prefix)).unwrap();
        (found, cursor.entry().map(|entry| (entry.key.to_vec(), entry.sequence)))
    };
    assert_eq!(seek(&mut cursor, 2).0, None, "there is no directory of prefixes yet");
    let budget = TableMemory::new(1 << 20);
    make_directories(&table, &budget);
    assert!(!table.directories().wants_prefixes(&budget));
    for prefix in 0..200 {
        let expected = match prefix % 2 {
            0 => (Some(true), Some((key(prefix, 0), 9))),
            _ => (Some(false), None),
        };
        assert_eq!(seek(&mut cursor, prefix), expected);
    }
    drop((cursor, table));
    assert_eq!(budget.used_bytes(), 0);
}

/// Without memory a table holds only what it always needs, and gives the same answers.
#[test]
fn without_memory_answers_come_from_the_file() {
    let rows = numbered(900);
    let folder = folder();
    let facts = write(folder.path(), 1, &rows);
    let mut table = open(folder.path(), &facts);
    let budget = TableMemory::new(1);
    table.count_memory(&budget);
    let needed = budget.used_bytes();
    assert!(needed > 0, "what is needed is counted");
    assert!(!table.directories().wants_keys(&budget));
    make_directories(&table, &budget);
    assert_eq!(budget.used_bytes(), needed);
    check_all(&table, &rows).unwrap();
}

/// A damaged block is noticed when the table's directory is built; reads report it.
#[test]
fn a_damaged_table_gets_no_directory() {
    let rows = numbered(500);
    let folder = folder();
    let facts = write(folder.path(), 1, &rows);
    let file = SystemFileSystem.open(&table_path(folder.path(), 1), true).unwrap();
    file.write_all_at(&[0xff], 3_000).unwrap();
    let table = open(folder.path(), &facts);
    let budget = TableMemory::new(1 << 20);
    assert!(table.directories().wants_keys(&budget));
    make_directories(&table, &budget);
    assert!(!table.directories().wants_keys(&budget), "it is not tried again");
    let get = |row: &Row| get(&table, row, &mut EngineCounts::default());
    assert!(rows.iter().any(|row| matches!(get(row), Err(Error::Corruption { .. }))));
    assert!(rows.iter().all(|row| !matches!(get(row), Ok(None))));
}

/// A table file in the place of another one, or in another store, is refused.
#[test]
fn misplaced_files_are_refused() {
    let rows = [(vec![0, 1, 5], 3)];
    let folder = folder();
    let directory = folder.path();
    let facts = write(directory, 1, &rows);
    SystemFileSystem.rename(&table_path(directory, 1), &table_path(directory, 2)).unwrap();
    let moved = TableMetadata { number: 2, ..facts.clone() };
    let refused = Table::open(&SystemFileSystem, directory, STORE, moved.clone());
    assert!(matches!(refused.err(), Some(Error::Corruption { .. })));
    let refused = Table::open(&SystemFileSystem, directory, STORE + 1, moved);
    assert!(matches!(refused.err(), Some(Error::Foreign { .. })));
}

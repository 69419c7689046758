//! A store with one record for each of its keys, and the check of what salvage makes of it.

use pellucid_engine::{Engine, EngineOptions, SalvageReport, TableId, salvage, verify};
use pellucid_io::simulated::SimulatedFileSystem;

use super::{STORE, open_new, put};

/// The folder in which salvage makes the new store.
pub(crate) const SALVAGED: &str = "/salvaged";

/// The value of a key, at least `length_min` bytes long.
pub(crate) fn value_of(key: u64, length_min: usize) -> Vec<u8> {
    vec![key as u8; length_min + (key as usize * 37) % 300]
}

/// The header of the segment as it was before the first record.
pub(crate) fn spare_header(content: &[u8]) -> Vec<u8> {
    let mut header = content[..64].to_vec();
    header[32..40].fill(0);
    let sum = crc32c::crc32c(&header[..60]);
    header[60..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// Opens a new store and puts `keys` keys; also returns the sequence numbers of their records.
pub(crate) fn store_of(
    options: impl FnOnce(&SimulatedFileSystem) -> EngineOptions,
    keys: u64,
    length_min: usize,
) -> (SimulatedFileSystem, Engine, TableId, Vec<u64>) {
    let (files, engine, table) = open_new(options);
    let write =
        |key: u64| put(&engine, table, &key.to_le_bytes(), &value_of(key, length_min)).unwrap();
    let sequences = (0..keys).map(write).collect();
    (files, engine, table, sequences)
}

/// Salvages the store, and checks that every key has its value unless its record was reported as
/// lost. Returns the number of lost records.
pub(crate) fn check_salvaged(
    files: &SimulatedFileSystem,
    options: impl Fn(&SimulatedFileSystem) -> EngineOptions,
    table: TableId,
    sequences: &[u64],
    length_min: usize,
) -> (SalvageReport, usize) {
    let salvaged = salvage(STORE, SALVAGED, options(files)).unwrap();
    let engine = Engine::open(SALVAGED, options(files)).unwrap();
    let mut lost = 0;
    for (key, sequence) in (0..).zip(sequences) {
        let object = engine.get(table, &u64::to_le_bytes(key)).unwrap();
        match object {
            Some(object) => {
                let value = value_of(key, length_min);
                assert_eq!((&*object.value, object.head.sequence), (&value[..], *sequence));
                assert_eq!(*object.head.metadata, *b"head");
            }
            None => {
                lost += 1;
                let is_named = salvaged
                    .lost
                    .iter()
                    .any(|lost| (lost.first_sequence..=lost.last_sequence).contains(sequence));
                assert!(is_named, "{sequence} is not in {:?}", salvaged.lost);
            }
        }
    }
    assert!(engine.stats().published_sequence >= *sequences.last().unwrap());
    let written = put(&engine, table, b"new", b"1").unwrap();
    assert!(written > *sequences.last().unwrap(), "sequence numbers are not reused");
    engine.close().unwrap();
    assert_eq!(verify(SALVAGED, files).unwrap().problems, []);
    (salvaged, lost)
}

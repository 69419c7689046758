//! Runs the common suite of all stores on the embedded store.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::path::Path;

use pellucid_account::Timeline;
use pellucid_embedded::{EmbeddedOptions, EmbeddedStore};
use pellucid_engine::EngineOptions;
use pellucid_store::suite::{TestedStore, behaves};
use pellucid_store::{Acknowledgement, Operation, Store};
use tempfile::TempDir;

/// The largest value of the stores under test, in bytes.
const VALUE_BYTES_MAX: usize = 100_000;

fn embedded(folder: &Path, memory_bytes: u64) -> Box<dyn Store> {
    let value_bytes_max = VALUE_BYTES_MAX;
    let options = EmbeddedOptions { memory_bytes, value_bytes_max, ..EmbeddedOptions::default() };
    Box::new(EmbeddedStore::open(folder, options).unwrap())
}

fn embedded_behaves(memory_bytes: u64) {
    let folder = TempDir::new().unwrap();
    let open = || embedded(folder.path(), memory_bytes);
    behaves(&TestedStore { open: &open, value_bytes_max: VALUE_BYTES_MAX, unsupported: &[] });
}

#[test]
fn the_embedded_store_behaves() {
    embedded_behaves(EmbeddedOptions::default().memory_bytes);
}

/// The memory is so small that memtables are flushed and merged all the time.
#[test]
fn the_embedded_store_behaves_with_little_memory() {
    embedded_behaves(256 << 10);
}

/// Regression: a value within its own limit was refused if it was longer than the limit of a batch.
#[test]
fn the_largest_value_fits_into_a_batch() {
    let folder = TempDir::new().unwrap();
    let value_bytes_max = VALUE_BYTES_MAX;
    let options = EmbeddedOptions { value_bytes_max, ..EmbeddedOptions::default() };
    let engine = EngineOptions { batch_size_max_bytes: 1_000, ..EngineOptions::default() };
    let store = EmbeddedStore::open_with(folder.path(), options, engine).unwrap();
    let (table, value) = (store.table("t").unwrap(), vec![7; VALUE_BYTES_MAX]);
    let put = Operation::plain(b"key", Some(&value));
    store.write(table, &[put], Acknowledgement::Os, &mut Timeline::off()).wait().unwrap();
}

#[test]
fn a_folder_cannot_be_opened_twice() {
    let folder = TempDir::new().unwrap();
    let first = embedded(folder.path(), 1 << 20);
    let options = EmbeddedOptions::default();
    let Err(error) = EmbeddedStore::open(folder.path(), options) else { panic!("opened twice") };
    assert!(error.to_string().contains("already open"), "{error}");
    first.close().unwrap();
    drop(first);
    drop(embedded(folder.path(), 1 << 20));
}

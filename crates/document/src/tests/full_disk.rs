//! Documents on a full disk.

use pellucid_io::simulated::{Faults, SimulatedFileSystem};

use super::{Step, apply, found, make, open};
use crate::{Collection, Documents};

/// Room for some hundred documents beside the reserve.
const DISK_BYTES: u64 = 4 << 20;
const TEXT_LENGTH: usize = 8_000;
/// More documents than the disk has room for.
const DOCUMENTS_MAX: usize = 2_000;

/// Inserts documents until the disk is full.
fn fill(
    documents: &std::sync::Arc<Documents>,
    collection: &std::sync::Arc<Collection>,
    round: u32,
) {
    for number in 0..DOCUMENTS_MAX {
        let document = serde_json::json!({"text": "x".repeat(TEXT_LENGTH), "u": [round, number]});
        let inserted =
            apply(documents, collection, &Step::Insert(format!("{round}-{number}"), document));
        if let Err(error) = inserted {
            assert!(error.to_string().contains("no room"), "{error}");
            assert!(number > 10, "after {number} documents the disk is full");
            return;
        }
    }
    panic!("the disk takes more than it has room for");
}

/// Regression: the note of garbage is a put and was refused on a full disk, so that the collection
/// that filled the disk could not be removed.
#[test]
fn a_collection_can_be_removed_on_a_full_disk() {
    let files = SimulatedFileSystem::new();
    let documents = open(&files).unwrap();
    let collection = make(&documents).unwrap();
    files.set_faults(Faults { space_bytes: Some(DISK_BYTES), ..Faults::default() });
    fill(&documents, &collection, 1);
    documents.truncate(&collection).unwrap();
    while documents.remove_garbage().unwrap() {}
    fill(&documents, &collection, 2);
    let database = documents.database("_system").unwrap();
    documents.drop_collection(&database, &collection).unwrap();
    while documents.remove_garbage().unwrap() {}
    let collection = make(&documents).unwrap();
    fill(&documents, &collection, 3);
}

/// Regression: the first number after a restart needs a put, which was refused on a full disk, so
/// that the collection that filled the disk could not be emptied.
#[test]
fn a_collection_can_be_emptied_on_a_full_disk_after_a_restart() {
    let files = SimulatedFileSystem::new();
    let documents = open(&files).unwrap();
    let collection = make(&documents).unwrap();
    files.set_faults(Faults { space_bytes: Some(DISK_BYTES), ..Faults::default() });
    fill(&documents, &collection, 1);
    documents.store().close().unwrap();
    drop((documents, collection));
    let documents = open(&files).unwrap();
    let collection = found(&documents).unwrap();
    documents.truncate(&collection).unwrap();
    while documents.remove_garbage().unwrap() {}
    fill(&documents, &collection, 2);
}

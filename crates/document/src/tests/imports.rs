//! Imports, and the memory that they take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pellucid_account::Timeline;
use pellucid_budget::Budget;
use pellucid_io::simulated::SimulatedFileSystem;
use pellucid_store::Acknowledgement;

use super::{COLLECTION, open};
use crate::{CollectionDefinition, ImportForm, ImportOptions, import};

/// Regression: the memory of the values was given back before they were written.
#[test]
fn an_import_holds_the_memory_of_its_values_until_they_are_on_the_disk() {
    let files = SimulatedFileSystem::new();
    let documents = open(&files).unwrap();
    let system = documents.database("_system").unwrap();
    let new = CollectionDefinition::named(COLLECTION);
    let collection = documents.create_collection(&system, new).unwrap();
    let (memory, peak_bytes) = (Budget::unbounded(), Arc::new(AtomicUsize::new(0)));
    let (seen, peak) = (memory.clone(), Arc::clone(&peak_bytes));
    files.observe(move || {
        peak.fetch_max(seen.used_bytes(), Ordering::Relaxed);
    });
    let text = "x".repeat(8_000);
    let line = |number: usize| format!("{{\"_key\":\"{number}\",\"text\":\"{text}\"}}\n");
    let body: String = (0..20).map(line).collect();
    let options = ImportOptions {
        form: ImportForm::Lines,
        complete: true,
        acknowledgement: Acknowledgement::Disk,
        memory: Some(memory.clone()),
        ..ImportOptions::default()
    };
    let (body, mut timeline) = (body.as_bytes(), Timeline::off());
    import(&documents, &collection, body, &options, &|| Ok(()), &mut timeline).unwrap();
    assert!(peak_bytes.load(Ordering::Relaxed) >= 2 * body.len());
    assert_eq!(memory.used_bytes(), 0);
}

//! The conformance suite of the store interface. The tests of each kind of store run it, so that
//! all kinds behave in the same way.
//!
//! A kind lists the [`Feature`]s that it does not support. The suite checks the list as well: a
//! feature that is not in the list has to work, and one in the list must be refused or visibly not
//! work.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod blocking_table;
mod checks;
mod features;
mod kind;

use self::blocking_table::BlockingTable;
pub use self::kind::{Feature, TestedStore};

/// All features.
const FEATURES: [Feature; 5] = [
    Feature::Snapshots,
    Feature::ConditionsAcrossParts,
    Feature::LargeBatchesAcrossParts,
    Feature::BatchesAcrossParts,
    Feature::OneLine,
];

/// Runs the whole suite on a kind of store.
///
/// # Panics
/// At the first check that fails.
pub fn behaves(kind: &TestedStore<'_>) {
    let store = (kind.open)();
    let using = |name: &str| BlockingTable::new(store.as_ref(), name);
    assert_eq!(store.properties().value_bytes_max, kind.value_bytes_max);
    checks::reads_and_writes(&using("reads and writes"));
    checks::conditions(&using("conditions"));
    checks::limits(&using("limits"));
    checks::lifetimes(&using("lifetimes"));
    checks::scans(&using("scans"));
    checks::tables(store.as_ref());
    checks::parts(store.as_ref());
    checks::deletions_of_absent_entries(store.as_ref());
    checks::acknowledgements(store.as_ref());
    checks::copies(&using("copies"));
    checks::figures(store.as_ref());
    checks::full_merge(&using("full merge"));
    checks::concurrent_increments(store.as_ref());
    for feature in FEATURES {
        features::check(feature, !kind.unsupported.contains(&feature), store.as_ref());
    }
    checks::closes_and_opens_again(store, kind);
}

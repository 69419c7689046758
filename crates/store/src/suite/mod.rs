//! The behaviour of every kind of store, as one suite that each kind's tests run, so that the kinds
//! cannot drift apart.
//!
//! A kind names what it does not support, as [`Feature`]s, and the suite checks that too: a feature
//! that is missing from the list has to work, and one that stands there has to be refused, or to be
//! seen not to hold.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod checks;
mod features;
mod kind;
mod using;

pub use self::kind::{Feature, Kind};
use self::using::Using;

/// All features.
const FEATURES: [Feature; 5] = [
    Feature::Snapshots,
    Feature::ConditionsAcrossParts,
    Feature::LargeBatchesAcrossParts,
    Feature::BatchesAcrossParts,
    Feature::OneLine,
];

/// Checks all of it: what the APIs above rely on, whichever store they are on.
///
/// # Panics
/// At the first thing that is not as it has to be.
pub fn behaves(kind: &Kind<'_>) {
    let store = (kind.open)();
    let using = |name: &str| Using::new(store.as_ref(), name);
    assert_eq!(store.properties().value_bytes_max, kind.value_bytes_max);
    checks::reads_and_writes(&using("reads and writes"));
    checks::conditions(&using("conditions"));
    checks::limits(&using("limits"));
    checks::lifetimes(&using("lifetimes"));
    checks::scans(&using("scans"));
    checks::tables(store.as_ref());
    checks::parts(store.as_ref());
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

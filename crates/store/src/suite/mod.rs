//! What every kind of store has to do, as one suite that each kind's tests run, so that the kinds
//! cannot drift apart.
//!
//! A kind names what it does not support, as [`Feature`]s, and the suite checks that too: a feature
//! that is missing from the list has to work, and one that stands there has to be refused, or to be
//! seen not to hold.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod checks;
mod features;
mod using;

use self::using::Using;
use crate::store::Store;

/// What some kinds of store do not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Scans and snapshots are of the moment at which they began.
    Snapshots,
    /// A batch over several parts of a table takes conditions.
    ConditionsAcrossParts,
    /// A batch over several parts of a table has room for thousands of entries.
    LargeBatchesAcrossParts,
    /// There are batches over several parts of a table at all.
    BatchesAcrossParts,
    /// Sequence numbers are in one line over all keys.
    OneLine,
}

/// All features.
const FEATURES: [Feature; 5] = [
    Feature::Snapshots,
    Feature::ConditionsAcrossParts,
    Feature::LargeBatchesAcrossParts,
    Feature::BatchesAcrossParts,
    Feature::OneLine,
];

/// A kind of store under test.
pub struct Kind<'a> {
    /// Opens the store, whose contents stay from one opening to the next. There is none in it when
    /// the suite begins.
    pub open: &'a dyn Fn() -> Box<dyn Store>,
    /// The largest value of the store that is opened, in bytes.
    pub value_bytes_max: usize,
    /// What it does not support.
    pub unsupported: &'a [Feature],
}

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

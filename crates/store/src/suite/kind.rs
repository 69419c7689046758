//! Kinds of store, and the features that some of them have.

use crate::store::Store;

/// A feature that some kinds of store do not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Scans and snapshots see only the state at the time at which they began.
    Snapshots,
    /// A batch over several parts of a table may have conditions.
    ConditionsAcrossParts,
    /// A batch over several parts of a table may have thousands of entries.
    LargeBatchesAcrossParts,
    /// A batch may span several parts of a table.
    BatchesAcrossParts,
    /// Sequence numbers are totally ordered over all keys.
    OneLine,
}

/// A kind of store under test.
pub struct TestedStore<'a> {
    /// Opens the store. Its contents persist between openings, and it is empty when the suite
    /// begins.
    pub open: &'a dyn Fn() -> Box<dyn Store>,
    /// The most bytes of a value in that store.
    pub value_bytes_max: usize,
    /// The features that it does not support.
    pub unsupported: &'a [Feature],
}

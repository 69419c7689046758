//! Kinds of store, and the features that some of them have.

use crate::store::Store;

/// A feature that some kinds of store do not support.
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

/// A kind of store under test.
pub struct Kind<'a> {
    /// Opens the store, whose contents stay from one opening to the next. There is none in it when
    /// the suite begins.
    pub open: &'a dyn Fn() -> Box<dyn Store>,
    /// The largest value of the store that is opened, in bytes.
    pub value_bytes_max: usize,
    /// The features that it does not support.
    pub unsupported: &'a [Feature],
}

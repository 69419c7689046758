//! Pinned views of the tree, for garbage collection of the journal and for backups.

use std::sync::Arc;

use super::snapshots::VisibleSequences;
use super::version::Version;
use super::{FoundEntry, Table};
use crate::error::Result;

/// The tree at a moment.
pub(crate) struct PinnedTree {
    /// The sequence numbers at which readers could read at that moment.
    pub(crate) view: VisibleSequences,
    version: Arc<Version>,
}

impl PinnedTree {
    pub(super) fn new(view: VisibleSequences, version: Arc<Version>) -> PinnedTree {
        PinnedTree { view, version }
    }

    /// The newest entry of `key` at or below `at_sequence`.
    pub(crate) fn get(&self, key: &[u8], at_sequence: u64) -> Result<Option<FoundEntry>> {
        self.version.peek(key, at_sequence)
    }
}

/// The tables at a moment: their bytes stay readable even if their files are removed.
pub(crate) struct PinnedVersion(Arc<Version>);

impl PinnedVersion {
    pub(super) fn new(version: Arc<Version>) -> PinnedVersion {
        PinnedVersion(version)
    }

    /// All tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Table> {
        self.0.levels.all().map(|(_, table)| &**table)
    }
}

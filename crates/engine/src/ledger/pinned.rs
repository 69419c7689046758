//! A look at the tree that stays the same, for whoever asks about many keys and must know that the
//! books are up to date with it: the collection of the journal.

use std::sync::Arc;

use super::snapshots::View;
use super::version::Version;
use super::{FoundEntry, Ledger, Manifest, SegmentFacts, Table};
use crate::error::Result;

/// The tree at a moment.
pub(crate) struct Pinned {
    /// What could be asked for at that moment.
    pub(crate) view: View,
    version: Arc<Version>,
}

impl Pinned {
    /// The newest entry of `key` that is not above `at_sequence`.
    pub(crate) fn get(&self, key: &[u8], at_sequence: u64) -> Result<Option<FoundEntry>> {
        self.version.peek(key, at_sequence)
    }
}

/// The tables at a moment: their bytes stay readable when their files are removed.
pub(crate) struct PinnedVersion(Arc<Version>);

impl PinnedVersion {
    /// The table with file number `number`.
    pub(crate) fn table(&self, number: u64) -> Option<&Table> {
        let mut tables = self.0.levels.all().map(|(_, table)| table);
        tables.find(|table| table.facts().number == number).map(|table| &**table)
    }
}

impl Ledger {
    /// What the store consists of now, with the segments that `segments` says. Nothing is committed
    /// while it is asked.
    pub(crate) fn capture<T>(
        &self,
        segments: impl FnOnce() -> (Vec<SegmentFacts>, T),
    ) -> (Manifest, PinnedVersion, T) {
        let (manifest, version, rest) = self.state.capture(segments);
        (manifest, PinnedVersion(version), rest)
    }

    /// The tree as it is now. On return, everything that it no longer holds was handed to
    /// [`super::JournalLink::on_dropped`].
    pub(crate) fn pin(&self) -> Pinned {
        // The view first: what the version no longer holds, nobody in the view needs.
        let view = self.state.snapshots.view();
        let version = self.state.version.load_full();
        self.state.settle();
        Pinned { view, version }
    }
}

//! A pinned view of the tree, for garbage collection of the journal.

use std::sync::Arc;

use pellucid_account::EngineCounts;

use super::snapshots::VisibleSequences;
use super::version::{LookupMetrics, Version};
use super::{FoundEntry, LookupRequest, LookupResult, NoRecordReader};
use crate::codec::key_hash;
use crate::error::Result;
use crate::read_mode::ReadMode;

/// The tree at a moment.
pub(crate) struct PinnedTree {
    /// The sequence numbers at which readers could read at that moment.
    pub(crate) view: VisibleSequences,
    pub(super) version: Arc<Version>,
}

impl PinnedTree {
    /// The newest entry of `key` at or below `at_sequence`. The look-up is not counted.
    pub(crate) fn get(&self, key: &[u8], at_sequence: u64) -> Result<Option<FoundEntry>> {
        let (asking, mut counts) = (LookupMetrics::default(), EngineCounts::default());
        let (hash, mode) = (key_hash(key), ReadMode::MayBlock);
        let sought = LookupRequest { key, hash, at_sequence, mode };
        let found = self.version.find(&sought, &mut counts, &asking, &mut NoRecordReader)?;
        Ok(found.map(LookupResult::into_entry))
    }
}

//! What the ledger asks of the journal.

use std::sync::atomic::Ordering;

use super::Journal;
use crate::error::Result;
use crate::ledger::{Dropped, JournalLink, SegmentFacts};

impl JournalLink for Journal {
    fn make_durable(&self, sequence: u64) -> Result<()> {
        self.sync_to(sequence).map(|_| ())
    }

    fn on_dropped(&self, dropped: &[Dropped]) {
        let segments = self.segments();
        for entry in dropped {
            if let Some(segment) = segments.find(entry.sequence) {
                segment.shared.dead_bytes.fetch_add(entry.record_bytes, Ordering::Relaxed);
            }
        }
    }

    fn segment_facts(&self) -> Vec<SegmentFacts> {
        self.segments().segments.iter().map(|segment| segment.facts()).collect()
    }

    fn after_manifest(&self, _flushed_sequence: u64) {
        // Segments below the flushed sequence number stay: they hold the values.
    }
}

//! Figures of an engine.

/// Figures of an engine, taken together without stopping it.
#[derive(Clone, Debug, Default)]
pub struct EngineStats {
    /// The highest sequence number that readers see.
    pub published_sequence: u64,
    /// The highest sequence number known to be on the medium.
    pub durable_sequence: u64,
    /// The highest sequence number up to which every record is in tables.
    pub flushed_sequence: u64,
    /// Segments of the journal.
    pub segments: u64,
    /// Bytes of the journal's records.
    pub journal_bytes: u64,
    /// Bytes of the journal that no key needs any more.
    pub journal_dead_bytes: u64,
    /// Syncs of the journal.
    pub syncs: u64,
}

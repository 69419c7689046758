//! The kinds of background jobs that the engine notes in its [`Activity`], so that a request can be
//! told which of them ran beside it, and which it waited for.

use pellucid_account::{Activity, JobKind};

/// A memtable becomes a table of level 0.
pub const FLUSH: JobKind = JobKind::new(0);
/// A run of journal segments is collected.
pub const COLLECTION: JobKind = JobKind::new(8);
/// The journal is synced.
pub const SYNC: JobKind = JobKind::new(9);
/// A writer waits, and with it all others, because flushes or merges are behind.
pub const STALL: JobKind = JobKind::new(10);
/// A backup is made.
pub const BACKUP: JobKind = JobKind::new(11);
/// A segment of the journal is prepared or sealed.
pub const SEGMENT: JobKind = JobKind::new(12);
/// The directory of a table that has none is made.
pub const DIRECTORY: JobKind = JobKind::new(13);

/// Tables of level `from`, up to 6, are merged, into the next level unless all are merged into one.
#[must_use]
pub(crate) const fn compaction(from: u8) -> JobKind {
    assert!(from < 7, "there are seven levels");
    JobKind::new(1 + from)
}

/// Jobs that writers wait for: flushes, merges and garbage collection.
pub(crate) const WRITERS_WAIT_FOR: [JobKind; 9] = [
    FLUSH,
    COLLECTION,
    compaction(0),
    compaction(1),
    compaction(2),
    compaction(3),
    compaction(4),
    compaction(5),
    compaction(6),
];

/// The names of the kinds, by slot.
pub const NAMES: [&str; 14] = [
    "flush",
    "compaction_l0",
    "compaction_l1",
    "compaction_l2",
    "compaction_l3",
    "compaction_l4",
    "compaction_l5",
    "compaction_l6",
    "collection",
    "sync",
    "stall",
    "backup",
    "segment",
    "directory",
];

/// An activity of the engine's kinds, in which nothing runs yet.
pub(crate) fn activity() -> Activity {
    Activity::new(&NAMES)
}

//! The kinds of background jobs that the engine registers in its [`Activity`]. They tell which jobs
//! ran at the same time as a request, and which jobs the request waited for.

use pellucid_account::{Activity, JobKind};

/// A memtable is written to a table of level 0.
pub const FLUSH: JobKind = JobKind::new(0);
/// A run of journal segments is collected.
pub const COLLECTION: JobKind = JobKind::new(8);
/// The journal is synced.
pub const SYNC: JobKind = JobKind::new(9);
/// A writer, and with it all others, waits because flushes or merges are behind.
pub const STALL: JobKind = JobKind::new(10);
/// A backup is made.
pub const BACKUP: JobKind = JobKind::new(11);
/// A segment of the journal is prepared or sealed.
pub const SEGMENT: JobKind = JobKind::new(12);
/// A directory is built for a table that has none.
pub const DIRECTORY: JobKind = JobKind::new(13);

/// Tables of level `from`, at most 6, are merged: into the next level, or all levels into one.
#[must_use]
pub(crate) const fn compaction(from: u8) -> JobKind {
    assert!(from < 7, "there are seven levels");
    JobKind::new(1 + from)
}

/// The kinds of jobs that writers wait for: flushes, merges and garbage collection.
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
    "flush", "compaction_l0", "compaction_l1", "compaction_l2", "compaction_l3", "compaction_l4",
    "compaction_l5", "compaction_l6", "collection", "sync", "stall", "backup", "segment",
    "directory",
];

/// A register of the engine's jobs, in which none runs yet.
pub(crate) fn activity() -> Activity {
    Activity::new(&NAMES)
}

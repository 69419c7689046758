//! The parts of a call that the engine measures, as slots of a [`pellucid_account::Timeline`].

use pellucid_account::Part;

/// Waiting because flushes and merges are behind.
pub const STALL: Part = Part::new(0);
/// Waiting for another writer.
pub const WRITER_WAIT: Part = Part::new(1);
/// Looking up a key in the ledger.
pub const LEDGER: Part = Part::new(2);
/// Reading a record from the journal and checking it.
pub const JOURNAL_READ: Part = Part::new(3);
/// Writing records to the journal.
pub const JOURNAL_APPEND: Part = Part::new(4);
/// Writing entries to the memtable.
pub const MEMTABLE: Part = Part::new(5);
/// Waiting for the group's sync to begin.
pub const GROUP_WAIT: Part = Part::new(6);
/// The sync that made the write durable.
pub const SYNC: Part = Part::new(7);

/// The names of the parts, by slot.
pub const NAMES: [&str; 8] = [
    "stall", "writer_wait", "ledger", "journal_read", "journal_append", "memtable", "group_wait",
    "sync",
];

//! Counts of the store's operations for a query, and the time of single look-ups by the parts of
//! the store.

use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_account::{PARTS_MAX, Part, Timeline};
use pellucid_clock::Clock;
use pellucid_store::{Object, Result as StoreResult, Snapshot, Table};

/// A counter to which only one thread at a time adds: the one that runs the query.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.get() + more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one query.
#[derive(Debug, Default)]
pub(crate) struct QueryCounters {
    pub(crate) index_look_ups: Counter,
    pub(crate) index_entries: Counter,
    pub(crate) document_reads: Counter,
    look_ups: Counter,
    tables: Counter,
    blocks: Counter,
    records: Counter,
    /// The time of each part of the store, in ticks.
    parts_ticks: [Counter; PARTS_MAX],
    /// The clock of look-ups, if they are timed.
    clock: Option<Clock>,
}

impl QueryCounters {
    /// Makes a tally that also times look-ups if `timeline` is on.
    pub(crate) fn beside(timeline: &Timeline) -> QueryCounters {
        QueryCounters {
            clock: timeline.is_on().then(|| timeline.clock()),
            ..QueryCounters::default()
        }
    }

    /// As [`Snapshot::get`], and counts it.
    pub(crate) fn get(
        &self,
        snapshot: &dyn Snapshot,
        table: Table,
        key: &[u8],
    ) -> StoreResult<Option<Object>> {
        let mut timeline = match self.clock {
            // The first lap of the timeline begins here.
            Some(clock) => Timeline::begin(clock, clock.now()),
            None => Timeline::off(),
        };
        let found = snapshot.get(table, key, &mut timeline);
        if self.clock.is_some() {
            for (slot, ticks) in (0..).zip(&self.parts_ticks) {
                ticks.add(timeline.part_ticks(Part::new(slot)));
            }
        }
        let counts = timeline.counts;
        self.look_ups.add(1);
        self.tables.add(counts.tables.into());
        self.blocks.add(counts.blocks.into());
        self.records.add(counts.records.into());
        found
    }

    /// The counts so far. `names` are the names of the store's parts.
    pub(crate) fn account(&self, names: &[&'static str]) -> StoreAccount {
        let ns = |ticks: &Counter| self.clock.map_or(0, |clock| clock.nanoseconds(ticks.get()));
        let parts = names.iter().zip(&self.parts_ticks).map(|(name, ticks)| (*name, ns(ticks)));
        StoreAccount {
            index_look_ups: self.index_look_ups.get(),
            index_entries: self.index_entries.get(),
            document_reads: self.document_reads.get(),
            look_ups: self.look_ups.get(),
            tables: self.tables.get(),
            blocks: self.blocks.get(),
            records: self.records.get(),
            parts_ns: parts.filter(|(_, ns)| *ns > 0).collect(),
        }
    }
}

/// The counts of the store's operations for a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreAccount {
    /// Ranges of indexes that were looked up.
    pub index_look_ups: u64,
    /// Index entries that were read.
    pub index_entries: u64,
    /// Documents that were read.
    pub document_reads: u64,
    /// Single keys (of documents and of unique entries) that were looked up. The counts below are
    /// of these look-ups only.
    pub look_ups: u64,
    /// Tables whose key range contained the key.
    pub tables: u64,
    /// Blocks of tables that were searched.
    pub blocks: u64,
    /// Records that were read from the journal.
    pub records: u64,
    /// Nanoseconds of each part of the store; empty if look-ups are not timed.
    pub parts_ns: Vec<(&'static str, u64)>,
}

//! Histories of clients that write and read the same keys through the stores of two servers. Each
//! answer is compared with all requests that ended before its own request began.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use pellucid_account::Timeline;
use pellucid_cql::CqlStore;
use pellucid_store::{Acknowledgement, Operation, Result, Store, Table};
use pellucid_thread::Mutex;

use super::{options, wait_for, waiting_for};

/// The keys of a history: only a few, so that clients conflict.
const KEYS: [&str; 3] = ["a", "b", "c"];
const CLIENTS: usize = 4;
/// Number of writes of each client, and of its reads.
const OPERATIONS: usize = 40;
/// The copies that writes and reads wait for: together more than the three that exist.
const MEETING: [(u32, u32); 3] = [(2, 2), (3, 1), (1, 3)];

/// The newest version of each key that was acknowledged or read, and the value of each version.
#[derive(Default)]
struct Versions {
    newest: BTreeMap<usize, u64>,
    values: BTreeMap<(usize, u64), Vec<u8>>,
}

impl Versions {
    fn newest(&self, key: usize) -> u64 {
        self.newest.get(&key).copied().unwrap_or(0)
    }

    /// Checks and notes the answer `version` to a request; `before` was the newest version when the
    /// request began. `stays` is true if later reads have to see this version.
    fn note(&mut self, key: usize, (before, version): (u64, u64), value: &[u8], stays: bool) {
        assert!(version >= before, "{version} of {} after {before}", KEYS[key]);
        let known = self.values.entry((key, version)).or_insert_with(|| value.to_vec());
        assert_eq!(known, value, "one value of version {version} of {}", KEYS[key]);
        if stays {
            let newest = self.newest.entry(key).or_default();
            *newest = (*newest).max(version);
        }
    }
}

/// The history of one table. A read sees the newest write that was acknowledged before the read
/// began, or a later one. A write gets a higher version than all acknowledged before it began. This
/// holds if the copies of a write and of a read overlap (docs/stores.md).
#[derive(Default)]
pub(crate) struct History(Mutex<Versions>);

impl History {
    /// Writes a value that no other client writes.
    pub(crate) fn write(
        &self,
        store: &dyn Store,
        table: Table,
        key: usize,
        value: &str,
    ) -> Result<()> {
        let before = self.0.lock().newest(key);
        let operation = Operation::plain(KEYS[key].as_bytes(), Some(value.as_bytes()));
        let answer = store.write(table, &[operation], Acknowledgement::Os, &mut Timeline::off());
        let version = answer.wait()?.sequence;
        assert!(version > before, "a write of {} at {version} after {before}", KEYS[key]);
        self.0.lock().note(key, (before, version), value.as_bytes(), true);
        Ok(())
    }

    /// Reads from this number of copies. The ring repairs the copies of a majority before it
    /// answers, so a later read of a majority does not fall behind. A single copy may be ahead of
    /// the others.
    pub(crate) fn read(
        &self,
        store: &dyn Store,
        table: Table,
        key: usize,
        copies: u32,
    ) -> Result<()> {
        let before = self.0.lock().newest(key);
        let answer = store.get(table, KEYS[key].as_bytes(), &mut Timeline::off());
        match answer.wait()? {
            Some(object) => {
                let times = (before, object.head.sequence);
                self.0.lock().note(key, times, &object.value, copies > 1);
            }
            None => assert_eq!(before, 0, "{} is gone", KEYS[key]),
        }
        Ok(())
    }

    /// One request of a client: a write in every third step, else a read.
    pub(crate) fn step(
        &self,
        store: &dyn Store,
        table: Table,
        (client, index): (usize, usize),
    ) -> Result<()> {
        let key = (index * 7 + client * 5) % KEYS.len();
        match (index + client).is_multiple_of(3) {
            true => self.write(store, table, key, &format!("{client} {index}")),
            false => self.read(store, table, key, 2),
        }
    }
}

/// The clients use two stores that share only the ring.
pub(crate) fn reads_see_what_was_acknowledged_before_them() {
    let stores = [0; 2].map(|_| CqlStore::open(&options("histories")).unwrap());
    for (written, read) in MEETING {
        let (history, name) = (History::default(), format!("by {written} and {read}"));
        // The first store that opens the table creates it.
        let tables = stores.each_ref().map(|store| wait_for(|| store.table(&name)));
        let answered = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (store, table) = (&stores[client % 2], tables[client % 2]);
                let (history, answered) = (&history, &answered);
                scope.spawn(move || {
                    let writer = waiting_for(store, written);
                    let reader = waiting_for(store, read);
                    let writer = writer.as_deref().unwrap_or(store);
                    let reader = reader.as_deref().unwrap_or(store);
                    for index in 0..OPERATIONS {
                        let (key, value) = (index % KEYS.len(), format!("{client} {index}"));
                        let other = (key + client) % KEYS.len();
                        // A busy ring may not answer in time; such a write can become visible at
                        // any later time.
                        let outcomes = [
                            history.write(writer, table, key, &value),
                            history.read(reader, table, other, read),
                        ];
                        let count = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
                        answered.fetch_add(count, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(answered.into_inner() > CLIENTS * OPERATIONS, "half of all is answered");
    }
}

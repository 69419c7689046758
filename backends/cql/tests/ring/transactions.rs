//! Transactions while a node dies: acknowledged ones are there, and each is there completely or not
//! at all.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pellucid_account::Timeline;
use pellucid_cql::CqlStore;
use pellucid_store::{
    Acknowledgement, Condition, Operation, Result, Store, StoreError, Table, WriteOutcome,
};
use serde_json::{Value, json};

use super::http::Client;
use super::losses::NodeDeath;
use super::{PATIENCE, POLL, get};

/// The key of the number that all adders increment.
const SUM: &[u8] = b"sum";
/// Length of the prefix that determines the part of a key.
const PART_LENGTH: usize = 1;
/// The names of the entries of a batch.
const NAMES: [&str; 3] = ["a", "b", "c"];
/// More documents than any load writes, so that one answer has all of them.
const DOCUMENTS_MAX: usize = 1_000_000;

fn write(store: &dyn Store, table: Table, operations: &[Operation<'_>]) -> Result<WriteOutcome> {
    store.write(table, operations, Acknowledgement::Os, &mut Timeline::off()).wait()
}

/// A client that increments a number, each time on the condition that no other client has changed
/// it.
pub(crate) struct Adder<'a> {
    store: &'a CqlStore,
    table: Table,
    /// Number of acknowledged increments, and of those with an unknown outcome.
    acknowledged: u64,
    in_doubt: u64,
}

impl<'a> Adder<'a> {
    pub(crate) fn new(store: &'a CqlStore) -> Adder<'a> {
        let table = store.table("sums").unwrap();
        Adder { store, table, acknowledged: 0, in_doubt: 0 }
    }

    pub(crate) fn load(&mut self, times: usize, death: &NodeDeath) {
        death.amid(times, |_| match death.excuses("conditional write", || self.add()) {
            Some(()) => self.acknowledged += 1,
            None => self.in_doubt += 1,
        });
    }

    /// Makes `times` increments while others do the same. An increment that is refused as busy is
    /// retried.
    pub(crate) fn contend(&mut self, times: usize) {
        let begun = Instant::now();
        for _ in 0..times {
            while let Err(error) = self.add() {
                assert!(matches!(error, StoreError::Busy(_)), "{error}");
                assert!(begun.elapsed() < PATIENCE, "nobody gets anywhere");
            }
            self.acknowledged += 1;
        }
    }

    /// Makes one increment, in several attempts if others change the number in between.
    fn add(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let found = self.store.get(self.table, SUM, &mut Timeline::off()).wait()?;
            let (sum, condition) = match found {
                None => (0, Condition::Absent),
                Some(object) => (number(&object.value), Condition::Sequence(object.head.sequence)),
            };
            let next = (sum + 1).to_string();
            let value = Some(next.as_bytes());
            let operation = Operation { key: SUM, value, condition, lifetime_ms: None };
            match write(self.store, self.table, &[operation]) {
                Err(StoreError::ConditionFailed { .. }) => {}
                ended => return ended.map(|_| ()),
            }
            assert!(begun.elapsed() < PATIENCE, "nobody gets anywhere");
        }
    }

    /// Checks that each acknowledged increment counts once.
    pub(crate) fn check(adders: &[Adder<'_>]) {
        let acknowledged: u64 = adders.iter().map(|adder| adder.acknowledged).sum();
        let in_doubt: u64 = adders.iter().map(|adder| adder.in_doubt).sum();
        let Adder { store, table, .. } = adders[0];
        let sum = get(store, table, std::str::from_utf8(SUM).unwrap()).unwrap();
        let sum = number(&sum.unwrap());
        let possible = acknowledged..=acknowledged + in_doubt;
        assert!(possible.contains(&sum), "{sum} is not in {possible:?}");
    }
}

fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text).unwrap().parse().unwrap()
}

/// A client that writes batches, over several partitions of a table or within one part.
pub(crate) struct BatchWriter<'a> {
    number: usize,
    store: &'a CqlStore,
    table: Table,
    conditions: [Condition; 3],
    /// The key of an entry of a client's batch, by its name.
    key: fn(client: usize, index: usize, name: &str) -> String,
    /// The time for which a batch in doubt may be there in part.
    patience: Duration,
    acknowledged: Vec<usize>,
    in_doubt: Vec<usize>,
}

impl<'a> BatchWriter<'a> {
    /// Batches without conditions, over several partitions. If a coordinator dies, the ring
    /// completes its batches some time later.
    pub(crate) fn over_parts(store: &'a CqlStore, number: usize) -> BatchWriter<'a> {
        BatchWriter {
            number,
            store,
            table: store.table("batches").unwrap(),
            conditions: [Condition::None; 3],
            key: |client, index, name| format!("{name} {client} {index}"),
            patience: PATIENCE,
            acknowledged: Vec::new(),
            in_doubt: Vec::new(),
        }
    }

    /// Batches with conditions, each within one part: these become visible all at once.
    pub(crate) fn within_a_part(store: &'a CqlStore, number: usize) -> BatchWriter<'a> {
        BatchWriter {
            table: store.table_in_parts("parted", |key| PART_LENGTH.min(key.len())).unwrap(),
            conditions: [Condition::Absent, Condition::None, Condition::Absent],
            key: |client, index, name| format!("{client} {index} {name}"),
            patience: Duration::ZERO,
            ..BatchWriter::over_parts(store, number)
        }
    }

    pub(crate) fn load(&mut self, times: usize, death: &NodeDeath) {
        death.amid(times, |index| {
            let keys = self.keys(index);
            let operations = [0, 1, 2].map(|at| Operation {
                condition: self.conditions[at],
                ..Operation::plain(keys[at].as_bytes(), Some(keys[at].as_bytes()))
            });
            match death.excuses("batch", || write(self.store, self.table, &operations)) {
                Some(_) => self.acknowledged.push(index),
                None => self.in_doubt.push(index),
            }
        });
    }

    fn keys(&self, index: usize) -> [String; 3] {
        NAMES.map(|name| (self.key)(self.number, index, name))
    }

    /// Number of a batch's entries that are there.
    fn there(&self, index: usize) -> usize {
        let found = self.keys(index).map(|key| get(self.store, self.table, &key).unwrap());
        found.iter().flatten().count()
    }

    pub(crate) fn check(&self) {
        for index in &self.acknowledged {
            assert_eq!(self.there(*index), NAMES.len(), "batch {index} was acknowledged");
        }
        let begun = Instant::now();
        for index in &self.in_doubt {
            while ![0, NAMES.len()].contains(&self.there(*index)) {
                assert!(begun.elapsed() < self.patience, "batch {index} is there in part");
                std::thread::sleep(POLL);
            }
        }
    }
}

/// A client that writes documents, each with an entry in a unique index.
pub(crate) struct DocumentWriter {
    number: usize,
    client: Client,
    acknowledged: Vec<String>,
}

impl DocumentWriter {
    pub(crate) fn new(client: Client, number: usize) -> DocumentWriter {
        if number == 0 {
            let answer = client.ask("POST", "/_api/collection", "", "{\"name\": \"c\"}");
            assert_eq!(answer.status, 200, "{answer:?}");
            let index = json!({"type": "persistent", "fields": ["n"], "unique": true}).to_string();
            let answer = client.ask("POST", "/_api/index?collection=c", "", &index);
            assert_eq!(answer.status, 201, "{answer:?}");
        }
        DocumentWriter { number, client, acknowledged: Vec::new() }
    }

    pub(crate) fn load(&mut self, times: usize, death: &NodeDeath) {
        let DocumentWriter { number, client, ref mut acknowledged } = *self;
        death.amid(times, |index| {
            let key = format!("{number}-{index}");
            let document = json!({"_key": key, "n": number * DOCUMENTS_MAX + index}).to_string();
            let written = death.excuses("document", || {
                let answer = client.ask("POST", "/_api/document/c", "", &document);
                if answer.status == 202 { Ok(()) } else { Err(format!("{answer:?}")) }
            });
            if written.is_some() {
                acknowledged.push(key);
            }
        });
    }
}

/// Checks that all acknowledged documents are there, and that documents and index entries match.
pub(crate) fn documents_are_whole(client: Client, writers: &[DocumentWriter]) {
    let query = |text: &str| -> Vec<Value> {
        let query = json!({"query": text, "batchSize": DOCUMENTS_MAX}).to_string();
        let answer = client.ask("POST", "/_api/cursor", "", &query);
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["result"].as_array().unwrap().clone()
    };
    let documents = query("FOR d IN c RETURN d");
    let keys: BTreeSet<_> = documents.iter().map(|it| it["_key"].as_str().unwrap()).collect();
    for key in writers.iter().flat_map(|writer| &writer.acknowledged) {
        assert!(keys.contains(&key[..]), "document {key} was acknowledged");
    }
    let numbers: BTreeSet<_> = documents.iter().map(|it| it["n"].as_u64().unwrap()).collect();
    let entries = query("FOR d IN c FILTER d.n >= 0 RETURN d.n");
    let of_index: BTreeSet<_> = entries.iter().map(|it| it.as_u64().unwrap()).collect();
    assert_eq!((documents.len(), numbers), (entries.len(), of_index));
}

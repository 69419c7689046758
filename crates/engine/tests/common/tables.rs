//! A store with tables of all kinds and indexes, and the state that it must have.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use pellucid_engine::{
    Acknowledgement, Condition, Direction, Engine, IndexChange, IndexId, KEY_LENGTH_MAX,
    MetadataExtractor, Object, Operation, Result, Selection, Snapshot, TERM_LENGTH_MAX, TableId,
    TableOptions,
};

use super::{Chooser, Map, Put, StoredObject, purge};

/// The longest step of the wall clock, in milliseconds; an entry lives at most twice as long.
pub(crate) const STEP_MAX_MS: u64 = 10_000;

/// The tables of objects: a plain one, one with derived heads, one with heads only.
pub(crate) const TABLES: usize = 3;
pub(crate) const PLAIN: usize = 0;
pub(crate) const RULED: usize = 1;
pub(crate) const HEAD_ONLY: usize = 2;
/// The indexes: two of the plain table, one of the table with heads only.
pub(crate) const INDEX_TABLES: [usize; 3] = [PLAIN, PLAIN, HEAD_ONLY];

/// Derives the head of an object: the length of its value, and the first bytes of key and value.
pub(crate) struct BriefExtractor;

impl MetadataExtractor for BriefExtractor {
    fn name(&self) -> &str {
        "brief 1"
    }

    fn derive(
        &self,
        key: &[u8],
        value: &[u8],
        head: &mut Vec<u8>,
    ) -> std::result::Result<(), String> {
        head.extend_from_slice(&(value.len() as u32).to_le_bytes());
        head.extend(key.iter().take(2).chain(value.iter().take(60)));
        Ok(())
    }
}

pub(crate) fn brief(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut head = Vec::new();
    BriefExtractor.derive(key, value, &mut head).unwrap();
    head
}

/// The entries of an index: by term and key, the time of expiry.
pub(crate) type Entries = BTreeMap<(Vec<u8>, Vec<u8>), u64>;

/// The state of the whole store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) tables: [Map; TABLES],
    pub(crate) indexes: [Entries; INDEX_TABLES.len()],
}

impl State {
    pub(crate) fn purge(&mut self, now_ms: u64) {
        for map in &mut self.tables {
            purge(map, now_ms);
        }
        for entries in &mut self.indexes {
            entries.retain(|_, expires_at_ms| *expires_at_ms == 0 || *expires_at_ms > now_ms);
        }
    }

    /// Applies a batch whose last entry has this sequence number.
    pub(crate) fn apply(&mut self, last_sequence: u64, changes: &[Change]) {
        for change in changes {
            for (index, term, is_added) in &change.terms {
                let entry = (term.clone(), change.key.clone());
                match is_added {
                    true => self.indexes[*index].insert(entry, change.expires_at_ms),
                    false => self.indexes[*index].remove(&entry),
                };
            }
        }
        let first = last_sequence + 1 - changes.len() as u64;
        for (sequence, change) in (first..).zip(changes) {
            let (key, expires_at_ms) = (change.key.clone(), change.expires_at_ms);
            let map = &mut self.tables[change.table];
            match change.put.clone() {
                Some((head, value)) => {
                    map.insert(key, StoredObject { sequence, expires_at_ms, head, value })
                }
                None => map.remove(&key),
            };
        }
    }
}

/// One operation, owned.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) table: usize,
    pub(crate) key: Vec<u8>,
    pub(crate) put: Put,
    pub(crate) expires_at_ms: u64,
    /// Index, term, and true if the entry is added.
    pub(crate) terms: Vec<(usize, Vec<u8>, bool)>,
}

/// The number of sequence numbers that a batch takes.
pub(crate) fn length(changes: &[Change]) -> u64 {
    changes.iter().map(|change| 1 + change.terms.len() as u64).sum()
}

/// Draws a term: short ones that sort close together, and the longest ones.
pub(crate) fn draw_term(choose: &mut Chooser) -> Vec<u8> {
    let terms: [&[u8]; 9] = [b"", b"\0", b"\0\0", b"a", b"a\0", b"a\0\xff", b"ab", b"b", b"\xff"];
    match choose.below(12) {
        9 => vec![0; TERM_LENGTH_MAX],
        10 => vec![b'a'; TERM_LENGTH_MAX],
        11 => choose.bytes(3),
        number => terms[number as usize].to_vec(),
    }
}

/// Draws an operation of any kind on any table; with lifetimes from `now_ms` on, if it is given.
pub(crate) fn draw_change(choose: &mut Chooser, now_ms: Option<u64>) -> Change {
    let table = [PLAIN, PLAIN, RULED, HEAD_ONLY][choose.below(4) as usize];
    draw_change_of(table, choose, now_ms)
}

/// Does the same for one table.
pub(crate) fn draw_change_of(table: usize, choose: &mut Chooser, now_ms: Option<u64>) -> Change {
    let (mut key, mut put) = choose.change();
    if choose.below(50) == 0 {
        key = vec![choose.below(2) as u8; KEY_LENGTH_MAX];
    }
    if let Some((head, value)) = &mut put {
        match table {
            RULED => *head = brief(&key, value),
            HEAD_ONLY => value.clear(),
            _ => {}
        }
    }
    let is_expiring = put.is_some() && choose.below(4) == 0;
    let lifetime_ms = choose.below(2 * STEP_MAX_MS);
    let expires_at_ms = now_ms.filter(|_| is_expiring).map_or(0, |now_ms| now_ms + lifetime_ms);
    let indexes: Vec<_> =
        (0..INDEX_TABLES.len()).filter(|number| INDEX_TABLES[*number] == table).collect();
    let count = if indexes.is_empty() { 0 } else { choose.below(4) };
    let terms = (0..count).map(|_| {
        let index = indexes[choose.below(indexes.len() as u64) as usize];
        let is_added = put.is_some() && choose.below(3) > 0;
        (index, draw_term(choose), is_added)
    });
    let terms = terms.collect();
    Change { table, key, put, expires_at_ms, terms }
}

/// Writes changes as one batch, with a condition on the last one; returns the last sequence
/// number.
pub(crate) fn write_changes(
    engine: &Engine,
    (tables, indexes): &Names,
    changes: &[Change],
    condition: Condition,
    acknowledgement: Acknowledgement,
) -> Result<u64> {
    let mut terms: Vec<Vec<IndexChange<'_>>> = Vec::new();
    for change in changes {
        let each = change.terms.iter().map(|(index, term, is_added)| {
            let make = if *is_added { IndexChange::add } else { IndexChange::remove };
            make(indexes[*index], term)
        });
        terms.push(each.collect());
    }
    let operations: Vec<_> = std::iter::zip(changes, &terms)
        .enumerate()
        .map(|(position, (change, terms))| {
            let table = tables[change.table];
            let operation = match &change.put {
                Some((_, value)) if change.table == RULED => {
                    Operation::put(table, &change.key, value)
                }
                Some((head, value)) => Operation::put(table, &change.key, value).with_head(head),
                None => Operation::delete(table, &change.key),
            };
            let is_last = position + 1 == changes.len();
            operation
                .with_expiry(change.expires_at_ms)
                .with_index_changes(terms)
                .with_condition(if is_last { condition } else { Condition::None })
        })
        .collect();
    Ok(engine.write(&operations, acknowledgement)?.sequence)
}

/// The options of a table whose heads [`BriefExtractor`] derives.
pub(crate) fn ruled() -> TableOptions {
    TableOptions { metadata_extractor: Some("brief 1".to_owned()), ..TableOptions::default() }
}

/// The options of a table of heads only.
pub(crate) fn head_only() -> TableOptions {
    TableOptions { head_only: true, ..TableOptions::default() }
}

pub(crate) type Names = ([TableId; TABLES], [IndexId; INDEX_TABLES.len()]);

pub(crate) fn names(engine: &Engine) -> Names {
    try_names(engine).unwrap()
}

/// Creates the tables and indexes that do not exist yet.
pub(crate) fn try_names(engine: &Engine) -> Result<Names> {
    let tables = [
        engine.table("plain")?,
        engine.table_with("ruled", &ruled())?,
        engine.table_with("heads", &head_only())?,
    ];
    let index = |number: usize| engine.index(tables[INDEX_TABLES[number]], &format!("i{number}"));
    Ok((tables, [index(0)?, index(1)?, index(2)?]))
}

pub(crate) fn held(object: &Object) -> StoredObject {
    assert_eq!(object.head.value_length as usize, object.value.len());
    StoredObject {
        sequence: object.head.sequence,
        expires_at_ms: object.head.expires_at_ms,
        head: object.head.metadata.to_vec(),
        value: object.value.to_vec(),
    }
}

/// The part of `rows`, which are in order, that a selection returns.
pub(crate) fn select<T>(rows: Vec<T>, direction: Direction, limit: u64) -> Vec<T> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    match direction {
        Direction::Forward => rows.into_iter().take(limit).collect(),
        Direction::Backward => rows.into_iter().rev().take(limit).collect(),
    }
}

/// The entries of an index, as terms and keys, in order.
pub(crate) fn entries(snapshot: &Snapshot, index: IndexId) -> Vec<(Vec<u8>, Vec<u8>)> {
    let all = Selection::default();
    let found = snapshot.fold_index(index, &all, Vec::new(), |mut found, entry| {
        found.push((entry.term.to_vec(), entry.key.to_vec()));
        ControlFlow::Continue(found)
    });
    found.unwrap()
}

/// Compares everything that a snapshot sees with a state.
pub(crate) fn check(snapshot: &Snapshot, (tables, indexes): &Names, state: &State) {
    let all = Selection::default();
    for (table, map) in std::iter::zip(tables, &state.tables) {
        let rows = snapshot.fold_objects(*table, &all, Map::new(), |mut rows, key, object| {
            rows.insert(key.to_vec(), held(object));
            ControlFlow::Continue(rows)
        });
        assert_eq!(rows.unwrap(), *map);
        let backward = Selection { direction: Direction::Backward, ..all };
        let mut expected = map.iter().rev();
        let same = snapshot.fold_heads(*table, &backward, (), |(), key, head| {
            let (expected_key, held) = expected.next().expect("no more than there are");
            let found = (key, head.sequence, &*head.metadata);
            assert_eq!(found, (&expected_key[..], held.sequence, &held.head[..]));
            ControlFlow::Continue(())
        });
        same.unwrap();
        assert!(expected.next().is_none());
        let unbounded = Bound::Unbounded;
        let mut scan = snapshot.scan(*table, unbounded, unbounded, Direction::Backward).unwrap();
        for (key, expected) in map.iter().rev() {
            let (scanned, object) = scan.next().unwrap().expect("it is there");
            assert_eq!((scanned, held(&object)), (&key[..], expected.clone()));
        }
        assert!(scan.next().unwrap().is_none());
    }
    for (index, entries) in std::iter::zip(indexes, &state.indexes) {
        assert!(self::entries(snapshot, *index).iter().eq(entries.keys()));
    }
}

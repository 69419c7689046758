//! Tables and indexes by name: returned if they exist, otherwise created.

use std::ops::Bound;

use pellucid_account::Timeline;

use crate::batch::Operation;
use crate::catalogue::{Definitions, INDEX_NAME_LENGTH_MAX, index_key};
use crate::definition::{Definition, TableKind, TableOptions};
use crate::error::{Error, Result};
use crate::key_range::internal_range;
use crate::ledger::Direction;
use crate::open_store::OpenStore;
use crate::read_mode::ReadMode;
use crate::table_id::{CATALOGUE_TABLE, IndexId, TableId};

/// Returns the table called `name`, whatever its options are; creates it with default options if
/// there is none.
pub(crate) fn table(store: &OpenStore, name: &str) -> Result<TableId> {
    let known = store.catalogue.read().table(name);
    known.map_or_else(|| make_table(store, name, &TableOptions::default()), Ok)
}

/// Returns the table called `name`, which must have these options; creates it with them if there is
/// none.
pub(crate) fn table_with(store: &OpenStore, name: &str, options: &TableOptions) -> Result<TableId> {
    options.check()?;
    let known = store.catalogue.read().table(name);
    let table = known.map_or_else(|| make_table(store, name, options), Ok)?;
    let definitions = store.catalogue.read();
    let objects = definitions.objects(table).ok_or(Error::TablesExhausted)?;
    match objects.options.difference(options) {
        Some(what) => Err(Error::TableDiffers { name: name.to_owned(), what }),
        None => Ok(table),
    }
}

/// Returns the index called `name` of `table`; creates it if there is none.
pub(crate) fn index(store: &OpenStore, table: TableId, name: &str) -> Result<IndexId> {
    if name.is_empty() || name.len() > INDEX_NAME_LENGTH_MAX {
        let what = format!("the name of an index has 1 to {INDEX_NAME_LENGTH_MAX} bytes");
        return Err(Error::Option { what });
    }
    let known = store.catalogue.read().index(table, name);
    known.map_or_else(|| make_index(store, table, name), Ok)
}

/// Creates the table `name`, or returns the one that another thread created meanwhile.
fn make_table(store: &OpenStore, name: &str, options: &TableOptions) -> Result<TableId> {
    let mut definitions = store.catalogue.write();
    if let Some(table) = definitions.table(name) {
        return Ok(table);
    }
    store.catalogue.check_registered(options)?;
    let kind = TableKind::Objects(options.clone());
    define(store, &mut definitions, name.as_bytes(), kind, || Ok(()))
}

/// Creates the index `name`, or returns the one that another thread created meanwhile.
fn make_index(store: &OpenStore, table: TableId, name: &str) -> Result<IndexId> {
    let mut definitions = store.catalogue.write();
    if let Some(index) = definitions.index(table, name) {
        return Ok(index);
    }
    if definitions.objects(table).is_none() {
        return Err(Error::TableUnknown { number: table.number() });
    }
    let check = || match has_objects(store, table)? {
        true => Err(Error::IndexLate { name: name.to_owned(), table: table.number() }),
        false => Ok(()),
    };
    // Only if something was written meanwhile, writers wait for a second look.
    let before = store.ledger.published_sequence();
    check()?;
    let again = || if store.ledger.published_sequence() == before { Ok(()) } else { check() };
    let kind = TableKind::Index { of: table };
    let entries = define(store, &mut definitions, &index_key(table, name), kind, again)?;
    Ok(IndexId { number: entries.0, table })
}

/// True if a table holds a live object.
fn has_objects(store: &OpenStore, table: TableId) -> Result<bool> {
    let range = internal_range(table.0, (Bound::Unbounded, Bound::Unbounded));
    let snapshot = store.ledger.register_snapshot();
    let (range, mode) = (range.as_key_range(), ReadMode::MayBlock);
    let mut scan = store.ledger.scan(range, Direction::Forward, snapshot.sequence(), mode)?;
    while let Some((_, entry)) = scan.next()? {
        if store.time.is_live(&entry) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Assigns a number to a new table and writes its definition, unless `check` refuses. No other
/// write happens between the check and the definition.
fn define(
    store: &OpenStore,
    definitions: &mut Definitions,
    key: &[u8],
    kind: TableKind,
    check: impl FnOnce() -> Result<()>,
) -> Result<TableId> {
    let number = definitions.highest.checked_add(1).ok_or(Error::TablesExhausted)?;
    let table = TableId(number);
    let definition = Definition { table, kind };
    let encoded = definition.encode();
    let entry = Operation::put(TableId(CATALOGUE_TABLE), key, &[]).with_head(&encoded);
    store.writer.write(&[entry], 0, check, &mut Timeline::off())?;
    let added = store.catalogue.add(definitions, key, definition);
    added.expect("the key was made for the definition");
    Ok(table)
}

//! The catalogue: which tables and indexes there are.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::codec::KEY_LENGTH_MAX;
use crate::definition::{Definition, TableKind, TableOptions};
use crate::head_rule::{HeadRule, find_rule};

/// The number of the catalogue's own table.
pub(crate) const CATALOGUE_TABLE: u16 = 0;
/// What the catalogue's key of an index begins with. No name of a table does, because that is
/// UTF-8.
const INDEX_MARK: u8 = 0xff;
/// Bytes before the name in the catalogue's key of an index: the mark and the table's number.
const INDEX_PREFIX_LENGTH: usize = 3;
/// The longest name of an index, in bytes.
pub const INDEX_NAME_LENGTH_MAX: usize = KEY_LENGTH_MAX - INDEX_PREFIX_LENGTH;

/// A table of a store, as [`crate::Engine::table`] returns it. It stays valid when the store is
/// opened anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub(crate) u16);

impl TableId {
    /// The table with this number. Whether the store has one is found out when it is used.
    #[must_use]
    pub fn of_number(number: u16) -> TableId {
        TableId(number)
    }

    /// The number of the table within its store.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }
}

/// An index of a table, as [`crate::Engine::index`] returns it. It stays valid when the store is
/// opened anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexId {
    pub(crate) number: u16,
    pub(crate) table: TableId,
}

impl IndexId {
    /// The number within the store under which the entries of the index are kept.
    #[must_use]
    pub fn number(self) -> u16 {
        self.number
    }

    /// The table whose objects the index is of.
    #[must_use]
    pub fn table(self) -> TableId {
        self.table
    }
}

/// A table of objects, with what its writes need.
pub(crate) struct ObjectTable {
    pub(crate) options: TableOptions,
    /// The rule that the options name, if it is registered.
    pub(crate) rule: Option<Arc<dyn HeadRule>>,
}

/// The tables, as the ledger has them.
#[derive(Default)]
pub(crate) struct Catalogue {
    /// The tables of objects, by name.
    pub(crate) tables: HashMap<Vec<u8>, TableId>,
    /// The tables of objects, by number.
    objects: HashMap<u16, ObjectTable>,
    /// The indexes, by their key in the catalogue.
    indexes: HashMap<Vec<u8>, IndexId>,
    /// The tables that the indexes are of, by the indexes' numbers.
    index_tables: HashMap<u16, TableId>,
    /// The highest table number in use.
    pub(crate) highest: u16,
}

impl Catalogue {
    /// Adds what the catalogue holds under `key`; says why if the two do not fit.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        definition: Definition,
        rules: &[Arc<dyn HeadRule>],
    ) -> Result<(), &'static str> {
        let Definition { table, kind } = definition;
        match kind {
            TableKind::Objects(options) => {
                if key.first() == Some(&INDEX_MARK) {
                    return Err("a table of objects has the key of an index");
                }
                let rule = options.head_rule.as_deref().and_then(|name| find_rule(rules, name));
                self.tables.insert(key.to_vec(), table);
                self.objects.insert(table.0, ObjectTable { options, rule });
            }
            TableKind::Index { of } => {
                if !key.starts_with(&index_key(of, "")) {
                    return Err("the key of an index does not name its table");
                }
                self.indexes.insert(key.to_vec(), IndexId { number: table.0, table: of });
                self.index_tables.insert(table.0, of);
            }
        }
        self.highest = self.highest.max(table.0);
        Ok(())
    }

    /// The index called `name` of `table`.
    pub(crate) fn index(&self, table: TableId, name: &str) -> Option<IndexId> {
        self.indexes.get(&index_key(table, name)).copied()
    }

    /// The indexes of `table`, by name.
    pub(crate) fn indexes(&self, table: TableId) -> Vec<(String, IndexId)> {
        let of_table = self.indexes.iter().filter(|(_, index)| index.table == table);
        let name = |key: &[u8]| String::from_utf8_lossy(&key[INDEX_PREFIX_LENGTH..]).into_owned();
        let mut indexes: Vec<_> = of_table.map(|(key, index)| (name(key), *index)).collect();
        indexes.sort();
        indexes
    }

    /// Whether the store has this index.
    pub(crate) fn has_index(&self, index: IndexId) -> bool {
        self.index_tables.get(&index.number) == Some(&index.table)
    }

    /// The table of objects with this number.
    pub(crate) fn objects(&self, table: TableId) -> Option<&ObjectTable> {
        self.objects.get(&table.0)
    }
}

/// The key under which the catalogue holds the index `name` of `table`.
pub(crate) fn index_key(table: TableId, name: &str) -> Vec<u8> {
    [&[INDEX_MARK][..], &table.0.to_be_bytes(), name.as_bytes()].concat()
}

/// The name under which the catalogue's `key` holds a table or an index.
pub(crate) fn name_of(key: &[u8], kind: &TableKind) -> String {
    let name = match kind {
        TableKind::Objects(_) => key,
        TableKind::Index { .. } => key.get(INDEX_PREFIX_LENGTH..).unwrap_or_default(),
    };
    String::from_utf8_lossy(name).into_owned()
}

/// What every write has to know of its table at once: whether it exists, and whether it takes more
/// than the write itself. One byte for each table number.
pub(crate) struct TableShapes(Box<[AtomicU8]>);

/// A table to whose entries nothing is added.
const SHAPE_PLAIN: u8 = 1;

impl Default for TableShapes {
    fn default() -> TableShapes {
        TableShapes((0..=u16::MAX).map(|_| AtomicU8::new(0)).collect())
    }
}

impl TableShapes {
    /// Whether the table is there, holds objects, and has no option that concerns its writes.
    #[inline]
    pub(crate) fn is_plain(&self, table: TableId) -> bool {
        self.0[usize::from(table.0)].load(Ordering::Acquire) == SHAPE_PLAIN
    }

    /// Notes that the catalogue has this definition.
    pub(crate) fn note(&self, definition: &Definition) {
        if let TableKind::Objects(options) = &definition.kind
            && options.is_plain()
        {
            self.0[usize::from(definition.table.0)].store(SHAPE_PLAIN, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(number: u16, of: TableId) -> Definition {
        Definition { table: TableId(number), kind: TableKind::Index { of } }
    }

    #[test]
    fn keys_of_indexes_name_their_table_and_are_no_names_of_tables() {
        let mut catalogue = Catalogue::default();
        let of = TableId(258);
        assert_eq!(index_key(of, "colour"), b"\xff\x01\x02colour");
        catalogue.add(&index_key(of, "colour"), index(9, of), &[]).unwrap();
        assert_eq!(catalogue.highest, 9);
        assert!(catalogue.add(&index_key(TableId(1), "colour"), index(10, of), &[]).is_err());
        let plain = Definition { table: of, kind: TableKind::Objects(TableOptions::default()) };
        assert!(catalogue.add(&index_key(of, "t"), plain.clone(), &[]).is_err());
        catalogue.add(b"t", plain, &[]).unwrap();
        assert!(catalogue.objects(of).is_some() && catalogue.objects(TableId(9)).is_none());
    }

    #[test]
    fn only_tables_of_objects_without_options_are_plain() {
        let shapes = TableShapes::default();
        let options = TableOptions { head_only: true, ..TableOptions::default() };
        shapes.note(&Definition { table: TableId(1), kind: TableKind::Objects(options) });
        shapes.note(&index(2, TableId(1)));
        let plain = TableKind::Objects(TableOptions::default());
        shapes.note(&Definition { table: TableId(u16::MAX), kind: plain });
        let is_plain = [0, 1, 2, 3, u16::MAX].map(|number| shapes.is_plain(TableId(number)));
        assert_eq!(is_plain, [false, false, false, false, true]);
    }
}

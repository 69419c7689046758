//! The catalogue: the tables and indexes of a store.

use std::collections::HashMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use pellucid_thread::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::codec::{KEY_LENGTH_MAX, TABLE_PREFIX_LENGTH, split_internal_key};
use crate::definition::{Definition, TableKind, TableOptions};
use crate::error::{Error, Result};
use crate::key_range::internal_range;
use crate::ledger::{Direction, KeyRange, Ledger, NEWEST};
use crate::metadata_extractor::{MetadataExtractor, find_extractor};
use crate::prefix::PrefixRule;
use crate::read_mode::ReadMode;
use crate::rules::TableRules;
use crate::table_id::{CATALOGUE_TABLE, IndexId, TableId};

/// The first byte of an index's key in the catalogue. A table's key is its name, which is UTF-8, so
/// it never begins with this byte.
const INDEX_MARK: u8 = 0xff;
/// Bytes before the name in an index's key in the catalogue: the mark and the number of its table.
const INDEX_PREFIX_LENGTH: usize = 3;
/// The longest name of an index, in bytes.
pub const INDEX_NAME_LENGTH_MAX: usize = KEY_LENGTH_MAX - INDEX_PREFIX_LENGTH;

/// A table of objects, with everything that its writes need.
pub(crate) struct ObjectTable {
    pub(crate) options: TableOptions,
    /// The metadata extractor that the options name, if it is registered.
    pub(crate) rule: Option<Arc<dyn MetadataExtractor>>,
}

/// The tables and indexes of a store.
pub(crate) struct Catalogue {
    definitions: RwLock<Definitions>,
    /// The options of tables in the form that reads and writes of entries use.
    rules: Arc<TableRules>,
    metadata_extractors: Vec<Arc<dyn MetadataExtractor>>,
    prefix_rules: Vec<PrefixRule>,
}

impl Catalogue {
    /// A catalogue without tables.
    pub(crate) fn new(
        rules: Arc<TableRules>,
        metadata_extractors: Vec<Arc<dyn MetadataExtractor>>,
        prefix_rules: Vec<PrefixRule>,
    ) -> Catalogue {
        let definitions = RwLock::default();
        Catalogue { definitions, rules, metadata_extractors, prefix_rules }
    }

    /// The definitions as they are now.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Definitions> {
        self.definitions.read()
    }

    /// The definitions, locked for adding to them.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Definitions> {
        self.definitions.write()
    }

    /// The options of tables in the form that reads and writes of entries use.
    #[inline]
    pub(crate) fn rules(&self) -> &TableRules {
        &self.rules
    }

    /// True if the table exists, holds objects, and has no option that adds work to its writes.
    #[inline]
    pub(crate) fn is_plain(&self, table: TableId) -> bool {
        self.rules.of(table.0).is_plain
    }

    /// Returns an error for an index that this store does not have.
    pub(crate) fn check_index(&self, index: IndexId) -> Result<()> {
        match self.read().has_index(index) {
            true => Ok(()),
            false => Err(Error::IndexUnknown { number: index.number, table: index.table.number() }),
        }
    }

    /// Returns an error for options that name a metadata extractor which is not registered.
    pub(crate) fn check_registered(&self, options: &TableOptions) -> Result<()> {
        match &options.metadata_extractor {
            Some(rule) if find_extractor(&self.metadata_extractors, rule).is_none() => {
                Err(Error::ExtractorMissing { rule: rule.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Adds a definition that is stored under `key`.
    pub(crate) fn add(
        &self,
        definitions: &mut Definitions,
        key: &[u8],
        definition: Definition,
    ) -> std::result::Result<(), &'static str> {
        self.note(key, &definition);
        definitions.add(key, definition, &self.metadata_extractors)
    }

    /// Notes the rule of a table, if the entry with this key and head is a definition. A definition
    /// that cannot be read is reported later, when the whole catalogue is loaded.
    pub(crate) fn note_entry(&self, key: &[u8], head: &[u8]) {
        if key.starts_with(&CATALOGUE_TABLE.to_be_bytes())
            && let Ok(definition) = Definition::decode(head)
        {
            self.note(key.get(TABLE_PREFIX_LENGTH..).unwrap_or_default(), &definition);
        }
    }

    /// Notes the effects that a definition, stored in the catalogue under `key`, has on the entries
    /// of its table.
    fn note(&self, key: &[u8], definition: &Definition) {
        definition.note_rule(&self.rules);
        let is_its_own = |rule: &&PrefixRule| rule.table.as_bytes() == key;
        if let Some(rule) = self.prefix_rules.iter().find(is_its_own) {
            self.rules.set_prefixes(definition.table.0, rule.prefix_of);
        }
    }

    /// Loads the definitions from the ledger of the store in `directory`.
    pub(crate) fn load(&self, ledger: &Ledger, directory: &Path) -> Result<()> {
        let range = internal_range(CATALOGUE_TABLE, (Bound::Unbounded, Bound::Unbounded));
        let (forward, mode) = (Direction::Forward, ReadMode::MayBlock);
        let mut scan = ledger.scan(range.as_key_range(), forward, NEWEST, mode)?;
        let mut definitions = Definitions::default();
        while let Some((key, entry)) = scan.next()? {
            let unreadable = |what| Error::corruption(directory, 0, what);
            let definition = Definition::decode(&entry.head).map_err(unreadable)?;
            let key = key.get(TABLE_PREFIX_LENGTH..).unwrap_or_default();
            self.add(&mut definitions, key, definition).map_err(unreadable)?;
        }
        // A salvage may have lost a definition. A table number under which entries are left must
        // not be given to a new table.
        let mut last = ledger.scan(KeyRange::EVERYTHING, Direction::Backward, NEWEST, mode)?;
        if let Some((key, _)) = last.next()?
            && let Some((number, _)) = split_internal_key(key)
        {
            definitions.highest = definitions.highest.max(number);
        }
        *self.write() = definitions;
        Ok(())
    }
}

/// The definitions of tables and indexes in the ledger.
#[derive(Default)]
pub(crate) struct Definitions {
    /// The tables of objects, by name.
    tables: HashMap<Vec<u8>, TableId>,
    /// The tables of objects, by number.
    objects: HashMap<u16, ObjectTable>,
    /// The indexes, by their keys in the catalogue.
    indexes: HashMap<Vec<u8>, IndexId>,
    /// The tables of the indexes, by the numbers of the indexes.
    index_tables: HashMap<u16, TableId>,
    /// The highest table number in use.
    pub(crate) highest: u16,
}

impl Definitions {
    /// Adds the definition that the catalogue holds under `key`. Returns the reason as an error if
    /// key and definition do not fit each other.
    fn add(
        &mut self,
        key: &[u8],
        definition: Definition,
        rules: &[Arc<dyn MetadataExtractor>],
    ) -> std::result::Result<(), &'static str> {
        let Definition { table, kind } = definition;
        match kind {
            TableKind::Objects(options) => {
                if key.first() == Some(&INDEX_MARK) {
                    return Err("a table of objects has the key of an index");
                }
                let rule = options
                    .metadata_extractor
                    .as_deref()
                    .and_then(|name| find_extractor(rules, name));
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

    /// The table called `name`.
    pub(crate) fn table(&self, name: &str) -> Option<TableId> {
        self.tables.get(name.as_bytes()).copied()
    }

    /// All tables, by name.
    pub(crate) fn tables(&self) -> Vec<(String, TableId)> {
        let name = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let mut tables: Vec<_> =
            self.tables.iter().map(|(bytes, table)| (name(bytes), *table)).collect();
        tables.sort();
        tables
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

    /// True if the store has this index.
    pub(crate) fn has_index(&self, index: IndexId) -> bool {
        self.index_tables.get(&index.number) == Some(&index.table)
    }

    /// The table of objects with the number of `table`.
    pub(crate) fn objects(&self, table: TableId) -> Option<&ObjectTable> {
        self.objects.get(&table.0)
    }
}

/// The key of the index `name` of `table` in the catalogue.
pub(crate) fn index_key(table: TableId, name: &str) -> Vec<u8> {
    [&[INDEX_MARK][..], &table.0.to_be_bytes(), name.as_bytes()].concat()
}

/// The name in a `key` of the catalogue, which belongs to a table or an index.
pub(crate) fn name_of(key: &[u8], kind: &TableKind) -> String {
    let name = match kind {
        TableKind::Objects(_) => key,
        TableKind::Index { .. } => key.get(INDEX_PREFIX_LENGTH..).unwrap_or_default(),
    };
    String::from_utf8_lossy(name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(number: u16, of: TableId) -> Definition {
        Definition { table: TableId(number), kind: TableKind::Index { of } }
    }

    #[test]
    fn keys_of_indexes_name_their_table_and_are_never_names_of_tables() {
        let mut catalogue = Definitions::default();
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
        let rules = TableRules::default();
        let options = TableOptions { head_only: true, ..TableOptions::default() };
        Definition { table: TableId(1), kind: TableKind::Objects(options) }.note_rule(&rules);
        index(2, TableId(1)).note_rule(&rules);
        let plain = TableKind::Objects(TableOptions::default());
        Definition { table: TableId(u16::MAX), kind: plain }.note_rule(&rules);
        let is_plain = [0, 1, 2, 3, u16::MAX].map(|number| rules.of(number).is_plain);
        assert_eq!(is_plain, [false, false, false, false, true]);
    }
}

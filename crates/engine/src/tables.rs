//! Tables and indexes by name: found if they are there, otherwise made.

use std::ops::Bound;
use std::sync::PoisonError;

use pellucid_account::Timeline;

use crate::batch::Operation;
use crate::catalogue::{CATALOGUE_TABLE, Catalogue, IndexId, TableId, index_key};
use crate::definition::{Definition, TableKind, TableOptions};
use crate::engine::{Engine, Inner};
use crate::error::{Error, Result};
use crate::head_rule::find_rule;
use crate::ledger::Direction;
use crate::read_mode::ReadMode;
use crate::scan::internal_range;

impl Engine {
    /// The table called `name`, whatever its options are; it is made with the default ones if there
    /// is none. Its name has 1 to [`crate::KEY_LENGTH_MAX`] bytes.
    ///
    /// # Errors
    /// As [`Engine::write`], and [`Error::TablesExhausted`].
    pub fn table(&self, name: &str) -> Result<TableId> {
        match self.inner.find_table(name) {
            Some(table) => Ok(table),
            None => self.inner.make_table(name, &TableOptions::default()),
        }
    }

    /// The table called `name`, which has these options; it is made with them if there is none.
    ///
    /// ```
    /// # use pellucid_account::Timeline;
    /// # use pellucid_engine::*;
    /// # fn main() -> Result<()> {
    /// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
    /// # let options = EngineOptions { file_system: files, ..EngineOptions::default() };
    /// # let engine = Engine::open("/store", options)?;
    /// # let mut timeline = Timeline::off();
    /// let heads_only = TableOptions { head_only: true, ..TableOptions::default() };
    /// let seen = engine.table_with("seen", &heads_only)?;
    /// engine.write(&[Operation::put(seen, b"page", b"").with_head(b"twice")], Acknowledgement::Os)?;
    /// let os = Acknowledgement::Os;
    /// let refused = engine.put(seen, b"page", b"a value");
    /// assert!(matches!(refused, Err(Error::ValueRefused { .. })));
    ///
    /// let other = engine.table_with("seen", &TableOptions::default());
    /// assert!(matches!(other, Err(Error::TableDiffers { .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::TableDiffers`] if there is one with other options; [`Error::HeadRuleMissing`] if
    /// one is to be made whose head rule is not registered; [`Error::Option`] for options that
    /// cannot work; and as [`Engine::table`].
    pub fn table_with(&self, name: &str, options: &TableOptions) -> Result<TableId> {
        options.check()?;
        let inner = &*self.inner;
        if inner.find_table(name).is_none() {
            inner.make_table(name, options)?;
        }
        let catalogue = inner.catalogue.read().unwrap_or_else(PoisonError::into_inner);
        let found = catalogue.tables.get(name.as_bytes()).copied();
        let found = found.and_then(|table| Some((table, catalogue.objects(table)?)));
        let (table, objects) = found.ok_or(Error::TablesExhausted)?;
        match objects.options.difference(options) {
            Some(what) => Err(Error::TableDiffers { name: name.to_owned(), what }),
            None => Ok(table),
        }
    }

    /// The options of a table; `None` if the store has no such table.
    #[must_use]
    pub fn table_options(&self, table: TableId) -> Option<TableOptions> {
        let catalogue = self.inner.catalogue.read().unwrap_or_else(PoisonError::into_inner);
        catalogue.objects(table).map(|objects| objects.options.clone())
    }

    /// All tables, by name.
    #[must_use]
    pub fn tables(&self) -> Vec<(String, TableId)> {
        let catalogue = self.inner.catalogue.read().unwrap_or_else(PoisonError::into_inner);
        let name = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let mut tables: Vec<_> =
            catalogue.tables.iter().map(|(bytes, table)| (name(bytes), *table)).collect();
        tables.sort();
        tables
    }
}

impl Inner {
    /// The table that `name` stands for, if there is one.
    fn find_table(&self, name: &str) -> Option<TableId> {
        let catalogue = self.catalogue.read().unwrap_or_else(PoisonError::into_inner);
        catalogue.tables.get(name.as_bytes()).copied()
    }

    /// Makes the table `name`, or returns the one that another thread made meanwhile.
    fn make_table(&self, name: &str, options: &TableOptions) -> Result<TableId> {
        let mut catalogue = self.catalogue.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = catalogue.tables.get(name.as_bytes()) {
            return Ok(*table);
        }
        if let Some(rule) = &options.head_rule
            && find_rule(&self.options.head_rules, rule).is_none()
        {
            return Err(Error::HeadRuleMissing { rule: rule.clone() });
        }
        self.define(&mut catalogue, name.as_bytes(), TableKind::Objects(options.clone()))
    }

    /// The index of `table` that `name` stands for, if there is one.
    pub(crate) fn find_index(&self, table: TableId, name: &str) -> Option<IndexId> {
        let catalogue = self.catalogue.read().unwrap_or_else(PoisonError::into_inner);
        catalogue.index(table, name)
    }

    /// Refuses an index that this store does not have.
    pub(crate) fn check_index(&self, index: IndexId) -> Result<()> {
        let catalogue = self.catalogue.read().unwrap_or_else(PoisonError::into_inner);
        match catalogue.has_index(index) {
            true => Ok(()),
            false => Err(Error::IndexUnknown { number: index.number, table: index.table.number() }),
        }
    }

    /// Makes the index `name`, or returns the one that another thread made meanwhile.
    pub(crate) fn make_index(&self, table: TableId, name: &str) -> Result<IndexId> {
        let mut catalogue = self.catalogue.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = catalogue.index(table, name) {
            return Ok(index);
        }
        if catalogue.objects(table).is_none() {
            return Err(Error::TableUnknown { number: table.number() });
        }
        if self.has_objects(table)? {
            return Err(Error::IndexLate { name: name.to_owned(), table: table.number() });
        }
        let kind = TableKind::Index { of: table };
        let entries = self.define(&mut catalogue, &index_key(table, name), kind)?;
        Ok(IndexId { number: entries.0, table })
    }

    /// Whether there is an object in a table.
    fn has_objects(&self, table: TableId) -> Result<bool> {
        let range = internal_range(table.0, (Bound::Unbounded, Bound::Unbounded));
        let snapshot = self.ledger.register_snapshot();
        let (range, forward) = (range.as_key_range(), Direction::Forward);
        let mut scan = self.ledger.scan(range, forward, snapshot.sequence(), ReadMode::MayBlock)?;
        while let Some((_, entry)) = scan.next()? {
            if self.time.is_live(&entry) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives a number to a new table and writes its definition.
    fn define(&self, catalogue: &mut Catalogue, key: &[u8], kind: TableKind) -> Result<TableId> {
        let number = catalogue.highest.checked_add(1).ok_or(Error::TablesExhausted)?;
        let table = TableId(number);
        let definition = Definition { table, kind };
        let encoded = definition.encode();
        let entry = Operation::put(TableId(CATALOGUE_TABLE), key, &[]).with_head(&encoded);
        self.write(&[entry], 0, &mut Timeline::off())?;
        self.note_definition(key, &definition);
        let added = catalogue.add(key, definition, &self.options.head_rules);
        added.expect("the key was made for the definition");
        Ok(table)
    }
}

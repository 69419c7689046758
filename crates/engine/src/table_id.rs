//! The identities of tables and indexes.

/// The table number of the catalogue.
pub(crate) const CATALOGUE_TABLE: u16 = 0;

/// A table of a store, as [`crate::Engine::table`] returns it. It stays valid when the store is
/// closed and opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub(crate) u16);

impl TableId {
    /// The table with this number. Operations check whether the store has such a table.
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
/// closed and opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexId {
    pub(crate) number: u16,
    pub(crate) table: TableId,
}

impl IndexId {
    /// The table number under which the entries of the index are stored.
    #[must_use]
    pub fn number(self) -> u16 {
        self.number
    }

    /// The table whose objects are indexed.
    #[must_use]
    pub fn table(self) -> TableId {
        self.table
    }
}

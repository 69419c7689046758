//! The catalogue: which tables there are.

use std::collections::HashMap;

use crate::codec::read_u16;

/// The number of the catalogue's own table.
pub(crate) const CATALOGUE_TABLE: u16 = 0;
/// Length of a definition: table number, version of the definition, flags.
const DEFINITION_LENGTH: usize = 8;
/// The version of the definitions that this build writes.
const DEFINITION_VERSION: u16 = 1;

/// A table of a store, as [`crate::Engine::table`] returns it. It stays valid when the store is
/// opened anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub(crate) u16);

impl TableId {
    /// The number of the table within its store.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }
}

/// The tables by name, as the ledger has them.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) tables: HashMap<Vec<u8>, TableId>,
    /// The highest table number in use.
    pub(crate) highest: u16,
}

impl Catalogue {
    pub(crate) fn add(&mut self, name: &[u8], table: TableId) {
        self.highest = self.highest.max(table.0);
        self.tables.insert(name.to_vec(), table);
    }
}

/// The definition of a table, as the head of its entry in the catalogue.
pub(crate) fn encode_definition(table: TableId) -> [u8; DEFINITION_LENGTH] {
    let mut definition = [0; DEFINITION_LENGTH];
    definition[0..2].copy_from_slice(&table.0.to_le_bytes());
    definition[2..4].copy_from_slice(&DEFINITION_VERSION.to_le_bytes());
    definition
}

/// The table that a definition names; `None` if this build cannot read it.
pub(crate) fn decode_definition(definition: &[u8]) -> Option<TableId> {
    let readable = definition.len() >= DEFINITION_LENGTH
        && read_u16(definition, 2) == DEFINITION_VERSION
        && read_u16(definition, 0) != CATALOGUE_TABLE;
    readable.then(|| TableId(read_u16(definition, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_return_and_strange_ones_are_refused() {
        let definition = encode_definition(TableId(513));
        assert_eq!(decode_definition(&definition), Some(TableId(513)));
        assert_eq!(decode_definition(&definition[..7]), None);
        assert_eq!(decode_definition(&[1, 0, 9, 0, 0, 0, 0, 0]), None);
        assert_eq!(decode_definition(&[0, 0, 1, 0, 0, 0, 0, 0]), None);
    }
}

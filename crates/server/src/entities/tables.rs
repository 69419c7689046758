//! The tables of the entity API: the default table, and named ones.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_store::{Acknowledgement, Condition, Operation, Range, Store, StoreError, Table};
use pellucid_thread::{Mutex, RwLock};

use crate::names::ENTITIES;
use crate::places::Places;
use crate::query::text_parameter;
use crate::reply::Failure;

/// The parameter that names a table.
const PARAMETER: &str = "table";
/// The prefix of named tables in the store. It keeps them apart from the server's own tables.
const STORE_PREFIX: &str = "entities/";
/// The longest name of a table, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// The form of a name, as a regular expression. `.` and `..` are excluded, because clients remove
/// such segments from URLs.
pub(crate) const NAME_PATTERN: &str = r"^(?!\.{1,2}$)[A-Za-z0-9_.-]{1,64}$";
/// The limit of named tables.
const TABLES_MAX: usize = 1_000;
/// The size of the batches in which the entities of a table are removed when it is emptied.
const REMOVED_AT_ONCE: usize = 500;

/// The tables of the entity API in one store.
pub(crate) struct EntityTables {
    store: Arc<dyn Store>,
    usual: Table,
    named: RwLock<BTreeMap<String, Table>>,
    /// Locked while a table is created.
    making: Mutex<()>,
    /// Taken while a table is being emptied.
    pub(crate) emptying: Places,
    /// The reason why there can be no named tables, if there can be none.
    refused: Option<&'static str>,
}

/// Returns true if `name` is the store's name of a named table of entities.
#[must_use]
pub fn is_entity_table(name: &str) -> bool {
    name.starts_with(STORE_PREFIX)
}

/// The name of the table in the parameter `table`; that of the default table without it.
///
/// # Errors
/// If the name is invalid.
pub(crate) fn table_name(query: Option<&str>) -> Result<Cow<'_, str>, String> {
    match text_parameter(query, PARAMETER)? {
        None => Ok(Cow::Borrowed(ENTITIES)),
        Some(name) => check_name(&name).map(|()| name),
    }
}

/// Refuses an invalid name of a table.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let is_short = (1..=NAME_BYTES_MAX).contains(&name.len());
    if is_short && name.bytes().all(is_in_name) && !matches!(name, "." | "..") {
        return Ok(());
    }
    Err(format!(
        "the name of a table has 1 to {NAME_BYTES_MAX} letters, digits, `_`, `-` and `.`, and is \
         neither `.` nor `..`"
    ))
}

impl EntityTables {
    /// The tables of `store`, whose default table is `usual`. `refused` is the reason why named
    /// tables are refused, if they are.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) fn open(
        store: Arc<dyn Store>,
        usual: Table,
        refused: Option<&'static str>,
    ) -> Result<EntityTables, StoreError> {
        let mut named = BTreeMap::new();
        let refused = match store.local() {
            None => Some("this kind of store has one table of entities"),
            Some(_) if refused.is_some() => refused,
            Some(local) => {
                for name in local.table_names()? {
                    if let Some(own) = name.strip_prefix(STORE_PREFIX) {
                        named.insert(own.to_owned(), store.table(&name)?);
                    }
                }
                None
            }
        };
        Ok(EntityTables {
            store,
            usual,
            named: RwLock::new(named),
            making: Mutex::default(),
            emptying: Places::new(1),
            refused,
        })
    }

    /// The default table.
    pub(crate) fn usual(&self) -> Table {
        self.usual
    }

    /// The table that the query of a request names.
    ///
    /// # Errors
    /// If the name is invalid, or there is no such table.
    pub(crate) fn named_in(&self, query: Option<&str>) -> Result<Table, Failure> {
        if query.is_none_or(|query| !query.contains(PARAMETER)) {
            return Ok(self.usual);
        }
        self.find(&table_name(query)?)
    }

    /// The table with this name.
    ///
    /// # Errors
    /// If there is no such table.
    pub(crate) fn find(&self, name: &str) -> Result<Table, Failure> {
        if name == ENTITIES {
            return Ok(self.usual);
        }
        self.check_others()?;
        let named = self.named.read();
        named.get(name).copied().ok_or_else(|| {
            let line = format!("there is no table `{name}`: PUT /v0/tables/{name} makes it");
            Failure::Refused(404, line.into())
        })
    }

    /// Refuses what a store with the default table alone cannot do: other tables, and emptying one.
    ///
    /// # Errors
    /// If this is such a store.
    pub(crate) fn check_others(&self) -> Result<(), Failure> {
        match self.refused {
            None => Ok(()),
            Some(line) => Err(Failure::Refused(501, line.into())),
        }
    }

    /// The names of all tables, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let named = self.named.read();
        let mut names: Vec<String> = named.keys().cloned().collect();
        names.push(ENTITIES.to_owned());
        names.sort_unstable();
        names
    }

    /// Creates a table; false if it exists already.
    ///
    /// # Errors
    /// If the name is invalid, there are too many tables, or the store cannot be written to.
    pub(crate) fn make(&self, name: &str) -> Result<bool, Failure> {
        check_name(name)?;
        if name == ENTITIES {
            return Ok(false);
        }
        self.check_others()?;
        let _making = self.making.lock();
        {
            let named = self.named.read();
            if named.contains_key(name) {
                return Ok(false);
            }
            if named.len() >= TABLES_MAX {
                let line = format!("there are {TABLES_MAX} tables already: use prefixes of keys");
                return Err(line.into());
            }
        }
        let table = self.store.table(&[STORE_PREFIX, name].concat())?;
        let mut named = self.named.write();
        named.insert(name.to_owned(), table);
        Ok(true)
    }

    /// Removes the entities that `table` has now, and returns their number. Entities that are
    /// written meanwhile stay. Each batch waits for `acknowledgement`. It blocks, so it must not
    /// run on an event loop.
    ///
    /// # Errors
    /// If the store cannot be read or written; some entities may be removed already.
    pub(crate) fn empty(
        &self,
        table: Table,
        acknowledgement: Acknowledgement,
    ) -> Result<u64, StoreError> {
        let snapshot = self.store.snapshot()?;
        let all = Range { start: b"", end: None, reverse: false };
        let mut scan = snapshot.scan(table, all)?;
        let (mut batch, mut removed) = (Vec::new(), 0);
        loop {
            let next = scan.next_head()?.map(|(key, head)| (key.to_vec(), head.sequence));
            let is_over = next.is_none();
            batch.extend(next);
            if batch.len() >= REMOVED_AT_ONCE || is_over {
                removed += self.remove(table, &mut batch, acknowledgement)?;
            }
            if is_over {
                return Ok(removed);
            }
        }
    }

    /// Removes the entities of `batch` (keys with sequence numbers) that have not changed, and
    /// returns their number.
    fn remove(
        &self,
        table: Table,
        batch: &mut Vec<(Vec<u8>, u64)>,
        acknowledgement: Acknowledgement,
    ) -> Result<u64, StoreError> {
        while !batch.is_empty() {
            let each = batch.iter().map(|(key, sequence)| Operation {
                condition: Condition::Sequence(*sequence),
                ..Operation::plain(key, None)
            });
            let operations: Vec<_> = each.collect();
            let mut timeline = Timeline::off();
            let written = self.store.write(table, &operations, acknowledgement, &mut timeline);
            match written.wait() {
                Ok(_) => {
                    let removed = batch.len() as u64;
                    batch.clear();
                    return Ok(removed);
                }
                // This entity was written meanwhile, so it stays.
                Err(StoreError::ConditionFailed { index, .. }) if index < batch.len() => {
                    batch.swap_remove(index);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_plain() {
        for good in ["a", "...", "entities", "A-b_c.7", &"n".repeat(NAME_BYTES_MAX)] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a b", "ä", "a%", &"n".repeat(NAME_BYTES_MAX + 1)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert_eq!(table_name(Some("id=a")).as_deref(), Ok("entities"));
        assert_eq!(table_name(Some("id=a&table=b%2Ec")).as_deref(), Ok("b.c"));
        assert!(table_name(Some("table=a&table=b")).is_err());
    }
}

//! The tables of a database, each a column family. Every request looks one up by its number. The
//! lookup needs no lock and no reference count, whose cache line all threads would share.

use std::sync::{Arc, OnceLock};

use pellucid_store::{Result, StoreError, Table};
use pellucid_thread::Mutex;
use rocksdb::BoundColumnFamily;

/// The handle of a table.
pub(crate) type Handle = Arc<BoundColumnFamily<'static>>;

/// The most tables of a database: twice as many as a server has.
const TABLES_MAX: usize = 2_048;

struct Family(Handle);

// SAFETY: a handle is a pointer to an object that RocksDB protects for use by any thread, and no
// holder changes it. The binding declares this only for handles without a lifetime.
unsafe impl Send for Family {}
// SAFETY: as above.
unsafe impl Sync for Family {}

/// The open tables of a database. Tables are never removed.
pub(crate) struct Families {
    /// The names of the tables, by number.
    names: Mutex<Vec<String>>,
    /// The handles of the tables, by number. They are in the struct itself, because a request is so
    /// short that every further memory access is noticeable.
    handles: [OnceLock<Family>; TABLES_MAX],
}

impl Families {
    pub(crate) fn new() -> Families {
        Families { names: Mutex::default(), handles: [const { OnceLock::new() }; TABLES_MAX] }
    }

    /// The table of this name. If it is not open yet, `find` gives its handle.
    pub(crate) fn table(&self, name: &str, find: impl FnOnce() -> Result<Handle>) -> Result<Table> {
        let mut names = self.names.lock();
        if let Some(at) = names.iter().position(|known| known == name) {
            return Ok(Table::of_number(at as u16));
        }
        let number = names.len();
        let Some(place) = self.handles.get(number) else {
            return Err(StoreError::Unacceptable("there are too many tables".to_owned()));
        };
        let is_first = place.set(Family(find()?)).is_ok();
        assert!(is_first, "a number is given once");
        names.push(name.to_owned());
        Ok(Table::of_number(number as u16))
    }

    #[inline]
    pub(crate) fn get(&self, table: Table) -> Option<&Handle> {
        self.handles.get(usize::from(table.number()))?.get().map(|family| &family.0)
    }
}

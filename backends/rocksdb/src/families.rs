//! The tables of a database, each a column family. Every request looks one up by its number. The
//! lookup needs no lock and no reference count, whose cache line all threads would share.

use std::sync::{Arc, OnceLock};

use pellucid_store::{Result, StoreError, Table};
use pellucid_thread::Mutex;
use rocksdb::BoundColumnFamily;

/// The handle of a table.
pub(crate) type Handle = Arc<BoundColumnFamily<'static>>;

/// Number of tables whose handles are in the struct itself. Most servers have no more tables, and a
/// request is so short that every further memory access is noticeable.
const AT_HAND: usize = 8;
/// Number of tables whose slots are allocated together, with the first of them.
const CHUNK: usize = 256;
const CHUNKS: usize = (u16::MAX as usize + 1) / CHUNK;

struct Family(Handle);

// SAFETY: a handle is a pointer to an object that RocksDB protects for use by any thread, and no
// holder changes it. The binding declares this only for handles without a lifetime.
unsafe impl Send for Family {}
// SAFETY: as above.
unsafe impl Sync for Family {}

type Chunk = Box<[OnceLock<Family>]>;

/// The open tables of a database. Tables are never removed.
pub(crate) struct Families {
    /// The names of the tables, by number.
    names: Mutex<Vec<String>>,
    /// The handles of the first tables, by number.
    at_hand: [OnceLock<Family>; AT_HAND],
    /// The handles of all other tables, by number; the slots of the first tables stay empty.
    chunks: Box<[OnceLock<Chunk>]>,
}

impl Families {
    pub(crate) fn new() -> Families {
        let at_hand = std::array::from_fn(|_| OnceLock::new());
        Families { names: Mutex::default(), at_hand, chunks: empty(CHUNKS) }
    }

    /// The table of this name. If it is not open yet, `find` gives its handle.
    pub(crate) fn table(&self, name: &str, find: impl FnOnce() -> Result<Handle>) -> Result<Table> {
        let mut names = self.names.lock();
        if let Some(at) = names.iter().position(|known| known == name) {
            return Ok(Table::of_number(at as u16));
        }
        let Ok(number) = u16::try_from(names.len()) else {
            return Err(StoreError::Unacceptable("there are too many tables".to_owned()));
        };
        let handle = find()?;
        let at = usize::from(number);
        let place = self.at_hand.get(at).unwrap_or_else(|| {
            let chunk = self.chunks[at / CHUNK].get_or_init(|| empty(CHUNK));
            &chunk[at % CHUNK]
        });
        let is_first = place.set(Family(handle)).is_ok();
        assert!(is_first, "a number is given once");
        names.push(name.to_owned());
        Ok(Table::of_number(number))
    }

    #[inline]
    pub(crate) fn get(&self, table: Table) -> Option<&Handle> {
        let at = usize::from(table.number());
        if let Some(place) = self.at_hand.get(at) {
            return place.get().map(|family| &family.0);
        }
        self.chunks[at / CHUNK].get()?[at % CHUNK].get().map(|family| &family.0)
    }
}

fn empty<T>(count: usize) -> Box<[OnceLock<T>]> {
    (0..count).map(|_| OnceLock::new()).collect()
}

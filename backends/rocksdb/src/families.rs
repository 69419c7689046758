//! The tables of a database as column families. Every request looks one up by its number, without
//! a lock or a count of who uses it: those of all threads would be on one line of the cache.

use std::sync::{Arc, OnceLock, PoisonError};

use pellucid_store::{Result, StoreError, Table};
use pellucid_thread::Mutex;
use rocksdb::BoundColumnFamily;

/// The handle of a table.
pub(crate) type Handle = Arc<BoundColumnFamily<'static>>;

/// Tables whose handles lie at hand, as those of all requests of most servers do: a request is so
/// quick that each place of memory it has to go by tells.
const AT_HAND: usize = 8;
/// Tables whose places are made at once, when the first of them is.
const CHUNK: usize = 256;
const CHUNKS: usize = (u16::MAX as usize + 1) / CHUNK;

struct Family(Handle);

// SAFETY: a handle is a pointer to what RocksDB itself guards for use by any thread, and is never
// changed by who holds it. The binding says so of handles without a lifetime alone.
unsafe impl Send for Family {}
// SAFETY: as above.
unsafe impl Sync for Family {}

type Chunk = Box<[OnceLock<Family>]>;

/// See the module. Tables are never taken away.
pub(crate) struct Families {
    /// By number.
    names: Mutex<Vec<String>>,
    at_hand: [OnceLock<Family>; AT_HAND],
    /// By number, those at hand left empty.
    chunks: Box<[OnceLock<Chunk>]>,
}

impl Families {
    pub(crate) fn new() -> Families {
        let at_hand = std::array::from_fn(|_| OnceLock::new());
        Families { names: Mutex::default(), at_hand, chunks: empty(CHUNKS) }
    }

    /// The table of this name; one that was not asked for before gets the handle that `find` finds.
    pub(crate) fn table(&self, name: &str, find: impl FnOnce() -> Result<Handle>) -> Result<Table> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
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

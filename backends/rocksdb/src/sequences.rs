//! Sequence numbers: each greater than all that were drawn before, also by those that had the
//! database open earlier, and each telling the time.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_clock::WallTime;
use pellucid_store::{Result, StoreError};
use pellucid_thread::Mutex;
use rocksdb::WriteOptions;

use crate::db::{Db, error_of};
use crate::stripes::Locks;

/// The least that a sequence number is counted on by in a millisecond, as a power of two: a number
/// tells when it was drawn, so that an entry need not. Its 56 bits last until the year 2109.
const NUMBERS_A_MS_SHIFT: u32 = 14;
/// The last time that a number tells, in milliseconds since the Unix epoch: a day before there are
/// no more numbers. A clock that is beyond it is wrong, and must not use them up.
const LAST_MS: u64 = (1 << 42) - 86_400_000;
/// Under this key of the family that has no table stands the number below which all lie that were
/// drawn: those of writes that RocksDB refused, too, of which it has no trace.
const RESERVED_KEY: &[u8] = b"sequence numbers below";
/// The lead of that: a minute of numbers.
const RESERVED_AHEAD: u64 = 60_000 << NUMBERS_A_MS_SHIFT;

/// See the module.
pub(crate) struct Sequences {
    next: AtomicU64,
    /// Numbers below it may be drawn.
    reserved: AtomicU64,
    reserving: Mutex<()>,
}

impl Sequences {
    pub(crate) fn of(db: &Db) -> Result<Sequences> {
        let next = AtomicU64::new(first_free(db)?);
        Ok(Sequences { next, reserved: AtomicU64::new(0), reserving: Mutex::new(()) })
    }

    /// The next number, unless the time has gone on.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// The first of so many sequence numbers for the write that holds `locks`. Each is greater than
    /// all that were drawn before, and tells the time, [`written_at_ms`].
    pub(crate) fn draw(
        &self,
        db: &Db,
        locks: &Locks<'_>,
        count: usize,
        now: WallTime,
        options: &WriteOptions,
    ) -> std::result::Result<u64, rocksdb::Error> {
        let of_now = now.unix_ms().min(LAST_MS) << NUMBERS_A_MS_SHIFT;
        let mut last = self.next.load(Ordering::Relaxed);
        // Before the number is drawn: whoever sees that it was, sees what is written under it, too.
        locks.begin(last);
        loop {
            let (first, count) = (last.max(of_now), count as u64);
            let next = first + count;
            let drawn =
                self.next.compare_exchange_weak(last, next, Ordering::AcqRel, Ordering::Relaxed);
            match drawn {
                Ok(_) if next <= self.reserved.load(Ordering::Acquire) => return Ok(first),
                Ok(_) => return self.reserve(db, next, options).map(|()| first),
                Err(now_last) => last = now_last,
            }
        }
    }

    /// Notes that numbers up to `next` and some more may have been drawn. What is written with them
    /// comes later in RocksDB's log, so that no crash keeps that and loses this.
    #[cold]
    fn reserve(
        &self,
        db: &Db,
        next: u64,
        options: &WriteOptions,
    ) -> std::result::Result<(), rocksdb::Error> {
        let _held = self.reserving.lock().unwrap_or_else(PoisonError::into_inner);
        if next > self.reserved.load(Ordering::Acquire) {
            let until = next + RESERVED_AHEAD;
            db.put_opt(RESERVED_KEY, until.to_le_bytes(), options)?;
            self.reserved.store(until, Ordering::Release);
        }
        Ok(())
    }
}

/// The time at which the write was made that drew this number, in milliseconds since the Unix
/// epoch.
pub(crate) fn written_at_ms(sequence: u64) -> u64 {
    sequence >> NUMBERS_A_MS_SHIFT
}

/// A number that none is above that was ever drawn.
fn first_free(db: &Db) -> Result<u64> {
    let Some(bytes) = db.get_pinned(RESERVED_KEY).map_err(error_of)? else { return Ok(1) };
    let damaged = |_| {
        let length = bytes.len();
        StoreError::Corruption(format!("the reserved sequence numbers have {length} bytes, not 8"))
    };
    let reserved = <[u8; 8]>::try_from(&*bytes).map_err(damaged)?;
    Ok(u64::from_le_bytes(reserved))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use pellucid_store::Table;

    use super::*;
    use crate::database::{Database, write_options};

    const MEMORY_BYTES: usize = 16 << 20;

    fn draw(database: &Database, now_ms: u64) -> u64 {
        let table = Table::of_number(0);
        let locks = database.stripes.lock(table, [&b"key"[..]].into_iter(), true).unwrap();
        let now = WallTime::from_unix_ms(now_ms);
        database.sequences.draw(&database.db, &locks, 1, now, &write_options(false, true)).unwrap()
    }

    /// RocksDB had no trace of a number whose write it refused, so it was drawn again after the
    /// store was opened anew.
    #[test]
    fn a_number_is_drawn_once() {
        let folder = TempDir::new().unwrap();
        let mut last = 0;
        // Nothing is ever written, and in the end the clock is set back.
        for now_ms in [1_000_000, 1_000_001, 5_000_000, 7] {
            let database = Database::open(folder.path(), MEMORY_BYTES).unwrap();
            for _ in 0..3 {
                let drawn = draw(&database, now_ms);
                assert!(drawn > last, "{drawn} after {last}");
                last = drawn;
            }
        }
    }

    #[test]
    fn a_number_tells_when_it_was_drawn() {
        let folder = TempDir::new().unwrap();
        let database = Database::open(folder.path(), MEMORY_BYTES).unwrap();
        assert_eq!(written_at_ms(draw(&database, 1_000_000)), 1_000_000);
        assert_eq!(written_at_ms(draw(&database, 1_000_000)), 1_000_000);
        assert_eq!(written_at_ms(draw(&database, u64::MAX)), LAST_MS);
    }

    /// A snapshot took the last number that was drawn for its own, and so a write for seen that was
    /// still under way: a query could overwrite it unnoticed.
    #[test]
    fn a_write_under_way_counts_as_unseen() {
        let folder = TempDir::new().unwrap();
        let database = Database::open(folder.path(), MEMORY_BYTES).unwrap();
        let before = draw(&database, 1_000_000);
        assert_eq!(database.last_sequence(), before);
        let (table, options) = (Table::of_number(0), write_options(false, true));
        for keys in [&[&b"a"[..]][..], &[b"a", b"b", b"c"]] {
            let locks = database.stripes.lock(table, keys.iter().copied(), true).unwrap();
            let now = WallTime::from_unix_ms(2_000_000);
            let drawn =
                database.sequences.draw(&database.db, &locks, keys.len(), now, &options).unwrap();
            assert!(database.last_sequence() < drawn);
            drop(locks);
            assert_eq!(database.last_sequence(), drawn + keys.len() as u64 - 1);
        }
    }
}

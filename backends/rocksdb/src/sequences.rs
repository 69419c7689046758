//! Sequence numbers. Each is greater than all drawn before, also in earlier runs on the same
//! database, and each contains the time at which it was drawn, or that of an earlier one if the
//! clock was set back.

use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_clock::{WallTime, rising};
use pellucid_store::{Result, StoreError};
use pellucid_thread::Mutex;

use crate::db::{Db, error_of, write_options};
use crate::stripes::Locks;

/// The number of bits below the milliseconds in a sequence number. A number contains the time at
/// which it was drawn, so an entry needs no field for it. Its 56 bits last until the year 2109.
const TIME_SHIFT_BITS: u32 = 14;
/// The largest time that a new number takes from the clock, in milliseconds since the Unix epoch: a
/// day before the end of all numbers. A clock beyond it is wrong, and must not use the rest up.
const LAST_MS: u64 = (1 << 42) - 86_400_000;
/// The key, in the default column family, of the reserved number: all numbers drawn so far are
/// below it. RocksDB has no trace of a number whose write it refused, so the largest stored one is
/// not enough.
const RESERVED_KEY: &[u8] = b"sequence numbers below";
/// The distance of the reserved number from the largest drawn one at its reservation: the numbers
/// of a second. Each crash may put the times of later writes ahead by up to a second more, until
/// the clock has caught up.
const RESERVED_AHEAD: u64 = 1_000 << TIME_SHIFT_BITS;

/// The source of a database's sequence numbers.
pub(crate) struct Sequences {
    next: AtomicU64,
    /// Numbers below this one may be drawn without a new reservation.
    reserved: AtomicU64,
    /// Held while a reservation is written.
    reserving: Mutex<()>,
}

impl Sequences {
    /// The numbers after those of earlier runs. Also moves this process's expiry clock to the time
    /// of the last one, even if the wall clock was set back.
    pub(crate) fn continue_after(db: &Db) -> Result<Sequences> {
        let next = first_free(db)?;
        // It remembers the highest time.
        let _ = rising(WallTime::from_unix_ms(written_at_ms(next)));
        let (next, reserved) = (AtomicU64::new(next), AtomicU64::new(0));
        Ok(Sequences { next, reserved, reserving: Mutex::new(()) })
    }

    /// Gives back the reserved numbers that were not drawn, so that the next run goes on without a
    /// gap. A write that still draws one reserves it again.
    pub(crate) fn give_back(&self, db: &Db) -> std::result::Result<(), rocksdb::Error> {
        let _held = self.reserving.lock();
        self.reserved.store(0, Ordering::Relaxed);
        // A change of `next`, not a load: it either sees the number of a concurrent draw, or that
        // draw sees that nothing is reserved.
        let next = self.next.fetch_add(0, Ordering::AcqRel);
        db.put_opt(RESERVED_KEY, next.to_le_bytes(), &write_options(false, true))
    }

    /// The next number; a later time makes it larger.
    pub(crate) fn next_free(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// Draws `count` successive sequence numbers for the write that holds `locks`. Returns the
    /// first. Each is greater than all drawn before, and contains the time ([`written_at_ms`]).
    ///
    /// # Errors
    /// Those of RocksDB; [`StoreError::NotInMemory`] if the draw would have to wait, and must not.
    pub(crate) fn draw(
        &self,
        db: &Db,
        locks: &Locks<'_>,
        count: usize,
        now: WallTime,
        may_wait: bool,
    ) -> Result<u64> {
        let of_now = now.unix_ms().min(LAST_MS) << TIME_SHIFT_BITS;
        let mut expected = self.next.load(Ordering::Relaxed);
        // This comes before the number is drawn: a thread that sees `next` beyond the number must
        // also see that the write is under way.
        locks.begin(expected);
        loop {
            let (first, count) = (expected.max(of_now), count as u64);
            let next = first + count;
            match self.next.compare_exchange_weak(
                expected,
                next,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) if next <= self.reserved.load(Ordering::Acquire) => return Ok(first),
                Ok(_) => return self.reserve(db, next, may_wait).map(|()| first),
                Err(seen) => expected = seen,
            }
        }
    }

    /// Stores a reservation of all numbers up to `next` and some more. Writes with these numbers
    /// come later in RocksDB's log, so no crash can keep such a write and lose the reservation, and
    /// it needs no sync of its own.
    #[cold]
    fn reserve(&self, db: &Db, next: u64, may_wait: bool) -> Result<()> {
        // The holder of this lock may be waiting for RocksDB.
        let held = if may_wait { Some(self.reserving.lock()) } else { self.reserving.try_lock() };
        let _held = held.ok_or(StoreError::NotInMemory)?;
        if next > self.reserved.load(Ordering::Acquire) {
            let (until, options) = (next + RESERVED_AHEAD, write_options(false, may_wait));
            db.put_opt(RESERVED_KEY, until.to_le_bytes(), &options).map_err(error_of)?;
            self.reserved.store(until, Ordering::Release);
        }
        Ok(())
    }
}

/// The time at which this number was drawn for a write, in milliseconds since the Unix epoch.
pub(crate) fn written_at_ms(sequence: u64) -> u64 {
    sequence >> TIME_SHIFT_BITS
}

/// The first number that certainly was never drawn.
fn first_free(db: &Db) -> Result<u64> {
    let Some(bytes) = db.get_pinned(RESERVED_KEY).map_err(error_of)? else { return Ok(1) };
    let damaged = |_| {
        let length = bytes.len();
        StoreError::Corruption(format!(
            "the key `sequence numbers below` has {length} bytes instead of 8: restore the \
             database from a backup"
        ))
    };
    let reserved = <[u8; 8]>::try_from(&*bytes).map_err(damaged)?;
    Ok(u64::from_le_bytes(reserved))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use pellucid_store::Table;

    use super::*;
    use crate::database::Database;

    const MEMORY_BYTES: usize = 16 << 20;

    fn draw(database: &Database, now_ms: u64) -> u64 {
        let table = Table::of_number(0);
        let locks = database.stripes.lock(table, [&b"key"[..]].into_iter(), true).unwrap();
        let now = WallTime::from_unix_ms(now_ms);
        database.sequences.draw(&database.db, &locks, 1, now, true).unwrap()
    }

    /// Regression: RocksDB had no trace of a number whose write it refused, so the number was drawn
    /// again after the store was reopened.
    #[test]
    fn a_number_is_drawn_once() {
        let folder = TempDir::new().unwrap();
        let mut last = 0;
        // No entry is written, and at the end the clock is set back.
        for now_ms in [1_000_000, 1_000_001, 5_000_000, 7] {
            let database = Database::open(folder.path(), MEMORY_BYTES).unwrap();
            for _ in 0..3 {
                let drawn = draw(&database, now_ms);
                assert!(drawn > last, "{drawn} after {last}");
                // The next number is that of a write which ends after the store was closed.
                database.close().unwrap();
                last = draw(&database, now_ms);
                assert!(last > drawn, "{last} after {drawn}");
            }
        }
    }

    /// Regression: after a restart, writes carried a time up to a minute in the future.
    #[test]
    fn the_numbers_of_a_closed_store_go_on_without_a_gap() {
        let folder = TempDir::new().unwrap();
        for now_ms in [1_000_000, 1_000_001] {
            let database = Database::open(folder.path(), MEMORY_BYTES).unwrap();
            assert_eq!(written_at_ms(draw(&database, now_ms)), now_ms);
            database.close().unwrap();
        }
    }

    #[test]
    fn a_number_contains_the_time_at_which_it_was_drawn() {
        let folder = TempDir::new().unwrap();
        let database = Database::open(folder.path(), MEMORY_BYTES).unwrap();
        assert_eq!(written_at_ms(draw(&database, 1_000_000)), 1_000_000);
        assert_eq!(written_at_ms(draw(&database, 1_000_000)), 1_000_000);
        assert_eq!(written_at_ms(draw(&database, u64::MAX)), LAST_MS);
    }

    /// Regression: a draw that must not wait did wait while another stored a reservation.
    #[test]
    fn a_draw_that_must_not_wait_is_refused_during_a_reservation() {
        let folder = TempDir::new().unwrap();
        let database = Database::open(folder.path(), MEMORY_BYTES).unwrap();
        let keys = [&b"key"[..]].into_iter();
        let locks = database.stripes.lock(Table::of_number(0), keys, false).unwrap();
        let _reserving = database.sequences.reserving.lock();
        let now = WallTime::from_unix_ms(1_000_000);
        let drawn = database.sequences.draw(&database.db, &locks, 1, now, false);
        assert_eq!(drawn, Err(StoreError::NotInMemory));
    }

    /// Regression: a snapshot took the last drawn number as its own, so it counted a write as seen
    /// that was still under way; a transaction could overwrite that write unnoticed.
    #[test]
    fn a_write_under_way_counts_as_unseen() {
        let folder = TempDir::new().unwrap();
        let database = Database::open(folder.path(), MEMORY_BYTES).unwrap();
        let before = draw(&database, 1_000_000);
        assert_eq!(database.last_sequence(), before);
        let table = Table::of_number(0);
        for keys in [&[&b"a"[..]][..], &[b"a", b"b", b"c"]] {
            let locks = database.stripes.lock(table, keys.iter().copied(), true).unwrap();
            let now = WallTime::from_unix_ms(2_000_000);
            let drawn =
                database.sequences.draw(&database.db, &locks, keys.len(), now, true).unwrap();
            assert!(database.last_sequence() < drawn);
            drop(locks);
            assert_eq!(database.last_sequence(), drawn + keys.len() as u64 - 1);
        }
    }
}

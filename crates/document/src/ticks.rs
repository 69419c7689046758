//! Unique numbers for databases, collections, indexes, and documents without a key.
//!
//! Not every number is stored when it is given out. Instead, a ceiling above the next numbers is
//! stored ahead, and after a restart the numbers continue from it.

use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_thread::Mutex;

use crate::error::Result;

/// The first number that is given out. Smaller numbers have fixed meanings.
const FIRST: u64 = 1_000;

/// The numbers that each new ceiling reserves. A larger value means fewer writes, and a larger gap
/// after a restart.
const RESERVED_AT_ONCE: u64 = 1 << 16;

/// The largest number to which others are skipped, so that all numbers fit for good.
const SKIPPED_TO_MAX: u64 = 1 << 62;

/// The source of the unique numbers of a store.
pub(crate) struct TickGenerator {
    next: AtomicU64,
    ceiling: AtomicU64,
    reserving: Mutex<()>,
}

impl TickGenerator {
    /// Begins at the first number, for a store without a ceiling.
    pub(crate) fn new() -> TickGenerator {
        TickGenerator {
            next: AtomicU64::new(FIRST),
            ceiling: AtomicU64::new(FIRST),
            reserving: Mutex::new(()),
        }
    }

    /// Continues from the stored ceiling. No number may have been given out before.
    pub(crate) fn go_on(&self, ceiling: u64) {
        let _turn = self.reserving.lock();
        self.next.store(ceiling, Ordering::Relaxed);
        self.ceiling.store(ceiling, Ordering::Release);
    }

    /// Leaves out the numbers below `number`.
    pub(crate) fn skip_to(&self, number: u64) {
        self.next.fetch_max(number.min(SKIPPED_TO_MAX), Ordering::Relaxed);
    }

    /// The next number. `note` has to store the ceiling that it is called with.
    ///
    /// # Errors
    /// The error of `note`. The number is not used then.
    pub(crate) fn next(&self, note: impl FnOnce(u64) -> Result<()>) -> Result<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.ceiling.load(Ordering::Acquire) {
            let _turn = self.reserving.lock();
            if number >= self.ceiling.load(Ordering::Acquire) {
                let ceiling = number + RESERVED_AT_ONCE;
                note(ceiling)?;
                self.ceiling.store(ceiling, Ordering::Release);
            }
        }
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_given_out_twice_across_restarts() {
        let (mut noted, mut last) = (None, 0);
        for _ in 0..3 {
            let ticks = TickGenerator::new();
            if let Some(ceiling) = noted {
                ticks.go_on(ceiling);
            }
            for _ in 0..RESERVED_AT_ONCE + 10 {
                let number = ticks.next(|ceiling| {
                    noted = Some(ceiling);
                    Ok(())
                });
                let number = number.unwrap();
                assert!(number > last);
                last = number;
            }
            assert!(noted.unwrap() > last);
        }
    }
}

//! Numbers that are given out once: of collections, indexes and documents without a key.
//!
//! A number that was given out is not written down each time. A ceiling is, ahead of need, and
//! after a restart counting goes on from there.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_thread::Mutex;

use crate::error::Result;

/// The first number that is given out; those below have fixed meanings.
const FIRST: u64 = 1_000;

/// Numbers that one note of the ceiling makes room for: few notes, and small jumps at a restart.
const RESERVED_AT_ONCE: u64 = 1 << 16;

pub(crate) struct Ticks {
    next: AtomicU64,
    ceiling: AtomicU64,
    reserving: Mutex<()>,
}

impl Ticks {
    /// Those of a store of which nothing is known yet.
    pub(crate) fn new() -> Ticks {
        Ticks {
            next: AtomicU64::new(FIRST),
            ceiling: AtomicU64::new(FIRST),
            reserving: Mutex::new(()),
        }
    }

    /// Goes on from the ceiling that was noted last. Nothing has been given out yet.
    pub(crate) fn go_on(&self, ceiling: u64) {
        let _turn = self.reserving.lock().unwrap_or_else(PoisonError::into_inner);
        self.next.store(ceiling, Ordering::Relaxed);
        self.ceiling.store(ceiling, Ordering::Release);
    }

    /// The next number. `note` has to write down the new ceiling that it is given.
    pub(crate) fn next(&self, note: impl FnOnce(u64) -> Result<()>) -> Result<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.ceiling.load(Ordering::Acquire) {
            let _turn = self.reserving.lock().unwrap_or_else(PoisonError::into_inner);
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
            let ticks = Ticks::new();
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

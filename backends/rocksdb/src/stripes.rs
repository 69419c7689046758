//! Locks over keys: writers of a key follow one another, and a snapshot knows which writes are
//! under way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, TryLockError};

use pellucid_store::Table;
use pellucid_thread::{Mutex, MutexGuard};
use xxhash_rust::xxh3::xxh3_64;

/// Writers of keys with the same lock follow one another.
const STRIPES: usize = 256;
/// A stand-in for a write that is under way where there is none.
const NOBODY: u64 = u64::MAX;

/// See the module.
pub(crate) struct Stripes(Vec<Stripe>);

/// A lock over keys, and what is being written under it.
struct Stripe {
    lock: Mutex<()>,
    /// No write under way has a number below; [`NOBODY`] while there is none. A write of many keys
    /// stands at one of its locks.
    under_way: AtomicU64,
}

/// Locks that hold off writers of some keys until they are dropped.
pub(crate) struct Locks<'a> {
    /// The stripe of the write that is under way.
    stripe: &'a Stripe,
    _held: Held<'a>,
}

enum Held<'a> {
    /// As most writes have it, without a list of one.
    One(#[allow(dead_code, reason = "it is held")] MutexGuard<'a, ()>),
    Many(#[allow(dead_code, reason = "they are held")] Vec<MutexGuard<'a, ()>>),
}

impl Drop for Locks<'_> {
    fn drop(&mut self) {
        self.stripe.under_way.store(NOBODY, Ordering::Release);
    }
}

impl Stripes {
    pub(crate) fn new() -> Stripes {
        let stripe = |_| Stripe { lock: Mutex::new(()), under_way: AtomicU64::new(NOBODY) };
        Stripes((0..STRIPES).map(stripe).collect())
    }

    /// No write under way has a sequence number below.
    pub(crate) fn least_under_way(&self) -> u64 {
        let under_way = self.0.iter().map(|stripe| stripe.under_way.load(Ordering::Acquire));
        under_way.fold(NOBODY, u64::min)
    }

    /// Holds off others that write any of these keys. Nothing if somebody does, and this thread
    /// must not wait.
    pub(crate) fn lock<'a>(
        &self,
        table: Table,
        mut keys: impl ExactSizeIterator<Item = &'a [u8]>,
        may_wait: bool,
    ) -> Option<Locks<'_>> {
        let stripe = |key: &[u8]| {
            let place = xxh3_64(key) as usize ^ usize::from(table.number());
            place % STRIPES
        };
        if keys.len() == 1 {
            let stripe = &self.0[stripe(keys.next()?)];
            let held = stripe.lock(may_wait)?;
            return Some(Locks { stripe, _held: Held::One(held) });
        }
        let mut wanted: Vec<usize> = keys.map(stripe).collect();
        // In one order, so that nobody waits for anybody who waits for him.
        wanted.sort_unstable();
        wanted.dedup();
        let stripe = &self.0[*wanted.first()?];
        let held: Option<_> =
            wanted.into_iter().map(|place| self.0[place].lock(may_wait)).collect();
        Some(Locks { stripe, _held: Held::Many(held?) })
    }
}

impl Locks<'_> {
    /// Notes that the write that holds these locks will have no sequence number below `least`.
    /// A thread that sees a number that was drawn after this has to see this, too: drawing
    /// releases it.
    pub(crate) fn begin(&self, least: u64) {
        self.stripe.under_way.store(least, Ordering::Release);
    }
}

impl Stripe {
    fn lock(&self, may_wait: bool) -> Option<MutexGuard<'_, ()>> {
        if may_wait {
            return Some(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        }
        match self.lock.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

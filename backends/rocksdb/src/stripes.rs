//! Lock striping over keys: writers of the same key run one after another, and a snapshot knows
//! which writes are under way.

use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_store::Table;
use pellucid_thread::{Mutex, MutexGuard};
use xxhash_rust::xxh3::xxh3_64;

/// Number of locks. Writers of different keys with the same lock also wait for each other.
const STRIPES: usize = 256;
/// The value of [`Stripe::under_way`] without a write.
const NOBODY: u64 = u64::MAX;

/// The locks of all keys of a database.
pub(crate) struct Stripes(Vec<Stripe>);

/// A lock for the keys of one stripe, and the write under way that holds it.
struct Stripe {
    lock: Mutex<()>,
    /// A lower bound of the sequence numbers of the write under way; [`NOBODY`] without one. A
    /// write with several locks is noted at one of them.
    under_way: AtomicU64,
}

/// A guard of the locks of a write; dropping it releases them.
pub(crate) struct Locks<'a> {
    /// The stripe at which the write is noted.
    stripe: &'a Stripe,
    _held: LockGuards<'a>,
}

enum LockGuards<'a> {
    /// One lock, without the allocation of a list: the most frequent case.
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

    /// A lower bound of the sequence numbers of all writes under way.
    pub(crate) fn least_under_way(&self) -> u64 {
        let under_way = self.0.iter().map(|stripe| stripe.under_way.load(Ordering::Acquire));
        under_way.fold(NOBODY, u64::min)
    }

    /// Locks these keys against other writers. Returns `None` if another writer holds one of the
    /// locks and `may_wait` is false, or if there are no keys.
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
            return Some(Locks { stripe, _held: LockGuards::One(held) });
        }
        let mut wanted: Vec<usize> = keys.map(stripe).collect();
        // All writers take the locks in the same order, which prevents deadlocks.
        wanted.sort_unstable();
        wanted.dedup();
        let stripe = &self.0[*wanted.first()?];
        let held: Option<_> =
            wanted.into_iter().map(|place| self.0[place].lock(may_wait)).collect();
        Some(Locks { stripe, _held: LockGuards::Many(held?) })
    }
}

impl Locks<'_> {
    /// Notes that the write with these locks will have no sequence number below `least`. A thread
    /// that sees the number drawn afterwards sees this note as well: drawing has release ordering.
    pub(crate) fn begin(&self, least: u64) {
        self.stripe.under_way.store(least, Ordering::Release);
    }
}

impl Stripe {
    fn lock(&self, may_wait: bool) -> Option<MutexGuard<'_, ()>> {
        if may_wait { Some(self.lock.lock()) } else { self.lock.try_lock() }
    }
}

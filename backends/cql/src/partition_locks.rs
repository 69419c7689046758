//! Mutual exclusion: a process runs its transactions on the same partition one after another.
//!
//! The ring runs one transaction of a partition at a time. Two that meet in the ring make each
//! other start again, and on a busy ring, several writers of a key can disturb each other until
//! none finishes in time. Transactions of other servers can still meet in the ring, but those of
//! this process wait here, where waiting costs nothing.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use pellucid_store::{Result, StoreError};
use tokio::sync::{Mutex, MutexGuard, Semaphore};

/// Number of locks. Partitions with the same lock also wait for each other.
const STRIPES: usize = 1_024;
/// Limit of the transactions that wait for the same lock.
const WAITING_MAX: usize = 256;

/// The lock of some partitions, and the places to wait for it.
struct Stripe {
    lock: Mutex<()>,
    places: Semaphore,
}

/// The locks of all partitions.
pub(crate) struct PartitionLocks {
    stripes: Vec<Stripe>,
    /// The places to wait for any lock.
    places: Semaphore,
    hasher: RandomState,
}

impl PartitionLocks {
    /// The locks, for which at most `waiting_max` transactions wait at the same time.
    pub(crate) fn new(waiting_max: usize) -> PartitionLocks {
        let stripe = |_| Stripe { lock: Mutex::new(()), places: Semaphore::new(WAITING_MAX) };
        let places = Semaphore::new(waiting_max.min(Semaphore::MAX_PERMITS));
        let stripes = (0..STRIPES).map(stripe).collect();
        PartitionLocks { stripes, places, hasher: RandomState::new() }
    }

    /// Waits until no other transaction of this process holds the partition, first come, first
    /// served.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if that takes longer than `wait_max`, or too many wait already.
    pub(crate) async fn take(
        &self,
        space: &str,
        place: &[u8],
        wait_max: Duration,
    ) -> Result<MutexGuard<'_, ()>> {
        let stripe = &self.stripes[self.hasher.hash_one((space, place)) as usize % STRIPES];
        if let Ok(turn) = stripe.lock.try_lock() {
            return Ok(turn);
        }
        let (Ok(_place), Ok(_of_all)) = (stripe.places.try_acquire(), self.places.try_acquire())
        else {
            let what = "too many writes wait for others to the same parts of tables: try again in \
                        a moment";
            return Err(StoreError::Busy(what.to_owned()));
        };
        let turn = tokio::time::timeout(wait_max, stripe.lock.lock()).await;
        turn.map_err(|_| {
            StoreError::Busy(format!(
                "writes before this one to the same part of the table took more than {wait_max:?}: \
                 try again in a moment"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_partition_has_one_turn_at_a_time_and_others_are_free() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (turns, brief) = (PartitionLocks::new(1), Duration::from_millis(1));
            let first = turns.take("t", b"a", brief).await.unwrap();
            let refused = turns.take("t", b"a", brief).await;
            assert!(matches!(refused, Err(StoreError::Busy(_))));
            let mut free = 0;
            for other in 0_u8..4 {
                free += usize::from(turns.take("t", &[b'b', other], brief).await.is_ok());
            }
            assert!(free > 0, "the others do not all have its stripe");
            drop(first);
            assert!(turns.take("t", b"a", Duration::from_secs(60)).await.is_ok());
        });
    }

    /// Regression: any number of writes to one partition waited, each as one of the requests in
    /// flight, until no other request was admitted.
    #[test]
    fn few_wait_for_the_same_partition_and_for_all() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            for (waiting_max, expected) in [(usize::MAX, WAITING_MAX), (2, 2)] {
                let (turns, long) = (PartitionLocks::new(waiting_max), Duration::from_secs(60));
                let take = |place: &'static [u8]| Box::pin(turns.take("t", place, long));
                let first = take(b"a").await.unwrap();
                let mut waits: Vec<_> = (0..expected).map(|_| take(b"a")).collect();
                assert!(waits.iter_mut().all(|wait| wait.now_or_never().is_none()));
                let refused = take(b"a").now_or_never();
                assert!(matches!(refused, Some(Err(StoreError::Busy(_)))));
                let others = [b"b", b"c", b"d", b"e"].map(|place| take(place).now_or_never());
                let is_free = |turn: &Option<Result<_>>| matches!(turn, Some(Ok(_)));
                assert!(others.iter().any(is_free), "the others do not all have its stripe");
                drop(first);
                assert!(waits.remove(0).await.is_ok());
            }
        });
    }
}

//! Mutual exclusion: a process runs its transactions on the same partition one after another.
//!
//! The ring runs one transaction of a partition at a time. Two that meet in the ring make each
//! other start again, and on a busy ring, several writers of a key can disturb each other until
//! none finishes in time. Transactions of other servers can still meet in the ring, but those of
//! this process wait here, where waiting costs nothing.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use pellucid_store::{Result, StoreError};
use tokio::sync::{Mutex, MutexGuard};

/// Number of locks. Partitions with the same lock also wait for each other.
const STRIPES: usize = 1_024;

/// The locks of all partitions.
pub(crate) struct PartitionLocks {
    stripes: Vec<Mutex<()>>,
    hasher: RandomState,
}

impl PartitionLocks {
    pub(crate) fn new() -> PartitionLocks {
        let stripes = (0..STRIPES).map(|_| Mutex::new(())).collect();
        PartitionLocks { stripes, hasher: RandomState::new() }
    }

    /// Waits until no other transaction of this process holds the partition, first come, first
    /// served.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if that takes longer than `wait_max`.
    pub(crate) async fn take(
        &self,
        space: &str,
        place: &[u8],
        wait_max: Duration,
    ) -> Result<MutexGuard<'_, ()>> {
        let stripe = self.hasher.hash_one((space, place)) as usize % STRIPES;
        let turn = tokio::time::timeout(wait_max, self.stripes[stripe].lock()).await;
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
    use super::*;

    #[test]
    fn a_partition_has_one_turn_at_a_time_and_others_are_free() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (turns, brief) = (PartitionLocks::new(), Duration::from_millis(1));
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
}

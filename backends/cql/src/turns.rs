//! Transactions of one partition follow one another within a process.
//!
//! The ring agrees on a partition's transactions one at a time, and two that meet there make each
//! other begin anew; on a ring with much to do, several writers of one key get in each other's way
//! until none ends in time. Those of other servers still meet in the ring; our own wait for their
//! turn here, where waiting costs nothing.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use pellucid_store::{Result, StoreError};
use tokio::sync::{Mutex, MutexGuard};

/// Turns at a time; partitions that fall on the same one wait for one another too.
const STRIPES: usize = 1_024;

/// See the module.
pub(crate) struct Turns {
    stripes: Vec<Mutex<()>>,
    hasher: RandomState,
}

impl Turns {
    pub(crate) fn new() -> Turns {
        let stripes = (0..STRIPES).map(|_| Mutex::new(())).collect();
        Turns { stripes, hasher: RandomState::new() }
    }

    /// Waits until nobody else of this process writes to the partition, in the order of asking.
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
            let (turns, brief) = (Turns::new(), Duration::from_millis(1));
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

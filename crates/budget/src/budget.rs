//! The memory budget of a server.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A limit on the bytes that several holders take together. Clones share the same budget.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Counters>);

#[derive(Debug)]
struct Counters {
    bytes_max: usize,
    used_bytes: AtomicUsize,
    refusals: AtomicUsize,
}

impl Budget {
    /// A budget of `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Budget {
        let (used_bytes, refusals) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Budget(Arc::new(Counters { bytes_max, used_bytes, refusals }))
    }

    /// A budget without a limit.
    #[must_use]
    pub fn unbounded() -> Budget {
        Budget::new(usize::MAX)
    }

    /// The limit in bytes.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.0.bytes_max
    }

    /// The bytes that all holders have now.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.0.used_bytes.load(Ordering::Relaxed)
    }

    /// The number of refused calls of [`Self::take`].
    #[must_use]
    pub fn refusals(&self) -> usize {
        self.0.refusals.load(Ordering::Relaxed)
    }

    /// Takes `bytes`, all or none.
    ///
    /// # Errors
    /// [`BudgetError::Server`] if fewer are left.
    pub fn take(&self, bytes: usize) -> Result<(), BudgetError> {
        if self.try_take(bytes) {
            return Ok(());
        }
        self.0.refusals.fetch_add(1, Ordering::Relaxed);
        Err(BudgetError::Server { bytes_max: self.0.bytes_max })
    }

    /// Takes `bytes` like [`Self::take`], but does not count a refusal. False if fewer are left.
    pub(crate) fn try_take(&self, bytes: usize) -> bool {
        let with = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.0.bytes_max);
        self.0.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with).is_ok()
    }

    /// Gives back `bytes` that were taken.
    pub fn give_back(&self, bytes: usize) {
        let before = self.0.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "more was given back than was taken");
    }
}

/// The error of a refused allocation: the limit that would be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetError {
    /// The limit of the share.
    Share {
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// The limit of all holders together; a later attempt may succeed.
    Server {
        /// The limit in bytes.
        bytes_max: usize,
    },
}

impl fmt::Display for BudgetError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BudgetError::Share { bytes_max } => {
                write!(formatter, "more than {bytes_max} bytes of memory would be used")
            }
            BudgetError::Server { bytes_max } => write!(
                formatter,
                "all requests together would use more than the server's {bytes_max} bytes of memory"
            ),
        }
    }
}

impl std::error::Error for BudgetError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_taken_or_none() {
        let budget = Budget::new(10);
        budget.take(7).unwrap();
        assert_eq!(budget.take(4), Err(BudgetError::Server { bytes_max: 10 }));
        assert_eq!(budget.take(usize::MAX), Err(BudgetError::Server { bytes_max: 10 }));
        assert_eq!((budget.used_bytes(), budget.refusals()), (7, 2));
        budget.give_back(7);
        budget.take(10).unwrap();
    }

    #[test]
    fn concurrent_threads_never_exceed_the_limit() {
        let budget = Budget::new(1000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        if budget.take(300).is_ok() {
                            assert!(budget.used_bytes() <= 1000);
                            budget.give_back(300);
                        }
                    }
                });
            }
        });
        assert_eq!(budget.used_bytes(), 0);
    }
}

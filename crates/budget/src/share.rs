//! A request's share of a budget.

use crate::{Budget, BudgetError};

/// The bytes that a share takes from its budget at a time, so that not every row costs an atomic
/// operation on a counter of the whole server.
pub const LEASE_BYTES: usize = 64 * 1024;

/// The bytes that one request holds. Dropping the share gives them back to the budget.
#[derive(Debug)]
pub struct Share {
    budget: Budget,
    bytes_max: usize,
    held_bytes: usize,
    /// The bytes taken from the budget: `held_bytes`, and the rest of a lease.
    leased_bytes: usize,
    peak_bytes: usize,
}

impl Budget {
    /// A share of at most `bytes_max` bytes, which holds nothing yet.
    #[must_use]
    pub fn share(&self, bytes_max: usize) -> Share {
        let budget = self.clone();
        Share { budget, bytes_max, held_bytes: 0, leased_bytes: 0, peak_bytes: 0 }
    }
}

impl Share {
    /// Takes `bytes`, all or none. Call it before they are allocated.
    ///
    /// # Errors
    /// An [`BudgetError`] with the limit that would be exceeded.
    pub fn take(&mut self, bytes: usize) -> Result<(), BudgetError> {
        let over = BudgetError::Share { bytes_max: self.bytes_max };
        let held = self.held_bytes.checked_add(bytes).ok_or(over)?;
        if held > self.bytes_max {
            return Err(over);
        }
        if held > self.leased_bytes {
            self.lease(held - self.leased_bytes)?;
        }
        self.held_bytes = held;
        self.peak_bytes = self.peak_bytes.max(held);
        Ok(())
    }

    /// Takes `bytes` from the budget, rounded up to leases; exactly `bytes` if only those are left.
    fn lease(&mut self, bytes: usize) -> Result<(), BudgetError> {
        let lease = bytes.checked_next_multiple_of(LEASE_BYTES).unwrap_or(bytes);
        if self.budget.try_take(lease) {
            self.leased_bytes += lease;
        } else {
            self.budget.take(bytes)?;
            self.leased_bytes += bytes;
        }
        Ok(())
    }

    /// Gives back `bytes`, or all held bytes if there are fewer.
    pub fn give_back(&mut self, bytes: usize) {
        self.held_bytes = self.held_bytes.saturating_sub(bytes);
        let spare = self.leased_bytes - self.held_bytes;
        // Up to two leases stay with the share, so that taking and giving back a row is cheap.
        if spare > 2 * LEASE_BYTES {
            let excess = spare - LEASE_BYTES;
            self.budget.give_back(excess);
            self.leased_bytes -= excess;
        }
    }

    /// The bytes that the share holds.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The most bytes that the share held at a time.
    #[must_use]
    pub fn peak_bytes(&self) -> usize {
        self.peak_bytes
    }

    /// The limit of this share in bytes.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.give_back(self.leased_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_its_own_limit_and_that_of_the_budget() {
        let budget = Budget::new(3 * LEASE_BYTES);
        let mut first = budget.share(2 * LEASE_BYTES);
        let over = Err(BudgetError::Share { bytes_max: 2 * LEASE_BYTES });
        assert_eq!(first.take(2 * LEASE_BYTES + 1), over);
        assert_eq!(first.take(usize::MAX), over);
        first.take(2 * LEASE_BYTES).unwrap();
        let mut second = budget.share(usize::MAX);
        second.take(LEASE_BYTES - 1).unwrap();
        second.take(1).unwrap();
        let over = BudgetError::Server { bytes_max: 3 * LEASE_BYTES };
        assert_eq!(second.take(1), Err(over));
        drop(first);
        second.take(1).unwrap();
        assert_eq!((second.held_bytes(), second.peak_bytes()), (LEASE_BYTES + 1, LEASE_BYTES + 1));
    }

    /// Near its end, a budget cannot give a full lease.
    #[test]
    fn the_last_bytes_of_a_budget_can_be_taken() {
        let budget = Budget::new(LEASE_BYTES + 10);
        let mut share = budget.share(usize::MAX);
        share.take(LEASE_BYTES).unwrap();
        share.take(10).unwrap();
        assert!(share.take(1).is_err());
        drop(share);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn given_back_bytes_return_to_the_budget() {
        let budget = Budget::new(10 * LEASE_BYTES);
        let mut share = budget.share(usize::MAX);
        share.take(9 * LEASE_BYTES).unwrap();
        share.give_back(9 * LEASE_BYTES);
        assert_eq!(share.held_bytes(), 0);
        assert!(budget.used_bytes() <= 2 * LEASE_BYTES, "{}", budget.used_bytes());
        share.give_back(1);
        assert_eq!(share.held_bytes(), 0);
    }
}

//! Memory budgets, one for each account, for request bodies that are being received.

use std::collections::HashMap;

use pellucid_budget::Budget;
use pellucid_thread::Mutex;

use crate::access::{ACCOUNTS_MAX, Identity};

/// The memory budgets of all accounts that have sent bodies.
pub(crate) struct BodyBudgets {
    account_bytes_max: usize,
    by_name: Mutex<HashMap<String, Budget>>,
}

impl BodyBudgets {
    /// Creates an empty set whose budgets have `account_bytes_max` bytes each.
    pub(crate) fn new(account_bytes_max: usize) -> BodyBudgets {
        BodyBudgets { account_bytes_max, by_name: Mutex::default() }
    }

    /// The budget of an account; `None` if the caller has no account.
    pub(super) fn of(&self, identity: &Identity) -> Option<Budget> {
        let name = identity.name()?;
        let mut by_name = self.by_name.lock();
        if let Some(budget) = by_name.get(name) {
            return Some(budget.clone());
        }
        if by_name.len() >= ACCOUNTS_MAX {
            // Accounts are made and removed over time: forget the budgets that are not in use.
            by_name.retain(|_, budget| budget.used_bytes() > 0);
        }
        let budget = Budget::new(self.account_bytes_max);
        by_name.insert(name.to_owned(), budget.clone());
        Some(budget)
    }
}

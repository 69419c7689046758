//! Whose request it is.

use std::sync::Arc;

use crate::access::record::AccountRecord;
use crate::access::rights::{Right, Scope};

/// Whose request it is. Cheap to clone: it is passed along with requests.
#[derive(Clone, Default)]
pub enum Identity {
    /// Nobody: what is open to everybody.
    #[default]
    Nobody,
    /// Anybody, because the server asks nobody for credentials: everything is allowed.
    Anybody,
    /// Whoever knows the server's secret: everything is allowed.
    Superuser,
    /// An account: what its grants allow.
    Account(Arc<AccountRecord>),
}

impl Identity {
    /// What it may do with `scope`.
    #[must_use]
    pub fn right(&self, scope: Scope<'_>) -> Right {
        match self {
            Identity::Nobody => Right::None,
            Identity::Anybody | Identity::Superuser => Right::Write,
            Identity::Account(record) => record.right(scope),
        }
    }

    /// Whether it may do at least as much as `needed` with `scope`.
    #[must_use]
    pub fn may(&self, scope: Scope<'_>, needed: Right) -> bool {
        self.right(scope) >= needed
    }

    /// The name of the account, if it is one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Identity::Account(record) => Some(&record.name),
            Identity::Nobody | Identity::Anybody | Identity::Superuser => None,
        }
    }
}

//! Callers of requests.

use std::sync::Arc;

use crate::access::record::AccountRecord;
use crate::access::rights::{Right, Scope};

/// The proof by which an account was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// By its password.
    Password,
    /// By the token of this number, which may have been lent, or found somewhere.
    Token(u64),
    /// By a web token, until this time in seconds since the Unix epoch.
    WebToken(u64),
}

/// The caller of a request. Cheap to clone: it is passed along with requests.
#[derive(Clone, Default)]
pub enum Identity {
    /// Nobody: what is open to everybody.
    #[default]
    Nobody,
    /// Anybody, because the server asks nobody for credentials: everything is allowed.
    Anybody,
    /// A holder of the server's secret: everything is allowed.
    Superuser,
    /// An account: what its grants allow.
    Account(Arc<AccountRecord>, Proof),
}

impl Identity {
    /// Its right to `scope`.
    #[must_use]
    pub fn right(&self, scope: Scope<'_>) -> Right {
        match self {
            Identity::Nobody => Right::None,
            Identity::Anybody | Identity::Superuser => Right::Write,
            Identity::Account(record, _) => record.right(scope),
        }
    }

    /// Its right to `scope` is at least `needed`.
    #[must_use]
    pub fn may(&self, scope: Scope<'_>, needed: Right) -> bool {
        self.right(scope) >= needed
    }

    /// The name of the account, if it is one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Identity::Account(record, _) => Some(&record.name),
            Identity::Nobody | Identity::Anybody | Identity::Superuser => None,
        }
    }

    /// It may set passwords, its own or another's: a token that somebody got for a day
    /// must not become a password for ever.
    #[must_use]
    pub fn may_set_passwords(&self) -> bool {
        match self {
            Identity::Anybody | Identity::Superuser | Identity::Account(_, Proof::Password) => true,
            Identity::Nobody | Identity::Account(_, Proof::Token(_) | Proof::WebToken(_)) => false,
        }
    }
}

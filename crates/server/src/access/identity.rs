//! Callers of requests.

use std::sync::Arc;

use crate::access::record::AccountRecord;
use crate::access::rights::{Right, Scope};

/// The proof by which an account was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The password of the account.
    Password,
    /// The access token with this number. Its holder need not be the owner of the account.
    Token(u64),
    /// A web token.
    WebToken(WebToken),
}

/// The part of a web token that decides whether it is still accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WebToken {
    /// The time until which it is valid, in seconds since the Unix epoch.
    pub(crate) until: u64,
    /// The number of the secret that signed it. Each new secret has another one.
    pub(crate) secret: u64,
}

/// The caller of a request. It is cheap to clone, because it is passed along with requests.
#[derive(Clone, Default)]
pub(crate) enum Identity {
    /// A caller without credentials, on a server that needs them. It may only use open routes.
    #[default]
    Nobody,
    /// Any caller of a server that needs no credentials. It may do everything.
    Anybody,
    /// A holder of the server's secret, with the web token that shows it. It may do everything.
    Superuser(WebToken),
    /// An account, with the proof that it showed. It may do what its grants allow.
    Account(Arc<AccountRecord>, Proof),
}

impl Identity {
    /// The right of the caller to `scope`.
    pub(crate) fn right(&self, scope: Scope<'_>) -> Right {
        match self {
            Identity::Nobody => Right::None,
            Identity::Anybody | Identity::Superuser(_) => Right::Write,
            Identity::Account(record, _) => record.right(scope),
        }
    }

    /// Returns true if the right to `scope` is at least `needed`.
    pub(crate) fn may(&self, scope: Scope<'_>, needed: Right) -> bool {
        self.right(scope) >= needed
    }

    /// The name of the account, if the caller has one.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Identity::Account(record, _) => Some(&record.name),
            Identity::Nobody | Identity::Anybody | Identity::Superuser(_) => None,
        }
    }

    /// Returns true if the caller may set passwords, of its own account or of others. Holders of
    /// tokens may not: otherwise a token that is valid for a day could be turned into a password
    /// that is valid for ever.
    pub(crate) fn may_set_passwords(&self) -> bool {
        match self {
            Identity::Anybody | Identity::Superuser(_) | Identity::Account(_, Proof::Password) => {
                true
            }
            Identity::Nobody | Identity::Account(_, Proof::Token(_) | Proof::WebToken(_)) => false,
        }
    }
}

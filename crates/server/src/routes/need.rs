//! The right that a route needs.

use std::fmt;

use crate::access::{Identity, Right, Scope};
use crate::entities::table_name;
use crate::names::ENTITIES;

/// The right that a caller needs for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// No right and no account.
    Open,
    /// The secret of the cluster, which the handler checks itself.
    Peer,
    /// An account with any rights or none.
    Account,
    /// A right to the table of entities that the query names.
    Entities(Right),
    /// A right to the server itself.
    Server(Right),
    /// A right to the server itself, unless the path names the caller's own account.
    OwnAccount(Right),
    /// A right to the database that the path names.
    Database(Right),
    /// A right to the collection that the request names.
    Collection(Right),
}

impl Need {
    /// Returns true if the gate does not check credentials.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Need::Open | Need::Peer)
    }

    /// Checks the right as far as possible without looking anything up: false if `identity`
    /// certainly lacks it. Rights to databases, collections and accounts are checked later, when
    /// these objects have been found.
    pub(crate) fn lets_in(self, identity: &Identity, query: Option<&str>) -> bool {
        match self {
            Need::Entities(right) => match table_name(query) {
                Ok(name) => identity.may(Scope::Table(&name), right),
                // An invalid name is refused later; until then, the default table's right counts.
                Err(_) => identity.may(Scope::Table(ENTITIES), right),
            },
            Need::Server(right) => identity.may(Scope::Admin, right),
            Need::Open
            | Need::Peer
            | Need::Account
            | Need::OwnAccount(_)
            | Need::Database(_)
            | Need::Collection(_) => true,
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Need::Open => f.write_str("open"),
            Need::Peer => f.write_str("peer"),
            Need::Account => f.write_str("account"),
            Need::Entities(right) => write!(f, "entities:{right}"),
            Need::Server(right) => write!(f, "server:{right}"),
            Need::OwnAccount(right) => write!(f, "own account:{right}"),
            Need::Database(right) => write!(f, "database:{right}"),
            Need::Collection(right) => write!(f, "collection:{right}"),
        }
    }
}

//! The right that a route needs.

use std::fmt;

use crate::access::{Identity, Right, Scope};
use crate::entities::table_name;
use crate::names::ENTITIES;

/// The right that a caller needs for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequiredRight {
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

impl RequiredRight {
    /// Returns true if the gate does not check credentials.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, RequiredRight::Open | RequiredRight::Peer)
    }

    /// Checks the right as far as possible without looking anything up: false if `identity`
    /// certainly lacks it. Rights to databases, collections and accounts are checked later, when
    /// these objects have been found.
    pub(crate) fn lets_in(self, identity: &Identity, query: Option<&str>) -> bool {
        match self {
            RequiredRight::Entities(right) => match table_name(query) {
                Ok(name) => identity.may(Scope::Table(&name), right),
                // An invalid name is refused later; until then, the default table's right counts.
                Err(_) => identity.may(Scope::Table(ENTITIES), right),
            },
            RequiredRight::Server(right) => identity.may(Scope::Admin, right),
            RequiredRight::Open
            | RequiredRight::Peer
            | RequiredRight::Account
            | RequiredRight::OwnAccount(_)
            | RequiredRight::Database(_)
            | RequiredRight::Collection(_) => true,
        }
    }
}

impl fmt::Display for RequiredRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequiredRight::Open => f.write_str("open"),
            RequiredRight::Peer => f.write_str("peer"),
            RequiredRight::Account => f.write_str("account"),
            RequiredRight::Entities(right) => write!(f, "entities:{right}"),
            RequiredRight::Server(right) => write!(f, "server:{right}"),
            RequiredRight::OwnAccount(right) => write!(f, "own account:{right}"),
            RequiredRight::Database(right) => write!(f, "database:{right}"),
            RequiredRight::Collection(right) => write!(f, "collection:{right}"),
        }
    }
}

//! The right that a route needs.

use std::fmt;

use crate::access::{Identity, Right, Scope};
use crate::entities::table_name;
use crate::names::ENTITIES;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// None: anybody may ask.
    Open,
    /// The secret of the cluster, which its handler asks for.
    Peer,
    /// An account, whatever its rights.
    Account,
    /// A right to the table of entities that the query names.
    Entities(Right),
    /// A right to the server itself.
    Server(Right),
    /// A right to the server itself, or that the account is the caller's own.
    OwnAccount(Right),
    /// A right to the database that the path names.
    Database(Right),
    /// A right to the collection that is found.
    Collection(Right),
}

impl Need {
    /// Credentials are not looked at.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Need::Open | Need::Peer)
    }

    /// `identity`, which is known, may go on as far as can be said before anything is looked up:
    /// rights to the objects of a path are judged once they are found.
    pub(crate) fn lets_in(self, identity: &Identity, query: Option<&str>) -> bool {
        match self {
            Need::Entities(right) => match table_name(query) {
                Ok(name) => identity.may(Scope::Table(&name), right),
                // A name that is none stands for the usual table until it is refused.
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

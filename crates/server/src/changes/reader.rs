//! Checks the right of a stream's caller before each piece. A stream may last for days, and the
//! account may lose its rights meanwhile.

use std::sync::Arc;

use pellucid_clock::WallTime;
use pellucid_document::Collection;

use crate::access::{Accounts, Identity, Right, Scope};

/// The object of a stream, in the form in which rights are granted.
pub(crate) enum Subject {
    /// The table of entities with this name.
    Table(String),
    /// A collection of the database with this name. The collection's present name counts.
    Collection(String, Arc<Collection>),
}

/// The caller of a stream, and the object that it reads.
pub(crate) struct Reader {
    accounts: Arc<Accounts>,
    caller: Identity,
    subject: Subject,
}

impl Reader {
    pub(super) fn new(accounts: Arc<Accounts>, caller: Identity, subject: Subject) -> Reader {
        Reader { accounts, caller, subject }
    }

    /// Returns true if the caller may still read the object.
    pub(super) fn may_read(&self) -> bool {
        let now_seconds = WallTime::now().unix_ms() / 1_000;
        self.accounts.again(&self.caller, now_seconds).is_some_and(|caller| match &self.subject {
            Subject::Table(name) => caller.may(Scope::Table(name), Right::Read),
            Subject::Collection(database, collection) => {
                let name = &collection.shape().definition.name;
                caller.may(Scope::Collection(database, name), Right::Read)
            }
        })
    }
}

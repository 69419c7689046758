//! The reader of a stream of changes: a stream may last for days, in which accounts lose their
//! rights, so that each piece is judged anew.

use std::sync::Arc;

use pellucid_clock::WallTime;
use pellucid_document::Collection;

use crate::access::{Accounts, Identity, Right, Scope};

/// The subject of a stream, by the names that rights are given for.
pub(crate) enum Subject {
    /// A table of entities.
    Table(String),
    /// A collection, by the name that it has now, of a database.
    Collection(String, Arc<Collection>),
}

/// See the module.
pub(crate) struct Reader {
    accounts: Arc<Accounts>,
    caller: Identity,
    subject: Subject,
}

impl Reader {
    pub(super) fn new(accounts: Arc<Accounts>, caller: Identity, subject: Subject) -> Reader {
        Reader { accounts, caller, subject }
    }

    /// The caller may still read the subject.
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

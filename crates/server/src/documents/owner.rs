//! Ownership of queries and of their cursors.

use crate::access::{Identity, Right, Scope};

/// The identity that a query or a cursor belongs to.
///
/// As in ArangoDB, only the owner and the superuser can read a cursor; for others it does not
/// exist. Administrators can see and kill all queries, and remove cursors.
#[derive(Clone)]
pub(crate) struct Owner(Identity);

impl Owner {
    /// The owner of a query that `caller` begins.
    pub(crate) fn of(caller: &Identity) -> Owner {
        Owner(caller.clone())
    }

    /// True if `caller` is the owner or the superuser.
    pub(crate) fn is(&self, caller: &Identity) -> bool {
        match (&self.0, caller) {
            (_, Identity::Superuser(_)) | (Identity::Anybody, Identity::Anybody) => true,
            (Identity::Account(own, _), Identity::Account(other, _)) => {
                own.is_same_account_as(other)
            }
            _ => false,
        }
    }

    /// True if `caller` may see the query's text: the owner and administrators may.
    pub(crate) fn shows_to(&self, caller: &Identity) -> bool {
        self.is(caller) || caller.may(Scope::Admin, Right::Read)
    }

    /// True if `caller` may kill the query or remove the cursor: the owner and administrators with
    /// the right to write may.
    pub(crate) fn yields_to(&self, caller: &Identity) -> bool {
        self.is(caller) || caller.may(Scope::Admin, Right::Write)
    }

    /// The name of the account; `None` if the owner has no account.
    pub(crate) fn account(&self) -> Option<&str> {
        self.0.name()
    }

    /// The name in lists. As in ArangoDB, it is `root` on a server without accounts.
    pub(crate) fn name(&self) -> &str {
        match &self.0 {
            Identity::Anybody => "root",
            other => other.name().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::access::{AccountRecord, Proof, WebToken};

    fn account(name: &str, grants: &[(&str, Right)]) -> Identity {
        let mut record = AccountRecord::new(name).unwrap();
        for (scope, right) in grants {
            record.grants.set(scope, *right).unwrap();
        }
        Identity::Account(Arc::new(record), Proof::Password)
    }

    #[test]
    fn only_owners_and_administrators_are_let_in() {
        let all = [("*", Right::Write)];
        let (ann, ben) = (account("ann", &all), account("ben", &all));
        let watcher = account("watcher", &[("admin", Right::Read)]);
        let root = account("root", &[("admin", Right::Write)]);
        let superuser = Identity::Superuser(WebToken { until: u64::MAX, secret: 0 });
        let owner = Owner::of(&ann);
        for (caller, is, shows, yields) in [
            (&ann, true, true, true),
            (&ben, false, false, false),
            (&watcher, false, true, false),
            (&root, false, true, true),
            (&superuser, true, true, true),
            (&Identity::Nobody, false, false, false),
        ] {
            assert_eq!(owner.is(caller), is);
            assert_eq!((owner.shows_to(caller), owner.yields_to(caller)), (shows, yields));
        }
        let everybody = Owner::of(&Identity::Anybody);
        assert!(everybody.is(&Identity::Anybody) && !everybody.is(&ann));
        assert!(!Owner::of(&superuser).is(&ann));
        assert!(!Owner::of(&Identity::Nobody).is(&Identity::Nobody));
    }
}

//! Accounts for tests of rights.

use std::path::Path;

use pellucid_server::access::{AccountFile, AccountRecord, Right};

use super::{TestServer, basic, wait_until};

/// An account without a password.
pub(crate) fn account_of(name: &str, grants: &[(&str, Right)]) -> AccountRecord {
    let mut account = AccountRecord::new(name).unwrap();
    for (scope, right) in grants {
        account.grants.set(scope, *right).unwrap();
    }
    account
}

/// Adds an account to those of the server at this folder; returns a token for it.
pub(crate) fn enter(data: &Path, mut account: AccountRecord) -> String {
    let (_, token) = account.add_token("test", None, 0).unwrap();
    AccountFile::new(data).change(|list| list.add(account)).unwrap();
    token
}

/// Adds an account whose password is its name; returns a token for it.
pub(crate) fn add_account(data: &Path, name: &str, grants: &[(&str, Right)]) -> String {
    let mut account = account_of(name, grants);
    account.set_password(name).unwrap();
    enter(data, account)
}

/// Takes the right to `scope` from an account, and waits until the server refuses the account
/// `target`.
pub(crate) fn take_right(server: &TestServer, name: &str, scope: &str, target: &str) {
    let changed = AccountFile::new(server.folder()).change(|list| {
        list.account(name)?.grants.set(scope, Right::None).unwrap();
        Ok(())
    });
    changed.unwrap();
    let (mut client, headers) = (server.client(), [("Authorization", &*basic(name, name))]);
    let status = || client.call("GET", target, &headers, "").status;
    wait_until(status, |status| *status == 403);
}

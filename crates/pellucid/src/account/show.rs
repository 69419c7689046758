//! Prints accounts and tokens, without their secrets.

use pellucid_clock::WallTime;
use pellucid_server::access::{AccountList, AccountRecord};
use serde_json::{Value, json};

use crate::Failure;

/// Prints all accounts.
pub(crate) fn accounts(list: &AccountList, as_json: bool) -> Result<(), Failure> {
    if as_json {
        let accounts: Vec<Value> = list.accounts().iter().map(account).collect();
        print_line!("{}", json!({ "schema": "pellucid.accounts.v1", "accounts": accounts }));
        return Ok(());
    }
    for account in list.accounts() {
        let grants: Vec<String> =
            account.grants.iter().map(|(scope, right)| format!("{scope}={right}")).collect();
        let mut remarks = Vec::new();
        if !account.active {
            remarks.push("disabled".to_owned());
        }
        if !account.has_password() {
            remarks.push("no password".to_owned());
        }
        if !account.tokens().is_empty() {
            remarks.push(format!("{} tokens", account.tokens().len()));
        }
        print_line!("{:<20} {:<40} {}", account.name, grants.join(" "), remarks.join(", "));
    }
    Ok(())
}

fn account(account: &AccountRecord) -> Value {
    json!({
        "name": account.name,
        "active": account.active,
        "has_password": account.has_password(),
        "tokens": account.tokens().len(),
        "grants": account.grants,
    })
}

/// Prints the tokens of an account.
pub(crate) fn tokens(account: &AccountRecord) -> Result<(), Failure> {
    for token in account.tokens() {
        let until = token.valid_until.map_or("never".to_owned(), |until| {
            let date = WallTime::from_unix_ms(until * 1_000).http_date();
            String::from_utf8_lossy(date.as_bytes()).into_owned()
        });
        print_line!("{:<6} {:<24} {:<16} ends {until}", token.id, token.name, token.fingerprint);
    }
    Ok(())
}

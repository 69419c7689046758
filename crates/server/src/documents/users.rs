//! Handlers of `/_api/user` and `/_open/auth`, which show accounts as ArangoDB's users.

use pellucid_clock::WallTime;
use pellucid_document::{DocumentError, ErrorNumber};
use serde_json::{Map, Value, json};

use super::call::{Call, bad_parameter};
use super::completion::ReplyResult;
use super::reply::success;
use crate::access::{AccessError, AccountRecord, Accounts, Identity, Right, Scope};
use crate::reply::Reply;
use crate::routes::Method;

/// A request for a token.
pub(super) enum LoginRequest {
    /// The reply to a request that needs no verification of a password.
    Granted(Reply),
    /// The password has to be verified.
    Claimed { name: String, password: String },
}

/// Answers a call to `/_api/user…`. It may block.
pub(super) fn answer(accounts: &Accounts, call: &Call<'_>, caller: &Identity) -> ReplyResult {
    let changes = call.method != Method::Get;
    if changes && !accounts.is_enforced() {
        // With the first account, credentials become required, and the caller has none.
        let message = "this server asks nobody for credentials: make the first account with \
                       `pellucid account`";
        return Err(DocumentError::new(ErrorNumber::FORBIDDEN, message));
    }
    match (call.method, call.part("{user}")) {
        (Method::Get, None) => {
            let users: Vec<_> = accounts.list().iter().map(|user| show(user)).collect();
            Ok(success(200, json!({ "result": users })))
        }
        (Method::Post, None) => {
            let body = call.object()?;
            let name = body.get("user").or_else(|| body.get("username"));
            let name = name.and_then(Value::as_str).unwrap_or("");
            make_account(accounts, name, &body, None).map_err(problem)?;
            Ok(success(201, show_account(accounts, name)?))
        }
        (Method::Get, Some(name)) => Ok(success(200, show_account(accounts, name)?)),
        (Method::Put | Method::Patch, Some(name)) => {
            let replaces = call.method == Method::Put;
            if replaces && call.body.trim_ascii().is_empty() {
                return Err(bad_parameter(
                    "the account that takes the place of this one is missing",
                ));
            }
            let body = call.object()?;
            // A replacement without a password removes the password that the account has.
            if (replaces || password_in(&body).map_err(problem)?.is_some())
                && !caller.may_set_passwords()
            {
                let message = "a token does not set passwords: log in with name and password \
                               (Basic)";
                return Err(DocumentError::new(ErrorNumber::FORBIDDEN, message));
            }
            let changed = accounts.change(|list| set(list.account(name)?, &body, replaces));
            changed.map_err(problem)?;
            Ok(success(200, show_account(accounts, name)?))
        }
        (Method::Delete, Some(name)) => {
            accounts.change(|list| list.remove(name)).map_err(problem)?;
            Ok(success(202, json!({})))
        }
        _ => Err(ErrorNumber::HTTP_METHOD_NOT_ALLOWED.into()),
    }
}

/// Parses a call to `/_open/auth…`.
pub(super) fn log_in(accounts: &Accounts, call: &Call<'_>) -> Result<LoginRequest, DocumentError> {
    if call.segment(2) == Some("renew") {
        return Ok(LoginRequest::Granted(Reply::value(200, &json!({}))));
    }
    let bad = || DocumentError::from(ErrorNumber::HTTP_BAD_PARAMETER);
    let body: Value = serde_json::from_slice(&call.body).map_err(|_| bad())?;
    let name = body["username"].as_str().ok_or_else(bad)?;
    let password = body["password"].as_str().ok_or_else(bad)?;
    // If no credentials are required, accept the default credentials of drivers.
    if !accounts.is_enforced() && name == "root" && password.is_empty() {
        return Ok(LoginRequest::Granted(token_reply(accounts, name, true)));
    }
    Ok(LoginRequest::Claimed { name: name.to_owned(), password: password.to_owned() })
}

/// The reply to a log-in: a token, or an error if `is_right` is false.
pub(super) fn token_reply(accounts: &Accounts, name: &str, is_right: bool) -> Reply {
    if !is_right {
        let message = "Wrong credentials";
        return DocumentError::new(ErrorNumber::HTTP_UNAUTHORIZED, message).into();
    }
    let token = accounts.sign(name, WallTime::now().unix_ms() / 1_000);
    Reply::value(200, &json!({ "jwt": token }))
}

/// Returns the accounts in the body of a new database that lack the right to write to it, after
/// checking, before it is created, that they are valid and that the caller may give it. None if no
/// credentials are required: with the first account they would be, and the caller has none.
pub(super) fn check_users<'b>(
    body: &'b Map<String, Value>,
    database: &str,
    accounts: &Accounts,
    caller: &Identity,
) -> Result<Vec<NamedUser<'b>>, DocumentError> {
    let mut users = users_in(body)?;
    for (_, user) in &users {
        password_in(user).and_then(|_| active_in(user)).map_err(problem)?;
    }
    if !accounts.is_enforced() {
        return Ok(Vec::new());
    }
    users.retain(|(name, _)| lacks_right(accounts, name, database));
    if !users.is_empty() && !caller.may_set_passwords() {
        let message = "a token gives no rights to accounts: log in with name and password (Basic)";
        return Err(DocumentError::new(ErrorNumber::FORBIDDEN, message));
    }
    Ok(users)
}

/// True if there is no such account, or it may not write to the database.
fn lacks_right(accounts: &Accounts, name: &str, database: &str) -> bool {
    let scope = Scope::Database(database);
    accounts.account(name).is_none_or(|account| account.right(scope) < Right::Write)
}

/// An account in a body.
pub(super) type NamedUser<'b> = (&'b str, &'b Map<String, Value>);

/// The accounts in a body, with their names.
fn users_in(body: &Map<String, Value>) -> Result<Vec<NamedUser<'_>>, DocumentError> {
    let wrong = || bad_parameter("`users` is an array of objects, each with its `username`");
    let users = match given(body, "users") {
        None => return Ok(Vec::new()),
        Some(users) => users.as_array().ok_or_else(wrong)?,
    };
    let named = users.iter().map(|user| {
        let user = user.as_object()?;
        let name = user.get("username").or_else(|| user.get("user"))?;
        Some((name.as_str()?, user))
    });
    named.map(|user| user.ok_or_else(wrong)).collect()
}

/// Gives accounts the right to write to a new database, and creates those that do not exist.
///
/// # Errors
/// The first error other than an invalid name. The other accounts get the right all the same.
pub(super) fn make_users(
    accounts: &Accounts,
    database: &str,
    users: Vec<NamedUser<'_>>,
) -> Result<(), DocumentError> {
    let mut failure = None;
    for (name, user) in users {
        // First, because the other fields do not count for an account that exists.
        let made = match accounts.change(|list| grant(list.account(name)?, database)) {
            Err(AccessError::Missing(_)) => make_account(accounts, name, user, Some(database)),
            made => made,
        };
        match made {
            // An invalid name does not fail the call.
            Ok(()) | Err(AccessError::BadName(_)) => {}
            Err(error) => failure = failure.or(Some(problem(error))),
        }
    }
    failure.map_or(Ok(()), Err)
}

fn make_account(
    accounts: &Accounts,
    name: &str,
    body: &Map<String, Value>,
    database: Option<&str>,
) -> Result<(), AccessError> {
    let mut record = AccountRecord::new(name)?;
    set(&mut record, body, true)?;
    if let Some(database) = database {
        grant(&mut record, database)?;
    }
    accounts.change(|list| list.add(record))
}

/// Removes all grants for a database that is gone, so that they are none for a later one of its
/// name.
///
/// # Errors
/// If the accounts cannot be read or changed.
pub(super) fn remove_grants(accounts: &Accounts, database: &str) -> Result<(), DocumentError> {
    accounts.refresh().map_err(problem)?;
    let has_grants = accounts.list().iter().any(|account| account.grants.has_of_database(database));
    // In grants, an asterisk stands for all databases, which are not gone.
    if database == "*" || !has_grants {
        return Ok(());
    }
    let removed = accounts.change(|list| {
        list.all().for_each(|account| account.grants.unset_database(database));
        Ok(())
    });
    removed.map_err(problem)
}

/// Gives an account the right to write to a database.
fn grant(account: &mut AccountRecord, database: &str) -> Result<(), AccessError> {
    let scope = format!("database/{database}");
    account.grants.set(&scope, Right::Write).map_err(AccessError::Unacceptable)
}

fn show_account(accounts: &Accounts, name: &str) -> Result<Value, DocumentError> {
    let account = accounts.account(name).ok_or(ErrorNumber::USER_NOT_FOUND)?;
    Ok(show(&account))
}

fn show(account: &AccountRecord) -> Value {
    json!({ "user": account.name, "active": account.active, "extra": account.extra() })
}

/// The field of this name, unless it is missing or null.
fn given<'b>(body: &'b Map<String, Value>, field: &str) -> Option<&'b Value> {
    body.get(field).filter(|value| !value.is_null())
}

/// The password of a body, if it has one.
///
/// # Errors
/// If it is no string.
fn password_in(body: &Map<String, Value>) -> Result<Option<&str>, AccessError> {
    match given(body, "passwd").or_else(|| given(body, "password")) {
        None => Ok(None),
        Some(Value::String(password)) => Ok(Some(password)),
        Some(_) => Err(AccessError::Unacceptable("a password is a text".to_owned())),
    }
}

fn active_in(body: &Map<String, Value>) -> Result<Option<bool>, AccessError> {
    match given(body, "active") {
        None => Ok(None),
        Some(Value::Bool(active)) => Ok(Some(*active)),
        Some(_) => Err(AccessError::Unacceptable("`active` is true or false".to_owned())),
    }
}

/// Sets the fields of an account that are in the body. If `replaces`, the others get their
/// defaults.
fn set(
    account: &mut AccountRecord,
    body: &Map<String, Value>,
    replaces: bool,
) -> Result<(), AccessError> {
    let active = active_in(body)?;
    match password_in(body)? {
        Some(password) => account.set_password(password)?,
        // An empty password would let everybody in, so the account gets none.
        None if replaces => account.remove_password(),
        None => {}
    }
    match active {
        Some(active) => account.active = active,
        None if replaces => account.active = true,
        None => {}
    }
    match given(body, "extra") {
        Some(Value::Object(extra)) => account.set_extra(extra.clone())?,
        Some(_) => return Err(AccessError::Unacceptable("`extra` is an object".to_owned())),
        None if replaces => account.set_extra(Map::new())?,
        None => {}
    }
    Ok(())
}

fn problem(error: AccessError) -> DocumentError {
    let number = match &error {
        AccessError::BadName(_) => ErrorNumber::USER_INVALID_NAME,
        AccessError::Exists(_) => ErrorNumber::USER_DUPLICATE,
        AccessError::Missing(_) => ErrorNumber::USER_NOT_FOUND,
        AccessError::Unacceptable(_) => ErrorNumber::BAD_PARAMETER,
        AccessError::File(..)
        | AccessError::Malformed(..)
        | AccessError::Exposed(..)
        | AccessError::Randomness(_) => ErrorNumber::INTERNAL,
    };
    DocumentError::new(number, error.to_string())
}

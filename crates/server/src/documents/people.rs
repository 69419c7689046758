//! `/_api/user` and `/_open/auth`: the accounts, as the drivers know them.

use pellucid_clock::WallTime;
use pellucid_document::{DocumentError, ErrorNumber};
use serde_json::{Map, Value, json};

use crate::access::{AccessError, AccountRecord, Identity, Right};

use super::api::DocumentApi;
use super::call::{Call, Method};
use super::reply::Reply;

type Answer = Result<Reply, DocumentError>;

/// What a log-in needs.
pub(crate) enum LogIn {
    /// Nothing more.
    Answered(Reply),
    /// Its password has to be verified.
    Asked { name: String, password: String },
}

impl DocumentApi {
    /// Answers a call to `/_api/user…`. For threads that may block.
    pub(crate) fn user_call(&self, call: &Call<'_>, caller: &Identity) -> Answer {
        let changes = call.method != Method::Get;
        if changes && !self.accounts.is_enforced() {
            // The first account would lock out who made it.
            let message = "this server asks nobody for credentials: make the first account with \
                           `pellucid account`";
            return Err(DocumentError::new(ErrorNumber::FORBIDDEN, message));
        }
        match (call.method, call.part("{user}")) {
            (Method::Get, None) => {
                let users: Vec<_> = self.accounts.list().iter().map(|user| show(user)).collect();
                Ok(Reply::success(200, json!({ "result": users })))
            }
            (Method::Post, None) => {
                let body = call.object()?;
                let name = body.get("user").or_else(|| body.get("username"));
                let name = name.and_then(Value::as_str).unwrap_or("");
                self.make_account(name, &body, None).map_err(problem)?;
                Ok(Reply::success(201, self.show_account(name)?))
            }
            (Method::Get, Some(name)) => Ok(Reply::success(200, self.show_account(name)?)),
            (Method::Put | Method::Patch, Some(name)) => {
                let body = call.object()?;
                let replaces = call.method == Method::Put;
                // What replaces an account and says no password takes the one that it has away.
                if (replaces || password_in(&body).is_some()) && !caller.may_set_passwords() {
                    let message = "a token does not set passwords: log in with name and password \
                                   (Basic)";
                    return Err(DocumentError::new(ErrorNumber::FORBIDDEN, message));
                }
                let changed =
                    self.accounts.change(|list| set(list.account(name)?, &body, replaces));
                changed.map_err(problem)?;
                Ok(Reply::success(200, self.show_account(name)?))
            }
            (Method::Delete, Some(name)) => {
                self.accounts.change(|list| list.remove(name)).map_err(problem)?;
                Ok(Reply::success(202, json!({})))
            }
            _ => Err(ErrorNumber::HTTP_METHOD_NOT_ALLOWED.into()),
        }
    }

    /// Reads a call to `/_open/auth…`.
    pub(crate) fn log_in(&self, call: &Call<'_>) -> Result<LogIn, DocumentError> {
        if call.segment(2) == Some("renew") {
            return Ok(LogIn::Answered(Reply::value(200, &json!({}))));
        }
        let bad = || DocumentError::from(ErrorNumber::HTTP_BAD_PARAMETER);
        let body: Value = serde_json::from_slice(&call.body).map_err(|_| bad())?;
        let name = body["username"].as_str().ok_or_else(bad)?;
        let password = body["password"].as_str().ok_or_else(bad)?;
        // Where nobody is asked, the default credentials of drivers are as good as any.
        if !self.accounts.is_enforced() && name == "root" && password.is_empty() {
            return Ok(LogIn::Answered(self.logged_in(name, true)));
        }
        Ok(LogIn::Asked { name: name.to_owned(), password: password.to_owned() })
    }

    /// The answer to a log-in whose password was verified.
    pub(crate) fn logged_in(&self, name: &str, is_right: bool) -> Reply {
        if !is_right {
            let message = "Wrong credentials";
            return Reply::error(&DocumentError::new(ErrorNumber::HTTP_UNAUTHORIZED, message));
        }
        let token = self.accounts.sign(name, WallTime::now().unix_ms() / 1_000);
        Reply::value(200, &json!({ "jwt": token }))
    }

    /// Makes the accounts that a new database names, with the right to it; those that there are
    /// stay as they are. A server that asks nobody for credentials makes none, as the first one
    /// would lock out who made it.
    pub(crate) fn make_users_of(&self, database: &str, body: &Map<String, Value>) {
        if !self.accounts.is_enforced() {
            return;
        }
        let users = body.get("users").and_then(Value::as_array);
        for user in users.into_iter().flatten().filter_map(Value::as_object) {
            let name = user.get("username").or_else(|| user.get("user")).and_then(Value::as_str);
            if let Some(name) = name {
                // One that is there already, or whose name may not be, is no reason to fail.
                let _ = self.make_account(name, user, Some(database));
            }
        }
    }

    fn make_account(
        &self,
        name: &str,
        body: &Map<String, Value>,
        database: Option<&str>,
    ) -> Result<(), AccessError> {
        let mut record = AccountRecord::new(name)?;
        set(&mut record, body, true)?;
        if let Some(database) = database {
            let scope = format!("database/{database}");
            record.grants.set(&scope, Right::Write).map_err(AccessError::Unacceptable)?;
        }
        self.accounts.change(|list| list.add(record))
    }

    fn show_account(&self, name: &str) -> Result<Value, DocumentError> {
        let account = self.accounts.account(name).ok_or(ErrorNumber::USER_NOT_FOUND)?;
        Ok(show(&account))
    }
}

fn show(account: &AccountRecord) -> Value {
    json!({ "user": account.name, "active": account.active, "extra": account.extra() })
}

fn password_in(body: &Map<String, Value>) -> Option<&str> {
    body.get("passwd").or_else(|| body.get("password")).and_then(Value::as_str)
}

/// Sets what a body says of an account; if it replaces, the rest gets its default.
fn set(
    account: &mut AccountRecord,
    body: &Map<String, Value>,
    replaces: bool,
) -> Result<(), AccessError> {
    match password_in(body) {
        Some(password) => account.set_password(password)?,
        None if replaces => account.set_password("")?,
        None => {}
    }
    match body.get("active").and_then(Value::as_bool) {
        Some(active) => account.active = active,
        None if replaces => account.active = true,
        None => {}
    }
    match body.get("extra") {
        Some(Value::Object(extra)) => account.set_extra(extra.clone())?,
        _ if replaces => account.set_extra(Map::new())?,
        _ => {}
    }
    Ok(())
}

fn problem(error: AccessError) -> DocumentError {
    let number = match &error {
        AccessError::BadName(_) => ErrorNumber::USER_INVALID_NAME,
        AccessError::Exists(_) => ErrorNumber::USER_DUPLICATE,
        AccessError::Missing(_) => ErrorNumber::USER_NOT_FOUND,
        AccessError::Unacceptable(_) => ErrorNumber::BAD_PARAMETER,
        AccessError::File(..) | AccessError::Malformed(..) => ErrorNumber::INTERNAL,
    };
    DocumentError::new(number, error.to_string())
}

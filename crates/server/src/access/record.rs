//! Records of accounts, as the file of the accounts holds them.

use pellucid_clock::WallTime;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::error::AccessError;
use crate::access::password;
use crate::access::rights::{Grants, Right, Scope};
use crate::access::token::{self, TOKEN_NAME_LENGTH_MAX, TOKENS_MAX, TokenRecord};

/// Maximum number of accounts of a server.
pub const ACCOUNTS_MAX: usize = 10_000;
/// Maximum length of an account's name, in bytes.
const NAME_LENGTH_MAX: usize = 128;
/// Maximum length of `extra` as JSON, in bytes.
const EXTRA_LENGTH_MAX: usize = 16 * 1_024;

/// Tolerated clock skew between servers that share a secret.
const CLOCK_SKEW_MAX_SECONDS: f64 = 1.0;

/// One account. It has no `Debug`, so that no log can hold it by mistake.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountRecord {
    /// The name with which the account logs in.
    pub name: String,
    /// True if the account may log in.
    #[serde(default = "yes")]
    pub active: bool,
    /// The hash of the password as a PHC string; without one, only tokens are accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    password: Option<String>,
    /// The access tokens, in the order of their ids.
    #[serde(default)]
    tokens: Vec<TokenRecord>,
    /// The highest token id that the account ever had. No id is used twice.
    #[serde(default)]
    tokens_ever: u64,
    /// The rights of the account.
    #[serde(default)]
    pub grants: Grants,
    /// Data of clients, which the server does not use.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    extra: Map<String, Value>,
    /// Random id, which tells this account from a deleted one of the same name; 0 if the file has
    /// none.
    #[serde(default)]
    number: u64,
    /// Time of the last password change, in Unix seconds; it never goes back. Older web tokens are
    /// refused, apart from the tolerated clock skew.
    #[serde(default)]
    password_since: u64,
    /// Number of password changes.
    #[serde(default)]
    password_changes: u64,
}

fn yes() -> bool {
    true
}

/// Returns true if an account may have this name. HTTP's Basic scheme does not allow a colon.
fn is_name(name: &str) -> bool {
    let is_plain = !name.chars().any(|c| c.is_control() || c == ':' || c == '/');
    (1..=NAME_LENGTH_MAX).contains(&name.len()) && is_plain
}

fn check_extra(extra: &Map<String, Value>) -> Result<(), String> {
    let length = serde_json::to_string(extra).map_or(usize::MAX, |text| text.len());
    if length > EXTRA_LENGTH_MAX {
        return Err(format!("`extra` has {EXTRA_LENGTH_MAX} bytes at most"));
    }
    Ok(())
}

fn now_seconds() -> u64 {
    WallTime::now().unix_ms() / 1_000
}

impl AccountRecord {
    /// An account without rights and without credentials.
    ///
    /// # Errors
    /// The name is invalid, or the system gives no randomness.
    pub fn new(name: &str) -> Result<AccountRecord, AccessError> {
        if !is_name(name) {
            return Err(AccessError::BadName(name.to_owned()));
        }
        Ok(AccountRecord {
            name: name.to_owned(),
            active: true,
            password: None,
            tokens: Vec::new(),
            tokens_ever: 0,
            grants: Grants::default(),
            extra: Map::new(),
            number: u64::from_le_bytes(token::random()?),
            password_since: now_seconds(),
            password_changes: 0,
        })
    }

    /// Returns true if this is the same account as `other`, with the same password.
    pub(crate) fn has_same_password_as(&self, other: &AccountRecord) -> bool {
        self.is_same_account_as(other)
            && self.password_since == other.password_since
            && self.password_changes == other.password_changes
    }

    /// Returns true if this is the same account as `other`. The passwords and the rights may
    /// differ.
    pub(crate) fn is_same_account_as(&self, other: &AccountRecord) -> bool {
        self.name == other.name && self.number == other.number
    }

    /// Returns true if a web token with the time of issue `issued_at` (Unix seconds) is not older
    /// than the last password change, apart from the tolerated clock skew.
    pub(crate) fn accepts_token_issued_at(&self, issued_at: f64) -> bool {
        issued_at + CLOCK_SKEW_MAX_SECONDS >= self.password_since as f64
    }

    /// Sets the password. It takes some 20 ms, so it must not run on an event loop.
    ///
    /// # Errors
    /// The password is too long, or the system gives no randomness.
    pub fn set_password(&mut self, plain: &str) -> Result<(), AccessError> {
        self.replace_password(Some(password::hash(plain)?));
        Ok(())
    }

    /// Removes the password: only tokens are accepted afterwards.
    pub(crate) fn remove_password(&mut self) {
        self.replace_password(None);
    }

    fn replace_password(&mut self, hash: Option<String>) {
        self.password = hash;
        // A clock that was set back must not make older web tokens valid again.
        self.password_since = now_seconds().max(self.password_since);
        self.password_changes += 1;
    }

    /// Returns true if the account has a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// The stored hash of the password.
    pub(crate) fn password_hash(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// The records of the access tokens, which contain only hashes.
    #[must_use]
    pub fn tokens(&self) -> &[TokenRecord] {
        &self.tokens
    }

    /// Makes a token; returns its record and its text, which is stored nowhere.
    ///
    /// # Errors
    /// The account has too many tokens or one of that name, the name is empty or too long, or the
    /// system gives no randomness.
    pub fn add_token(
        &mut self,
        name: &str,
        valid_until: Option<u64>,
        now_unix_seconds: u64,
    ) -> Result<(TokenRecord, String), AccessError> {
        let refuse = |what: String| Err(AccessError::Unacceptable(what));
        if self.tokens.len() >= TOKENS_MAX {
            return refuse(format!("an account has {TOKENS_MAX} tokens at most: remove one"));
        }
        if name.is_empty() || name.chars().count() > TOKEN_NAME_LENGTH_MAX {
            return refuse(format!("a token's name has 1 to {TOKEN_NAME_LENGTH_MAX} characters"));
        }
        if self.tokens.iter().any(|token| token.name == name) {
            return refuse(format!("there is a token `{name}` already"));
        }
        let text = token::generate()?;
        self.tokens_ever += 1;
        let record = TokenRecord {
            id: self.tokens_ever,
            name: name.to_owned(),
            hash: token::hash(&text).unwrap_or_default(),
            fingerprint: token::fingerprint(&text),
            created_at: now_unix_seconds,
            valid_until,
        };
        self.tokens.push(record.clone());
        Ok((record, text))
    }

    /// Removes the token with this id. Returns true if there was one.
    pub fn remove_token(&mut self, id: u64) -> bool {
        let before = self.tokens.len();
        self.tokens.retain(|token| token.id != id);
        self.tokens.len() < before
    }

    /// The data of clients.
    #[must_use]
    pub fn extra(&self) -> &Map<String, Value> {
        &self.extra
    }

    /// Replaces `extra`.
    ///
    /// # Errors
    /// It is too long.
    pub fn set_extra(&mut self, extra: Map<String, Value>) -> Result<(), AccessError> {
        check_extra(&extra).map_err(AccessError::Unacceptable)?;
        self.extra = extra;
        Ok(())
    }

    /// Validates an account read from disk.
    fn check(&self) -> Result<(), String> {
        let name = &self.name;
        if !is_name(name) {
            return Err(format!("`{}` is no name of an account", name.escape_debug()));
        }
        if self.tokens.len() > TOKENS_MAX {
            return Err(format!("{name} has more than {TOKENS_MAX} tokens"));
        }
        // A session remembers its token by the id: with the same id, two tokens would be one.
        let is_ascending = self.tokens.is_sorted_by(|a, b| a.id < b.id);
        if !is_ascending || self.tokens.last().is_some_and(|token| token.id > self.tokens_ever) {
            return Err(format!("the ids of the tokens of {name} do not ascend to `tokens_ever`"));
        }
        check_extra(&self.extra).map_err(|what| format!("{name}: {what}"))?;
        self.grants.check().map_err(|what| format!("the grants of {name}: {what}"))
    }

    /// The right of the account to `scope`.
    pub(crate) fn right(&self, scope: Scope<'_>) -> Right {
        self.grants.right(scope)
    }
}

/// All accounts, in the order of their names, and the secret that web tokens are signed with.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountList {
    /// Format version of the file.
    version: u32,
    /// The secret that signs web tokens, in hexadecimal.
    pub(crate) jwt_secret: String,
    accounts: Vec<AccountRecord>,
}

/// Minimum length of a secret, in bytes. With an empty one, anybody could sign.
const SECRET_LENGTH_MIN: usize = 32;

/// Format version that this code writes and reads.
pub(super) const VERSION: u32 = 1;

impl AccountList {
    /// Makes a list without accounts and with a new secret.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub(crate) fn empty() -> Result<AccountList, AccessError> {
        let secret = token::random::<32>()?;
        Ok(AccountList { version: VERSION, jwt_secret: token::hex(&secret), accounts: Vec::new() })
    }

    /// Validates a list read from disk.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("unsupported version {}, expected {VERSION}", self.version));
        }
        if self.accounts.len() > ACCOUNTS_MAX {
            return Err(format!("it has more than {ACCOUNTS_MAX} accounts"));
        }
        if !self.accounts.is_sorted_by(|a, b| a.name < b.name) {
            return Err("its accounts are not in the order of their names, each once".to_owned());
        }
        if self.jwt_secret.len() < SECRET_LENGTH_MIN {
            return Err(format!("its `jwt_secret` has less than {SECRET_LENGTH_MIN} bytes"));
        }
        self.accounts.iter().try_for_each(AccountRecord::check)
    }

    /// The accounts.
    #[must_use]
    pub fn accounts(&self) -> &[AccountRecord] {
        &self.accounts
    }

    /// The account with this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn account(&mut self, name: &str) -> Result<&mut AccountRecord, AccessError> {
        let account = self.accounts.iter_mut().find(|account| account.name == name);
        account.ok_or_else(|| AccessError::Missing(name.to_owned()))
    }

    /// All accounts, to change them.
    pub(crate) fn all(&mut self) -> impl Iterator<Item = &mut AccountRecord> {
        self.accounts.iter_mut()
    }

    /// Adds an account.
    ///
    /// # Errors
    /// If there is an account with that name, or there are too many.
    pub fn add(&mut self, account: AccountRecord) -> Result<(), AccessError> {
        if self.accounts.len() >= ACCOUNTS_MAX {
            let what = format!("there are {ACCOUNTS_MAX} accounts at most");
            return Err(AccessError::Unacceptable(what));
        }
        match self.accounts.binary_search_by(|other| other.name.cmp(&account.name)) {
            Ok(_) => Err(AccessError::Exists(account.name)),
            Err(place) => {
                self.accounts.insert(place, account);
                Ok(())
            }
        }
    }

    /// Removes an account.
    ///
    /// # Errors
    /// If there is no account with that name.
    pub fn remove(&mut self, name: &str) -> Result<(), AccessError> {
        self.account(name)?;
        self.accounts.retain(|account| account.name != name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_http_cannot_carry_are_refused() {
        let long = "x".repeat(NAME_LENGTH_MAX + 1);
        for name in ["", "a:b", "a\nb", "a/b", long.as_str()] {
            assert!(AccountRecord::new(name).is_err(), "{name:?}");
        }
        assert!(AccountRecord::new("Käthe O'Hara").is_ok());
    }

    #[test]
    fn accounts_stay_sorted_and_single() {
        let mut list = AccountList::empty().unwrap();
        for name in ["b", "c", "a"] {
            list.add(AccountRecord::new(name).unwrap()).unwrap();
        }
        assert!(matches!(
            list.add(AccountRecord::new("b").unwrap()),
            Err(AccessError::Exists(name)) if name == "b"
        ));
        list.check().unwrap();
        list.remove("b").unwrap();
        assert!(matches!(list.remove("b"), Err(AccessError::Missing(_))));
        assert_eq!(list.accounts().len(), 2);
    }

    /// Regression: a file with an empty secret was accepted, so that anybody could sign tokens.
    #[test]
    fn a_list_without_a_secret_or_with_odd_grants_is_refused() {
        let mut list = AccountList::empty().unwrap();
        list.jwt_secret.clear();
        assert!(list.check().unwrap_err().contains("jwt_secret"));
        let odd = r#"{"name":"a","active":true,"grants":{"table/a*":"none"}}"#;
        let with = |account: &str| {
            let secret = "0".repeat(SECRET_LENGTH_MIN);
            let text = format!(r#"{{"version":1,"jwt_secret":"{secret}","accounts":[{account}]}}"#);
            serde_json::from_str::<AccountList>(&text).unwrap()
        };
        assert!(with(odd).check().unwrap_err().contains("the grants of a"));
        let long = format!(r#"{{"name":"{}"}}"#, "n".repeat(NAME_LENGTH_MAX + 1));
        assert!(with(&long).check().unwrap_err().contains("is no name"));
        let extra = format!(r#"{{"name":"a","extra":{{"x":"{}"}}}}"#, "y".repeat(EXTRA_LENGTH_MAX));
        assert!(with(&extra).check().unwrap_err().contains("`extra`"));
    }

    /// Regression: of a file without `tokens_ever`, the next token had the id of an older one, so
    /// that removing one removed both.
    #[test]
    fn token_ids_that_would_be_used_twice_are_refused() {
        let mut list = AccountList::empty().unwrap();
        let mut account = AccountRecord::new("a").unwrap();
        account.add_token("backup", None, 5).unwrap();
        account.add_token("restore", None, 5).unwrap();
        list.add(account).unwrap();
        list.check().unwrap();
        let ids = |change: fn(&mut AccountRecord)| {
            let mut list = list.clone();
            change(&mut list.accounts[0]);
            list.check()
        };
        assert!(ids(|account| account.tokens_ever = 0).unwrap_err().contains("tokens_ever"));
        assert!(ids(|account| account.tokens[1].id = 1).unwrap_err().contains("tokens_ever"));
    }

    /// Regression: two passwords set within one second were taken for one, so that a session of
    /// the first stayed valid; and a clock that was set back made older web tokens valid again.
    #[test]
    fn every_password_change_is_distinguished_from_the_one_before() {
        let mut account = AccountRecord::new("a").unwrap();
        let before = account.clone();
        account.set_password("first").unwrap();
        let first = account.clone();
        account.set_password("second").unwrap();
        assert!(!first.has_same_password_as(&before) && !account.has_same_password_as(&first));
        assert!(account.is_same_account_as(&before));
        account.password_since += 3_600;
        let ahead = account.password_since;
        account.remove_password();
        assert_eq!(account.password_since, ahead);
        assert!(!account.accepts_token_issued_at((ahead - 2) as f64));
    }

    #[test]
    fn tokens_have_names_and_numbers_of_their_own() {
        let mut account = AccountRecord::new("a").unwrap();
        let (first, _) = account.add_token("backup", None, 5).unwrap();
        assert!(account.add_token("backup", None, 5).is_err());
        assert!(account.remove_token(first.id) && !account.remove_token(first.id));
        let (second, text) = account.add_token("backup", Some(9), 5).unwrap();
        assert_ne!(first.id, second.id, "a number is never used again");
        assert!(second.is_valid_at(8) && !second.is_valid_at(9));
        assert!(!serde_json::to_string(&account).unwrap().contains(&text));
    }
}

//! Records of accounts.

use pellucid_clock::WallTime;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::error::AccessError;
use crate::access::password;
use crate::access::rights::{Grants, Right, Scope};
use crate::access::token::{self, TOKEN_NAME_LENGTH_MAX, TOKENS_MAX, TokenRecord};

/// Accounts that a server may have.
pub const ACCOUNTS_MAX: usize = 10_000;
/// Bytes that the name of an account may have.
const NAME_LENGTH_MAX: usize = 128;
/// Bytes that what a client keeps with an account may have, as JSON.
const EXTRA_LENGTH_MAX: usize = 16 * 1_024;

/// The distance of two servers' clocks that makes no difference.
const CLOCKS_APART_SECONDS: f64 = 1.0;

/// One account. It has no `Debug`, so that no log can hold it by mistake.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountRecord {
    /// Its name, by which it logs in.
    pub name: String,
    /// It may log in.
    #[serde(default = "yes")]
    pub active: bool,
    /// Its password as a PHC string; without one, only tokens let it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    password: Option<String>,
    /// Its tokens.
    #[serde(default)]
    tokens: Vec<TokenRecord>,
    /// The number that its next token gets.
    #[serde(default)]
    tokens_ever: u64,
    /// Its rights.
    #[serde(default)]
    pub grants: Grants,
    /// Notes of clients; the server does not look at them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    extra: Map<String, Value>,
    /// A random number, which an earlier account of the same name does not have.
    #[serde(default)]
    number: u64,
    /// The time from which on its password is what it is, in seconds since the Unix epoch: web
    /// tokens given before it are good no more.
    #[serde(default)]
    password_since: u64,
}

fn yes() -> bool {
    true
}

fn now_seconds() -> u64 {
    WallTime::now().unix_ms() / 1_000
}

impl AccountRecord {
    /// An account that may nothing yet, and cannot log in.
    ///
    /// # Errors
    /// If the name cannot be one.
    pub fn new(name: &str) -> Result<AccountRecord, AccessError> {
        let is_plain = !name.chars().any(|c| c.is_control() || c == ':' || c == '/');
        if name.is_empty() || name.len() > NAME_LENGTH_MAX || !is_plain || name.starts_with(':') {
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
            number: u64::from_le_bytes(token::random().map_err(AccessError::Unacceptable)?),
            password_since: now_seconds(),
        })
    }

    /// True for the same account as `other` with the same password.
    pub(crate) fn is_as(&self, other: &AccountRecord) -> bool {
        self.is(other) && self.password_since == other.password_since
    }

    /// True for the same account as `other`, also with another password or other rights.
    pub(crate) fn is(&self, other: &AccountRecord) -> bool {
        self.name == other.name && self.number == other.number
    }

    /// A web token given at this time is good. Clocks of servers that share a secret differ a
    /// little.
    pub(crate) fn takes_token_of(&self, issued_at: f64) -> bool {
        issued_at + CLOCKS_APART_SECONDS >= self.password_since as f64
    }

    /// Sets its password. Takes some 20 ms: never on an event loop.
    ///
    /// # Errors
    /// If the password is too long.
    pub fn set_password(&mut self, plain: &str) -> Result<(), AccessError> {
        self.password = Some(password::hash(plain).map_err(AccessError::Unacceptable)?);
        self.password_since = now_seconds();
        Ok(())
    }

    /// Takes its password away: only tokens let it in.
    pub(crate) fn remove_password(&mut self) {
        self.password = None;
        self.password_since = now_seconds();
    }

    /// It has a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// The kept form of the password, to verify one against.
    pub(crate) fn password_hash(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// Its tokens, without what would let anybody in.
    #[must_use]
    pub fn tokens(&self) -> &[TokenRecord] {
        &self.tokens
    }

    /// Makes a token. The text is given here once, and kept nowhere.
    ///
    /// # Errors
    /// If the account has too many, or one of that name.
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
        let text = token::generate().map_err(AccessError::Unacceptable)?;
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

    /// Removes the token with this number; says whether there was one.
    pub fn remove_token(&mut self, id: u64) -> bool {
        let before = self.tokens.len();
        self.tokens.retain(|token| token.id != id);
        self.tokens.len() < before
    }

    /// Notes of clients.
    #[must_use]
    pub fn extra(&self) -> &Map<String, Value> {
        &self.extra
    }

    /// Replaces what clients keep with it.
    ///
    /// # Errors
    /// If that is too long.
    pub fn set_extra(&mut self, extra: Map<String, Value>) -> Result<(), AccessError> {
        let length = serde_json::to_string(&extra).map_or(usize::MAX, |text| text.len());
        if length > EXTRA_LENGTH_MAX {
            let what = format!("`extra` has {EXTRA_LENGTH_MAX} bytes at most");
            return Err(AccessError::Unacceptable(what));
        }
        self.extra = extra;
        Ok(())
    }

    /// Its right to `scope`.
    #[must_use]
    pub fn right(&self, scope: Scope<'_>) -> Right {
        self.grants.right(scope)
    }
}

/// All accounts, in the order of their names, and the secret that web tokens are signed with.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountList {
    /// The form of the file, in case there will be another.
    version: u32,
    /// In hexadecimal.
    pub(crate) jwt_secret: String,
    accounts: Vec<AccountRecord>,
}

/// The fewest digits of a secret: 128 bits. With none, anybody could sign.
const SECRET_LENGTH_MIN: usize = 32;

/// The form of the file that this code writes and reads.
pub(super) const VERSION: u32 = 1;

impl AccountList {
    /// No accounts, and a new secret.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub(crate) fn empty() -> Result<AccountList, AccessError> {
        let secret = token::random::<32>().map_err(AccessError::Unacceptable)?;
        Ok(AccountList { version: VERSION, jwt_secret: token::hex(&secret), accounts: Vec::new() })
    }

    /// This code can use it.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("it has version {}, which is none", self.version));
        }
        if self.accounts.len() > ACCOUNTS_MAX {
            return Err(format!("it has more than {ACCOUNTS_MAX} accounts"));
        }
        if !self.accounts.is_sorted_by(|a, b| a.name < b.name) {
            return Err("its accounts are not in the order of their names, each once".to_owned());
        }
        if self.jwt_secret.len() < SECRET_LENGTH_MIN {
            return Err(format!("its `jwt_secret` has less than {SECRET_LENGTH_MIN} digits"));
        }
        self.accounts.iter().try_for_each(|account| {
            let checked = account.grants.check();
            checked.map_err(|what| format!("the grants of {}: {what}", account.name))
        })
    }

    /// The accounts.
    #[must_use]
    pub fn accounts(&self) -> &[AccountRecord] {
        &self.accounts
    }

    /// The account of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn account(&mut self, name: &str) -> Result<&mut AccountRecord, AccessError> {
        let place = self.accounts.iter().position(|account| account.name == name);
        let place = place.ok_or_else(|| AccessError::Missing(name.to_owned()))?;
        Ok(&mut self.accounts[place])
    }

    /// Adds an account.
    ///
    /// # Errors
    /// If there is one of that name, or too many.
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
    /// If there is none of that name.
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

    /// A file was taken whose secret was empty, so that anybody could sign tokens.
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

//! Access tokens: 256 random bits that authenticate an account. Only their hash is stored.
//!
//! A fast hash is enough, since nobody can try 2^256 tokens. So checking a token takes
//! microseconds, while a password costs milliseconds.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::access::error::AccessError;

/// The prefix of every token.
const PREFIX: &str = "v1.";
/// The limit of tokens of one account.
pub(crate) const TOKENS_MAX: usize = 100;
/// The longest name of a token, in characters.
pub(crate) const TOKEN_NAME_LENGTH_MAX: usize = 128;

/// The record of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRecord {
    /// The number of the token within the account. It is never used again.
    pub id: u64,
    /// The name that the owner chose.
    pub name: String,
    /// The SHA-256 of the token, in hexadecimal.
    pub hash: String,
    /// The first characters of the token, by which its owner recognises it.
    pub fingerprint: String,
    /// The time of creation, in seconds since 1970.
    pub created_at: u64,
    /// The end of validity, in seconds since 1970; `None` if the token never expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<u64>,
}

impl TokenRecord {
    /// Returns true if the token has not expired at a time in seconds since 1970.
    #[must_use]
    pub fn is_valid_at(&self, now_unix_seconds: u64) -> bool {
        self.valid_until.is_none_or(|until| now_unix_seconds < until)
    }
}

/// Makes a new token.
///
/// # Errors
/// If the system provides no random bytes.
pub(crate) fn generate() -> Result<String, AccessError> {
    Ok(format!("{PREFIX}{}", hex(&random::<32>()?)))
}

/// Returns random bytes from the system.
///
/// # Errors
/// If the system provides none.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], AccessError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| AccessError::Randomness(error.to_string()))?;
    Ok(bytes)
}

/// The hash by which a token is stored; `None` if the text is not a token.
pub(crate) fn hash(token: &str) -> Option<String> {
    token.starts_with(PREFIX).then(|| hex(&Sha256::digest(token.as_bytes())))
}

/// The part of a token that may be shown.
pub(crate) fn fingerprint(token: &str) -> String {
    let shown: String = token.chars().take(PREFIX.len() + 6).collect();
    format!("{shown}...")
}

/// The bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_by_their_hash() {
        let (first, second) = (generate().unwrap(), generate().unwrap());
        assert_ne!(first, second);
        assert_eq!((first.len(), hash(&first).unwrap().len()), (67, 64));
        assert_ne!(hash(&first), hash(&second));
        assert!(hash("secret").is_none(), "a password is not looked up as a token");
        assert_eq!(fingerprint("v1.0123456789"), "v1.012345...");
    }
}

//! Hashes of passwords: Argon2id (RFC 9106) with a salt for each, stored as PHC strings.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};

use crate::access::error::AccessError;
use crate::access::token;

/// The memory of one hash. Memory, passes and lanes are the minimum for Argon2id in OWASP's
/// password storage cheat sheet. One hash costs some 20 ms of one core.
const MEMORY_KIBIBYTES: u32 = 19 * 1_024;
/// The number of passes over the memory.
const PASSES: u32 = 2;
/// The number of parallel lanes.
const LANES: u32 = 1;
/// The length of a salt, in bytes.
const SALT_LENGTH: usize = 16;
/// The longest password, in bytes, so that strangers cannot make hashing slow with long ones.
pub(crate) const PASSWORD_LENGTH_MAX: usize = 1_024;

/// Hashes a password with a new salt, as a PHC string.
///
/// # Errors
/// If the password is too long, or the system provides no random bytes.
pub(crate) fn hash(password: &str) -> Result<String, AccessError> {
    if password.len() > PASSWORD_LENGTH_MAX {
        let what = format!("a password has {PASSWORD_LENGTH_MAX} bytes at most");
        return Err(AccessError::Unacceptable(what));
    }
    let salt = token::random::<SALT_LENGTH>()?;
    let params = Params::new(MEMORY_KIBIBYTES, PASSES, LANES, None)
        .expect("the constants above are within Argon2's bounds");
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash: Result<PasswordHash, _> = hasher.hash_password_with_salt(password.as_bytes(), &salt);
    match hash {
        Ok(hash) => Ok(hash.to_string()),
        Err(error) => {
            Err(AccessError::Unacceptable(format!("the password cannot be hashed: {error}")))
        }
    }
}

/// Returns true if `hash` is a hash of `password`. It takes as long as [`hash`](fn@hash) did.
pub(crate) fn verify(password: &str, hash: &str) -> bool {
    if password.len() > PASSWORD_LENGTH_MAX {
        return false;
    }
    PasswordHash::new(hash)
        .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}

/// A hash without a known password. It is verified for names that do not exist, so that the time of
/// the answer does not tell which names exist.
pub(crate) const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$\
    AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_verified_by_its_hash() {
        let (first, second) = (hash("secret").unwrap(), hash("secret").unwrap());
        assert!(first.starts_with("$argon2id$v=19$m=19456,t=2,p=1$") && first != second);
        assert!(verify("secret", &first) && verify("secret", &second));
        assert!(!verify("Secret", &first) && !verify("", &first));
    }

    #[test]
    fn an_empty_password_is_possible() {
        assert!(verify("", &hash("").unwrap()));
    }

    #[test]
    fn an_invalid_hash_fits_no_password() {
        assert!(PasswordHash::new(NOBODY).is_ok(), "verifying it must take the usual time");
        for kept in [NOBODY, "", "secret", "$argon2id$"] {
            assert!(!verify("secret", kept), "{kept}");
        }
        assert!(hash(&"x".repeat(PASSWORD_LENGTH_MAX + 1)).is_err());
    }
}

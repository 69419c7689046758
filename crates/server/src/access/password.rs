//! Passwords as they are kept: Argon2id (RFC 9106) with a salt of their own, as PHC strings.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};

/// Memory, passes and lanes of a hash: the least that OWASP's password storage cheat sheet names
/// for Argon2id. One costs some 20 ms of one core.
const MEMORY_KIBIBYTES: u32 = 19 * 1_024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// Bytes of a salt.
const SALT_LENGTH: usize = 16;
/// Bytes that a password may have: hashing time is not for strangers to choose.
pub(crate) const PASSWORD_LENGTH_MAX: usize = 1_024;

/// The hash to keep of a password.
///
/// # Errors
/// If the password is too long, or the system gives no randomness.
pub(crate) fn hash(password: &str) -> Result<String, String> {
    if password.len() > PASSWORD_LENGTH_MAX {
        return Err(format!("a password has {PASSWORD_LENGTH_MAX} bytes at most"));
    }
    let mut salt = [0; SALT_LENGTH];
    getrandom::fill(&mut salt).map_err(|error| error.to_string())?;
    let params = Params::new(MEMORY_KIBIBYTES, PASSES, LANES, None)
        .expect("the constants above are within Argon2's bounds");
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash: PasswordHash = hasher
        .hash_password_with_salt(password.as_bytes(), &salt)
        .map_err(|error| format!("the password cannot be hashed: {error}"))?;
    Ok(hash.to_string())
}

/// Compares `password` with the one behind `hash`. Takes as long as [`hash`](fn@hash) did.
pub(crate) fn verify(password: &str, hash: &str) -> bool {
    if password.len() > PASSWORD_LENGTH_MAX {
        return false;
    }
    PasswordHash::new(hash)
        .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}

/// A hash of nothing that anybody knows: verified for names that do not exist, so that the time of
/// an answer does not tell which do.
pub(crate) const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$\
    AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_by_its_hash_alone() {
        let (first, second) = (hash("secret").unwrap(), hash("secret").unwrap());
        assert!(first.starts_with("$argon2id$v=19$m=19456,t=2,p=1$") && first != second);
        assert!(verify("secret", &first) && verify("secret", &second));
        assert!(!verify("Secret", &first) && !verify("", &first));
    }

    #[test]
    fn an_empty_password_is_one_too() {
        assert!(verify("", &hash("").unwrap()));
    }

    #[test]
    fn what_is_no_hash_lets_nobody_in() {
        assert!(PasswordHash::new(NOBODY).is_ok(), "it takes the time of a real one");
        for kept in [NOBODY, "", "secret", "$argon2id$"] {
            assert!(!verify("secret", kept), "{kept}");
        }
        assert!(hash(&"x".repeat(PASSWORD_LENGTH_MAX + 1)).is_err());
    }
}

//! Remembers the outcomes of verified passwords, so that only the first of many requests pays for
//! Argon2.
//!
//! It stores a keyed hash of name and password. A reader of this memory can learn a password only
//! by guessing it, and without the key nobody can construct two pairs with the same hash.

use std::collections::HashMap;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::access::error::AccessError;
use crate::access::token;

/// The limit of remembered outcomes. When it is reached, wrong passwords are forgotten; if all are
/// right, all are forgotten.
const REMEMBERED_MAX: usize = 4_096;

/// The keyed hash of a name and a password.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Digest([u8; 32]);

/// The key of the hashes, random for each process, as an HMAC that has taken in nothing else yet.
pub(crate) struct Key(Hmac<Sha256>);

impl Key {
    pub(crate) fn random() -> Result<Key, AccessError> {
        token::random::<64>().map(|bytes| Key(Hmac::new(&bytes.into())))
    }

    pub(crate) fn digest(&self, name: &str, password: &str) -> Digest {
        let mut mac = self.0.clone();
        // The length in front of the name makes sure that no two pairs have the same bytes.
        mac.update(&(name.len() as u64).to_le_bytes());
        mac.update(name.as_bytes());
        mac.update(password.as_bytes());
        Digest(mac.finalize().into_bytes().into())
    }
}

/// The outcomes that are remembered for one state of the accounts.
#[derive(Clone, Default)]
pub(crate) struct VerificationCache {
    /// The outcomes by digest: true if the password was right.
    outcomes: HashMap<Digest, bool>,
}

impl VerificationCache {
    pub(crate) fn get(&self, digest: &Digest) -> Option<bool> {
        self.outcomes.get(digest).copied()
    }

    /// A copy with one more outcome.
    pub(crate) fn with(&self, digest: Digest, is_right: bool) -> VerificationCache {
        let mut next = if self.outcomes.len() < REMEMBERED_MAX {
            self.clone()
        } else {
            // Wrong ones are forgotten first: otherwise somebody who guesses could make the right
            // passwords of all others be forgotten.
            let right = self.outcomes.iter().filter(|(_, is_right)| **is_right);
            let outcomes: HashMap<_, _> = right.map(|(digest, right)| (*digest, *right)).collect();
            if outcomes.len() < REMEMBERED_MAX {
                VerificationCache { outcomes }
            } else {
                VerificationCache::default()
            }
        };
        next.outcomes.insert(digest, is_right);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_do_not_displace_right_passwords_and_memory_is_bounded() {
        let key = Key::random().unwrap();
        let right = key.digest("ada", "secret");
        let mut verified = VerificationCache::default().with(right, true);
        for guess in 0..REMEMBERED_MAX + 10 {
            verified = verified.with(key.digest("ada", &guess.to_string()), false);
            assert!(verified.outcomes.len() <= REMEMBERED_MAX);
        }
        assert_eq!(verified.get(&right), Some(true));
        assert_eq!(verified.get(&key.digest("ada", "0")), None);
    }

    #[test]
    fn name_and_password_cannot_be_shifted_into_each_other() {
        let key = Key::random().unwrap();
        assert!(key.digest("ab", "c") != key.digest("a", "bc"));
        assert!(key.digest("ab", "c") == key.digest("ab", "c"));
        assert!(key.digest("ab", "c") != Key::random().unwrap().digest("ab", "c"));
    }
}

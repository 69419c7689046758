//! Remembers which passwords were right, so that only the first of many requests pays for Argon2.
//!
//! Kept is a keyed hash of name and password: who reads this memory learns no password from it that
//! he could not try for himself, and who does not know the key cannot make two of them meet.

use std::collections::HashMap;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::access::token;

/// Passwords remembered at a time. Beyond it all are forgotten, and verified once more.
const REMEMBERED_MAX: usize = 4_096;

/// The stand-in for a name and a password.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Digest([u8; 32]);

/// The key of this process.
pub(crate) struct Key([u8; 32]);

impl Key {
    pub(crate) fn random() -> Result<Key, String> {
        token::random().map(Key)
    }

    pub(crate) fn digest(&self, name: &str, password: &str) -> Digest {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        // A length before the name, so that no two pairs are the same bytes.
        mac.update(&(name.len() as u64).to_le_bytes());
        mac.update(name.as_bytes());
        mac.update(password.as_bytes());
        Digest(mac.finalize().into_bytes().into())
    }
}

/// The memory of verified passwords under one state of the accounts.
#[derive(Clone, Default)]
pub(crate) struct Verified {
    /// True if the password was right.
    outcomes: HashMap<Digest, bool>,
}

impl Verified {
    pub(crate) fn get(&self, digest: &Digest) -> Option<bool> {
        self.outcomes.get(digest).copied()
    }

    /// The same with one outcome more.
    pub(crate) fn with(&self, digest: Digest, is_right: bool) -> Verified {
        let mut next = if self.outcomes.len() < REMEMBERED_MAX {
            self.clone()
        } else {
            // Wrong ones go first: else a guesser makes everybody else's be forgotten.
            let right = self.outcomes.iter().filter(|(_, is_right)| **is_right);
            let outcomes: HashMap<_, _> = right.map(|(digest, right)| (*digest, *right)).collect();
            if outcomes.len() < REMEMBERED_MAX {
                Verified { outcomes }
            } else {
                Verified::default()
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
    fn guesses_do_not_push_out_what_is_right_and_memory_is_bounded() {
        let key = Key::random().unwrap();
        let right = key.digest("ada", "secret");
        let mut verified = Verified::default().with(right, true);
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

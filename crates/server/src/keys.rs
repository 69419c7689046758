//! Keys in the form in which pages may show them: a hash with a random seed of this process. The
//! hash shows that two slow requests were for the same key, but not which key it was. Keys
//! themselves are remembered only if the operator asks for it, and then only the recent ones.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use pellucid_thread::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The limit of remembered keys, in two generations; when the newer one is full, the older one is
/// forgotten.
const KEYS_KEPT: usize = 1 << 16;
/// The limit of remembered bytes of one key; the rest is cut off.
const KEY_BYTES_KEPT: usize = 128;

/// Keys by their hashes.
type KnownKeys = HashMap<u64, Box<[u8]>>;

/// The hash function for keys, and the remembered keys if they may be shown.
pub(crate) struct Keys {
    seed: u64,
    /// The remembered keys by their hashes, the newer generation first; `None` if keys must not be
    /// shown.
    known: Option<Mutex<[KnownKeys; 2]>>,
}

impl Keys {
    pub(crate) fn new(are_shown: bool) -> Keys {
        let seed = RandomState::new().hash_one(0_u8);
        Keys { seed, known: are_shown.then(|| Mutex::new([KnownKeys::new(), KnownKeys::new()])) }
    }

    /// Returns true if pages may show keys and other texts of users.
    pub(crate) fn are_shown(&self) -> bool {
        self.known.is_some()
    }

    /// Returns the hash of a key, and remembers the key if keys may be shown. The hash is never
    /// zero, because zero means no key.
    #[inline]
    pub(crate) fn note(&self, key: &[u8]) -> u64 {
        let hash = xxh3_64_with_seed(key, self.seed).max(1);
        if let Some(known) = &self.known {
            let mut known = known.lock();
            let shown = &key[..key.len().min(KEY_BYTES_KEPT)];
            known[0].entry(hash).or_insert_with(|| shown.into());
            if known[0].len() >= KEYS_KEPT / 2 {
                known.swap(0, 1);
                known[0].clear();
            }
        }
        hash
    }

    /// The key with this hash as text, if keys may be shown and this one is remembered.
    pub(crate) fn text(&self, hash: u64) -> Option<String> {
        let known = self.known.as_ref()?.lock();
        let key = known.iter().find_map(|half| half.get(&hash))?;
        Some(String::from_utf8_lossy(key).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shown_only_if_they_may_be() {
        let (silent, open) = (Keys::new(false), Keys::new(true));
        let hash = open.note(b"key");
        assert_eq!((open.note(b"key"), open.text(hash).as_deref()), (hash, Some("key")));
        assert_ne!(open.note(b"other"), hash);
        assert_ne!(silent.note(b"key"), hash, "the seed is each process's own");
        assert_eq!(silent.text(silent.note(b"key")), None);
    }

    #[test]
    fn remembered_keys_and_their_lengths_are_bounded() {
        let keys = Keys::new(true);
        for number in 0..3 * KEYS_KEPT as u64 {
            keys.note(&number.to_be_bytes());
        }
        let first = keys.note(&[1; 4_096]);
        assert_eq!(keys.text(first).map(|text| text.len()), Some(KEY_BYTES_KEPT));
        let known = keys.known.unwrap().into_inner();
        assert!(known[0].len() + known[1].len() <= KEYS_KEPT);
    }
}

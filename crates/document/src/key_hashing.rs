//! Hashing of keys that users choose. It is fast, and has a random seed per process, so that users
//! cannot choose keys that collide.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The hashing of a map's keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHashing {
    seed: u64,
}

impl KeyHashing {
    pub(crate) fn of_process() -> KeyHashing {
        static SEED: OnceLock<u64> = OnceLock::new();
        KeyHashing { seed: *SEED.get_or_init(|| RandomState::new().hash_one(0_u8)) }
    }
}

impl BuildHasher for KeyHashing {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(self.seed)
    }
}

/// A hasher of one key: of its length and its bytes.
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    /// Takes the length of the key. It adds little, because a map's key is a single byte string.
    fn write_usize(&mut self, length: usize) {
        self.0 ^= length as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_have_equal_hashes() {
        let hashing = KeyHashing::of_process();
        assert_eq!(hashing.hash_one(&b"key"[..]), hashing.hash_one(b"key".to_vec()));
        assert_ne!(hashing.hash_one(&b"key"[..]), hashing.hash_one(&b"kez"[..]));
    }
}

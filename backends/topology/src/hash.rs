//! The hash that assigns a key to its owner (rendezvous hashing, Thaler and Ravishankar, 1996).
//!
//! The node with the highest score for a key owns the key. So if a node is added, only the keys
//! that it now owns move, in equal shares from all others. If a node is removed, only its own keys
//! move.

use xxhash_rust::xxh3::xxh3_64;

/// The hash of a key: XXH3, 64 bits, seed 0.
#[inline]
#[must_use]
pub fn key_hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// The hash of a node, for its scores: XXH3, 64 bits, seed 0, of its URL in canonical form.
#[must_use]
pub fn node_seed(url: &str) -> u64 {
    xxh3_64(url.as_bytes())
}

/// The score of a node for a key: the XOR of both hashes, mixed by the finaliser of SplitMix64
/// (Steele, Lea and Flood, 2014), so that each bit of the score depends on each bit of both hashes.
#[inline]
#[must_use]
pub fn score(key_hash: u64, node_seed: u64) -> u64 {
    let mut mixed = key_hash ^ node_seed;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of docs/cluster.md. They must never change: stored keys would have other
    /// owners.
    #[test]
    fn the_hash_has_not_changed() {
        let seed = node_seed("http://127.0.0.1:8081");
        let found = [b"".as_slice(), b"a", b"key0000000001", &[0xff; 300]].map(|key| {
            let hash = key_hash(key);
            (hash, score(hash, seed))
        });
        let expected = [
            (0x2d06_8005_38d3_94c2, 0xfcde_00d8_fd2a_ed70),
            (0xe6c6_32b6_1e96_4e1f, 0x0ad3_e076_8c7c_dabe),
            (0x6449_11cf_12ae_f6e9, 0x258b_1cc7_44e2_9236),
            (0xa6eb_8a92_d637_e066, 0x0a35_ff29_5bc0_272e),
        ];
        assert_eq!((seed, found), (0x40f1_a12e_91c7_cd39, expected));
    }
}

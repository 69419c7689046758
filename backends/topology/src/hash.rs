//! The hash by which keys find their owner (rendezvous hashing, Thaler and Ravishankar, 1996).
//!
//! Of all nodes, the one whose score for the key is highest owns it. So a node that is added takes
//! only keys that become its own, in equal shares from all others, and one that leaves gives only
//! its own away.

use xxhash_rust::xxh3::xxh3_64;

/// The hash of a key: XXH3, 64 bits, seed 0.
#[inline]
#[must_use]
pub fn key_hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// A stand-in for a node in scores: XXH3, 64 bits, seed 0, of its URL in canonical form.
#[must_use]
pub fn node_seed(url: &str) -> u64 {
    xxh3_64(url.as_bytes())
}

/// The score of a node for a key: both are mixed by the finaliser of SplitMix64 (Steele, Lea and
/// Flood, 2014), in which every bit of the result depends on every bit of both.
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

    /// The examples of docs/cluster.md: they must never change, as data lies where they say.
    #[test]
    fn the_hash_is_what_it_was() {
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

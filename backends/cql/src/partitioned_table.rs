//! The mapping of keys to partitions of the ring.
//!
//! A table without parts is spread over a fixed number of buckets by a hash of the key. So
//! partitions stay small, and a range, which has to read all of them, remains possible. A table in
//! parts has one partition for each part, because the ring gives guarantees about several entries
//! only within one partition.

use pellucid_store::PartitionFunction;
use xxhash_rust::xxh3::xxh3_64;

/// The first byte of a partition's name: that of a bucket, and that of a part.
const BUCKET: u8 = b'b';
const PART: u8 = b'p';

/// A table of the store, and the placement of its keys.
#[derive(Clone, Debug)]
pub(crate) struct PartitionedTable {
    pub(crate) name: String,
    pub(crate) placing: PartitionScheme,
}

/// The placement of a table's keys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PartitionScheme {
    /// By a hash of the key, over this number of buckets.
    Buckets(u16),
    /// By the prefix of the key that this function finds.
    Parts(PartitionFunction),
}

impl PartitionedTable {
    /// The partition of a key.
    pub(crate) fn place(&self, key: &[u8]) -> Vec<u8> {
        match self.placing {
            PartitionScheme::Buckets(buckets) => bucket((xxh3_64(key) % u64::from(buckets)) as u16),
            PartitionScheme::Parts(part_of) => part(&key[..part_of(key).min(key.len())]),
        }
    }

    /// True if the table is in parts, so that all its writes are lightweight transactions.
    pub(crate) fn is_in_parts(&self) -> bool {
        matches!(self.placing, PartitionScheme::Parts(_))
    }
}

/// The name of the partition of a bucket.
pub(crate) fn bucket(number: u16) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    vec![BUCKET, high, low]
}

/// The name of the partition of a part.
pub(crate) fn part(prefix: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(prefix.len() + 1);
    name.push(PART);
    name.extend_from_slice(prefix);
    name
}

/// True if the partition of a part can hold a key of the range.
pub(crate) fn can_hold(name: &[u8], start: &[u8], end: Option<&[u8]>) -> bool {
    let prefix = &name[1..];
    let begins_before_end = end.is_none_or(|end| prefix < end || end.starts_with(prefix));
    begins_before_end && (prefix >= start || start.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_touches_the_parts_that_can_hold_its_keys() {
        let holds =
            |prefix: &[u8], start: &[u8], end: Option<&[u8]>| can_hold(&part(prefix), start, end);
        assert!(holds(b"", b"a", Some(b"b")) && holds(b"a", b"abc", Some(b"abd")));
        assert!(holds(b"b", b"a", None) && holds(b"ab", b"a", Some(b"b")));
        assert!(holds(b"b", b"a", Some(b"b1")));
        assert!(!holds(b"a", b"b", None) && !holds(b"c", b"a", Some(b"b")));
    }

    #[test]
    fn the_bucket_of_a_key_is_fixed() {
        let space =
            PartitionedTable { name: "t".to_owned(), placing: PartitionScheme::Buckets(64) };
        assert_eq!(space.place(b"key"), space.place(b"key"));
        assert_eq!(space.place(b"pellucid"), bucket((xxh3_64(b"pellucid") % 64) as u16));
    }
}

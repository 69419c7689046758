//! The load: transactions on objects of a few KiB, as in the original. A transaction is a GET or a
//! PUT with three or four HEADs, because a replicated store reads the heads of several copies, and
//! the head of an object before it writes it. Most PUTs write new objects, so the store grows; the
//! others are updates. Some of the reads are for young objects.

use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_io::{Random, SeededRandom};

use super::plan::{HEAD_BYTES, VALUE_LENGTHS, VALUE_MEDIAN_BYTES, VALUE_SPREAD};

/// The percentage of PUTs that write a new object.
const NEW_PERCENT: u64 = 60;
/// The percentage of reads that are for young objects.
const YOUNG_PERCENT: u64 = 30;
/// One object in this many, the youngest, counts as young.
const YOUNG_ONE_IN: u64 = 20;
/// HEADs of other objects in each transaction.
const HEADS: usize = 3;
/// One PUT in this many waits until it is on the medium.
const DISK_ONE_IN: u64 = 128;

/// A request for an object, which is given by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Get(u64),
    Head(u64),
    Put { number: u64, on_disk: bool },
}

/// A generator of random transactions for one thread.
pub(super) struct TransactionGenerator<'a> {
    random: SeededRandom,
    /// The number of objects, shared by all threads.
    objects: &'a AtomicU64,
    /// Random bytes from which values and heads are cut.
    bytes: Vec<u8>,
}

impl<'a> TransactionGenerator<'a> {
    pub(super) fn new(seed: u64, objects: &'a AtomicU64) -> TransactionGenerator<'a> {
        let mut random = SeededRandom::new(seed);
        let words = 0..2 * VALUE_LENGTHS.end() / 8;
        let bytes = words.flat_map(|_| random.next_u64().to_le_bytes()).collect();
        TransactionGenerator { random, objects, bytes }
    }

    /// Draws the requests of a transaction into `requests`.
    pub(super) fn transaction(&mut self, requests: &mut Vec<Request>) {
        requests.clear();
        let count = self.objects.load(Ordering::Relaxed);
        if count > 0 && self.random.below(2) == 0 {
            let number = self.existing(count);
            requests.push(Request::Get(number));
        } else {
            let is_new = count == 0 || self.random.below(100) < NEW_PERCENT;
            let number = match is_new {
                true => self.objects.fetch_add(1, Ordering::Relaxed),
                false => self.existing(count),
            };
            let on_disk = self.random.below(DISK_ONE_IN) == 0;
            requests.push(Request::Head(number));
            requests.push(Request::Put { number, on_disk });
        }
        if count > 0 {
            requests.extend((0..HEADS).map(|_| Request::Head(self.existing(count))));
        }
    }

    /// Draws one of the first `count` objects.
    fn existing(&mut self, count: u64) -> u64 {
        let is_young = self.random.below(100) < YOUNG_PERCENT;
        let among = if is_young { count.div_ceil(YOUNG_ONE_IN) } else { count };
        count - 1 - self.random.below(among)
    }

    /// Draws a head and a value.
    pub(super) fn content(&mut self) -> (&[u8], &[u8]) {
        // The sum of twelve uniform random numbers is close enough to a normal distribution.
        let normal = (0..12).map(|_| self.random.unit()).sum::<f64>() - 6.0;
        let length = VALUE_MEDIAN_BYTES * (normal * VALUE_SPREAD).exp();
        let length = (length as usize).clamp(*VALUE_LENGTHS.start(), *VALUE_LENGTHS.end());
        let begin = self.random.below((self.bytes.len() - length) as u64) as usize;
        (&self.bytes[..HEAD_BYTES], &self.bytes[begin..begin + length])
    }
}

/// The key of an object. Keys of consecutive numbers are scattered.
pub(super) fn key_of(number: u64) -> [u8; 23] {
    let mixed = SeededRandom::at(number);
    let mut key = *b"object/0000000000000000";
    for (place, digit) in key[7..].iter_mut().enumerate() {
        let nibble = (mixed >> (60 - 4 * place)) & 15;
        *digit = b"0123456789abcdef"[nibble as usize];
    }
    key
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_mix_is_that_of_the_original_and_the_store_grows() {
        let objects = AtomicU64::new(0);
        let mut chooser = TransactionGenerator::new(7, &objects);
        let (mut gets, mut puts, mut heads, mut requests) = (0, 0, 0, Vec::new());
        for _ in 0..10_000 {
            chooser.transaction(&mut requests);
            for request in &requests {
                match request {
                    Request::Get(number) => {
                        assert!(*number < objects.load(Ordering::Relaxed));
                        gets += 1;
                    }
                    Request::Head(_) => heads += 1,
                    Request::Put { .. } => puts += 1,
                }
            }
        }
        assert_eq!(gets + puts, 10_000);
        assert!((4_700..5_300).contains(&gets) && (33_000..36_000).contains(&heads));
        assert!((2_800..3_200).contains(&objects.load(Ordering::Relaxed)));
    }

    #[test]
    fn values_are_a_few_kib() {
        let objects = AtomicU64::new(0);
        let mut chooser = TransactionGenerator::new(1, &objects);
        let lengths: Vec<usize> = (0..4_000).map(|_| chooser.content().1.len()).collect();
        let mean = lengths.iter().sum::<usize>() / lengths.len();
        assert!((2_500..3_200).contains(&mean), "{mean}");
        assert!(lengths.iter().all(|length| VALUE_LENGTHS.contains(length)));
        assert_eq!(chooser.content().0.len(), HEAD_BYTES);
    }

    #[test]
    fn keys_differ_and_are_scattered() {
        let keys: HashSet<_> = (0..10_000).map(key_of).collect();
        assert_eq!(keys.len(), 10_000);
        assert!(key_of(1).starts_with(b"object/") && key_of(1)[7..12] != key_of(2)[7..12]);
    }
}

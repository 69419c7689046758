//! The work of the studies: keys of 10 bytes and values of 280 bytes, uniformly random, on one
//! thread.
//!
//! Even numbers are put, and odd ones are missing. So a missing key lies between existing keys, and
//! no table can exclude it by its key range. Reads use a different random order from the puts,
//! because the order of the puts would read the pages of the journal sequentially.

use std::time::Instant;

use hdrhistogram::Histogram;
use pellucid_io::SeededRandom;

use crate::pauses::Pauses;
use crate::peer::{Outcome, Peer, text};

/// The length of a key in bytes.
pub const KEY_LENGTH: usize = 10;
/// The length of a value in bytes.
pub const VALUE_LENGTH: usize = 280;
/// The length of the random bytes that values are cut from; they cannot be compressed.
const POOL_LENGTH: usize = 64 << 10;
/// One look-up in this many is timed, because two readings of the clock take a tenth of its time.
const READ_SAMPLING: u64 = 8;

/// The random keys and values of a run.
pub struct WorkloadGenerator {
    keys: u64,
    pool: Vec<u8>,
}

impl WorkloadGenerator {
    pub fn new(keys: u64) -> WorkloadGenerator {
        let pool = (0..POOL_LENGTH as u64).map(|index| SeededRandom::at(index) as u8).collect();
        WorkloadGenerator { keys, pool }
    }

    /// The key of the put with this index.
    pub fn put(&self, index: u64) -> [u8; KEY_LENGTH] {
        digits(2 * (SeededRandom::at(index) % self.keys))
    }

    /// A random key that was put.
    pub fn present(&self, draw: u64) -> [u8; KEY_LENGTH] {
        self.put(SeededRandom::at(draw) % self.keys)
    }

    /// A random key that was never put.
    pub fn missing(&self, draw: u64) -> [u8; KEY_LENGTH] {
        digits(2 * (SeededRandom::at(draw) % self.keys) + 1)
    }

    /// The value of the put with this index.
    pub fn value(&self, index: u64) -> &[u8] {
        let start = SeededRandom::at(index) as usize % (POOL_LENGTH - VALUE_LENGTH);
        &self.pool[start..start + VALUE_LENGTH]
    }
}

fn digits(number: u64) -> [u8; KEY_LENGTH] {
    let mut key = [b'0'; KEY_LENGTH];
    let mut rest = number;
    for digit in key.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// The latencies of single operations, in nanoseconds.
pub type Latencies = Histogram<u64>;

/// An empty histogram with a precision of a thousandth, up to a minute.
pub fn latencies() -> Outcome<Latencies> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).map_err(text)
}

/// Runs the puts with indexes in `range`, times each, and records them in `pauses`.
pub fn put(
    peer: &dyn Peer,
    draws: &WorkloadGenerator,
    range: std::ops::Range<u64>,
    pauses: &mut Pauses,
) -> Outcome<Latencies> {
    let mut taken = latencies()?;
    let mut last = Instant::now();
    for index in range {
        peer.put(&draws.put(index), draws.value(index))?;
        let now = Instant::now();
        let took_ns = now.duration_since(last).as_nanos() as u64;
        taken.saturating_record(took_ns);
        last = if pauses.note(took_ns) { Instant::now() } else { now };
    }
    Ok(taken)
}

/// Calls `each` with `count` draws for this seed, and times one in [`READ_SAMPLING`] of them.
pub fn sampled(
    seed: u64,
    count: u64,
    mut each: impl FnMut(u64) -> Outcome<()>,
) -> Outcome<Latencies> {
    let mut taken = latencies()?;
    for draw in 0..count {
        let draw_here = (seed << 40) + draw;
        if draw % READ_SAMPLING == 0 {
            let begun = Instant::now();
            each(draw_here)?;
            taken.saturating_record(begun.elapsed().as_nanos() as u64);
        } else {
            each(draw_here)?;
        }
    }
    Ok(taken)
}

/// Gets keys: a missing one for each draw for which `is_missing` returns true.
pub fn get(
    peer: &dyn Peer,
    draws: &WorkloadGenerator,
    seed: u64,
    count: u64,
    is_missing: impl Fn(u64) -> bool,
) -> Outcome<Latencies> {
    let mut value = Vec::with_capacity(VALUE_LENGTH);
    sampled(seed, count, |draw| {
        let is_missing = is_missing(draw);
        let key = if is_missing { draws.missing(draw) } else { draws.present(draw) };
        let is_there = peer.get(&key, &mut value)?;
        let is_whole = !is_there || value.len() == VALUE_LENGTH;
        let otherwise = "a key was found that was not put, or was not found as it was put";
        expect(is_there != is_missing && is_whole, otherwise)
    })
}

/// Gets existing keys.
pub fn get_present(
    peer: &dyn Peer,
    draws: &WorkloadGenerator,
    seed: u64,
    count: u64,
) -> Outcome<Latencies> {
    get(peer, draws, seed, count, |_| false)
}

/// Returns true for 30 % of all draws.
pub fn is_missing_in_mix(draw: u64) -> bool {
    SeededRandom::at(!draw) % 10 < 3
}

/// Reads the heads of existing keys.
pub fn head(
    peer: &dyn Peer,
    draws: &WorkloadGenerator,
    seed: u64,
    count: u64,
) -> Outcome<Latencies> {
    sampled(seed, count, |draw| {
        let is_there = peer.head(&draws.present(draw))?;
        expect(is_there, "the head of a key that was put is missing")
    })
}

fn expect(holds: bool, otherwise: &str) -> Outcome<()> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::{WorkloadGenerator, digits};

    #[test]
    fn keys_keep_their_order_and_length() {
        assert_eq!(&digits(42), b"0000000042");
        assert!(digits(9) < digits(10));
    }

    #[test]
    fn missing_keys_are_never_put() {
        let draws = WorkloadGenerator::new(100);
        let put: std::collections::HashSet<_> = (0..100).map(|index| draws.put(index)).collect();
        assert!((0..1_000).all(|draw| put.contains(&draws.present(draw))));
        assert!((0..1_000).all(|draw| !put.contains(&draws.missing(draw))));
    }
}

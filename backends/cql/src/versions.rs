//! Versions of entries: the sequence numbers of a store whose servers do not know each other.
//!
//! A version is a time in microseconds, shifted left by eight bits. It fits the 60 bits of a
//! document's revision until the year 2112. A process never draws the same time twice, nor an
//! earlier one, whichever of its stores draws it and however the clock is set. The lower bits
//! distinguish processes that draw the same time. The time is also the timestamp by which the ring
//! orders two plain writes.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bits of a version below its time.
const LOW_BITS: u32 = 8;

/// The last time that any store of this process has drawn, in microseconds.
static LAST_US: AtomicU64 = AtomicU64::new(0);

/// The source of versions.
pub(crate) struct Versions {
    last_us: &'static AtomicU64,
    /// The lower bits of this source's versions: a random number.
    process: u64,
}

/// The versions of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteVersions {
    /// The version of the first operation; the versions of the others follow.
    pub(crate) first: u64,
    /// The time of the write, in microseconds since the Unix epoch.
    pub(crate) time_us: i64,
}

impl Versions {
    pub(crate) fn new() -> Versions {
        let process = RandomState::new().hash_one(std::process::id()) & ((1 << LOW_BITS) - 1);
        Versions { last_us: &LAST_US, process }
    }

    /// Draws `count` successive versions, higher than all that this process has drawn before.
    pub(crate) fn draw(&self, count: usize) -> WriteVersions {
        self.draw_at(now_us(), count)
    }

    fn draw_at(&self, now_us: u64, count: usize) -> WriteVersions {
        assert!(count > 0, "a write has an entry");
        let more_us = (count as u64 + self.process) >> LOW_BITS;
        let next = |last: u64| now_us.max(last + 1);
        let advance = |last| Some(next(last) + more_us);
        let last = self.last_us.fetch_update(Ordering::AcqRel, Ordering::Acquire, advance);
        let time_us = next(last.unwrap_or_else(|last| last));
        WriteVersions { first: (time_us << LOW_BITS) + self.process, time_us: time_us as i64 }
    }

    /// Raises the last time to the current time. So later versions are higher than the timestamp
    /// that the ring has just given to a transaction, even if the local clock is set back
    /// afterwards.
    pub(crate) fn see(&self) {
        self.last_us.fetch_max(now_us(), Ordering::AcqRel);
    }

    /// A version above all drawn so far: here, and at any server whose clock is not ahead.
    pub(crate) fn now(&self) -> u64 {
        (now_us().max(self.last_us.load(Ordering::Acquire)) + 1) << LOW_BITS
    }
}

/// The time at which a version was drawn, in milliseconds since the Unix epoch.
pub(crate) fn written_at_ms(version: u64) -> u64 {
    drawn_us(version) / 1_000
}

/// The time at which a version was drawn, in microseconds since the Unix epoch.
pub(crate) fn drawn_us(version: u64) -> u64 {
    version >> LOW_BITS
}

/// Microseconds since the Unix epoch.
pub(crate) fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// Milliseconds since the Unix epoch. They go back with the clock: the ring's other servers have
/// clocks of their own, and a clock that was wrong must not stay apart from these.
pub(crate) fn now_ms() -> i64 {
    (now_us() / 1_000) as i64
}

#[cfg(test)]
mod tests {
    use pellucid_clock::{WallTime, rising};

    use super::*;

    /// Versions as of another process, so that tests can draw any time.
    fn apart() -> Versions {
        Versions { last_us: Box::leak(Box::default()), ..Versions::new() }
    }

    /// Regression: the clock was set back, and a write of one store was lost to an earlier write of
    /// another store of the same process.
    #[test]
    fn all_stores_of_a_process_share_one_sequence_of_versions() {
        let (first, second) = (Versions::new(), Versions::new());
        let drawn = first.draw(1);
        let later = second.draw_at(drawn.time_us as u64 - 900, 1);
        assert!(later.time_us > drawn.time_us, "{later:?} after {drawn:?}");
    }

    #[test]
    fn versions_rise_whatever_the_clock_does_and_batches_keep_theirs() {
        let versions = apart();
        let mut beyond = 0;
        for (now_us, count) in [(1_000, 1), (1_000, 5_000), (900, 1), (900, 1_024), (2_000, 3)] {
            let drawn = versions.draw_at(now_us, count);
            assert!(drawn.first >= beyond, "{drawn:?}");
            assert_eq!(drawn.first >> LOW_BITS, drawn.time_us as u64);
            beyond = drawn.first + count as u64;
        }
        assert_eq!(written_at_ms(versions.draw_at(7_000_000, 1).first), 7_000);
    }

    /// Regression: once a clock had been ahead for a moment, the entries of other servers expired
    /// early for the rest of the process.
    #[test]
    fn a_clock_that_was_ahead_is_right_again() {
        let ahead_ms = WallTime::now().unix_ms() + 3_600_000;
        let _ = rising(WallTime::from_unix_ms(ahead_ms));
        assert!((now_ms() as u64) < ahead_ms);
    }

    /// Regression: versions had 61 bits, but documents' revisions are versions and have 60.
    #[test]
    fn versions_have_at_most_60_bits() {
        let year_2100_us = 4_102_444_800_000_000;
        assert!(apart().draw_at(year_2100_us, 65_535).first < 1 << 60);
    }
}

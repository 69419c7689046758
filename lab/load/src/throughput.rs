//! Throughput of one thread, second by second.

use pellucid_clock::{Clock, Ticks};

/// The largest number of seconds that are counted separately; later answers are added to the last.
const MAX_SECONDS: usize = 7 * 86_400;
const NS_PER_SECOND: u64 = 1_000_000_000;

/// The number of answers of a thread in every second.
#[derive(Debug)]
pub(crate) struct ThroughputRecorder {
    per_second: Vec<u64>,
    second_end: Ticks,
    second_ticks: u64,
}

impl ThroughputRecorder {
    /// Counts for a run of about `expected_ns`; the run may last longer.
    pub(crate) fn new(clock: &Clock, expected_ns: u64) -> ThroughputRecorder {
        let expected_seconds = usize::try_from(expected_ns / NS_PER_SECOND).unwrap_or(MAX_SECONDS);
        ThroughputRecorder {
            per_second: Vec::with_capacity(expected_seconds.min(MAX_SECONDS) + 2),
            second_end: Ticks::default(),
            second_ticks: clock.ticks(NS_PER_SECOND),
        }
    }

    pub(crate) fn begin(&mut self, start: Ticks) {
        self.per_second.push(0);
        self.second_end = Ticks(start.0 + self.second_ticks);
    }

    /// Counts an answer.
    #[inline]
    pub(crate) fn answered(&mut self, now: Ticks) {
        while now >= self.second_end {
            self.next_second();
        }
        if let Some(count) = self.per_second.last_mut() {
            *count += 1;
        }
    }

    #[cold]
    fn next_second(&mut self) {
        if self.per_second.len() < MAX_SECONDS {
            self.per_second.push(0);
        }
        self.second_end = Ticks(self.second_end.0 + self.second_ticks);
    }

    /// Adds the seconds until the end in which nothing was answered.
    pub(crate) fn end(&mut self, end: Ticks) {
        while end > self.second_end && self.per_second.len() < MAX_SECONDS {
            self.next_second();
        }
    }

    /// Merges the counts of another thread.
    pub(crate) fn merge(&mut self, other: ThroughputRecorder) {
        let seconds = self.per_second.len().max(other.per_second.len());
        self.per_second.resize(seconds, 0);
        for (sum, count) in self.per_second.iter_mut().zip(other.per_second) {
            *sum += count;
        }
    }

    pub(crate) fn finish(self) -> Vec<u64> {
        self.per_second
    }
}

//! The further views that a drain updates beside the histograms: the flight recorder, the slow
//! requests, and the interference of background jobs.

use pellucid_clock::{Clock, Ticks};

use crate::activity::{Activity, Spans};
use crate::history::{HISTORY_RECORDS, History};
use crate::interference::Interference;
use crate::record::{RECORD_WORDS, Record};
use crate::slow_requests::SlowRequests;

/// The time before the last drain, in nanoseconds, whose jobs are collected once for all requests.
/// For a request that was received earlier, the jobs are looked up separately.
const SPANS_REACH_NS: u64 = 100_000_000;

/// The further views of an account.
pub(crate) struct RequestMonitor {
    pub(crate) activity: Activity,
    pub(crate) history: History,
    pub(crate) slow: SlowRequests,
    pub(crate) interference: Interference,
    spans: Spans,
    drained_at: Ticks,
}

impl RequestMonitor {
    pub(crate) fn new(operations: usize) -> RequestMonitor {
        RequestMonitor {
            activity: Activity::new(&[]),
            history: History::new(HISTORY_RECORDS),
            slow: SlowRequests::new(operations),
            interference: Interference::new(operations),
            spans: Spans::default(),
            drained_at: Ticks(0),
        }
    }

    /// Prepares for a drain of all records that ended until now.
    pub(crate) fn begin_drain(&mut self, clock: &Clock) {
        self.begin_part(clock);
        self.slow.begin_drain();
    }

    /// Prepares for the counting of some records.
    pub(crate) fn begin_part(&mut self, clock: &Clock) {
        let reach = clock.ticks(SPANS_REACH_NS);
        let since = Ticks(self.drained_at.0.saturating_sub(reach));
        self.drained_at = clock.now();
        self.spans = Spans::of(&self.activity, since, self.drained_at);
    }

    #[inline]
    pub(crate) fn see(&mut self, record: &Record, words: &[u64; RECORD_WORDS], total_ticks: u64) {
        self.history.push(words);
        let (from, to) = record.span();
        let kinds = match from >= self.spans.since {
            true => self.spans.mask(from, to),
            false => Spans::of(&self.activity, from, to).mask(from, to),
        };
        let is_slow = self.slow.see(record, total_ticks, &self.activity);
        self.interference.add(record.facts.operation, is_slow, kinds);
    }

    /// Closes the second with this number, after all of its totals were counted.
    pub(crate) fn close_second(&mut self, second: u64, clock: &Clock) {
        self.slow.close_second(second, clock);
        self.interference.close_second(second);
    }
}

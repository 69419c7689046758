//! The time of a flush or merge, entry by entry: one entry in [`SAMPLED_EVERY`] is
//! timed, and stands for all. What happens once a block or a table (writes, syncs, filters) is
//! timed always, and is no part of the samples.

use pellucid_clock::{Clock, Ticks};

use super::table::WriterTimes;
use crate::stats::JobFigures;
use crate::tally::SAMPLED_EVERY;

/// Takes the samples of one job.
pub(super) struct Stages {
    clock: Clock,
    turn: u64,
}

/// A sample that has begun.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    at: Ticks,
    writer_ns: u64,
}

impl Stages {
    pub(super) fn new(clock: Clock) -> Stages {
        Stages { clock, turn: 0 }
    }

    /// Begins a sample, if this entry is to be one. `writer_ns` is what its writers took so far.
    #[inline]
    pub(super) fn begin(&mut self, writer_ns: impl FnOnce() -> u64) -> Option<Sample> {
        self.turn += 1;
        let is_turn = self.turn.is_multiple_of(SAMPLED_EVERY);
        is_turn.then(|| Sample { writer_ns: writer_ns(), at: self.clock.now() })
    }

    /// The entry is in its block now.
    pub(super) fn built(&self, sample: Sample, writer_ns: u64, stats: &mut JobFigures) -> Sample {
        let now = self.clock.now();
        let all_ns = self.clock.nanoseconds(now.since(sample.at));
        let own_ns = all_ns.saturating_sub(writer_ns - sample.writer_ns);
        stats.build_ns += own_ns * SAMPLED_EVERY;
        Sample { at: now, writer_ns }
    }

    /// The next entry is there.
    pub(super) fn merged(&self, sample: Sample, stats: &mut JobFigures) {
        let ns = self.clock.nanoseconds(self.clock.now().since(sample.at));
        stats.merge_ns += ns * SAMPLED_EVERY;
    }
}

impl JobFigures {
    /// Adds what the writer of a table took.
    pub(super) fn add_writer(&mut self, times: WriterTimes) {
        self.filter_ns += times.filter_ns;
        self.write_ns += times.write_ns;
        self.sync_ns += times.sync_ns;
    }
}

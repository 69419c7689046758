//! The time per entry of a flush or merge: one entry in [`SAMPLED_EVERY`] is timed, and
//! extrapolated to all. Work done once per block or table (writes, syncs, filters) is always timed,
//! and not part of the samples.

use pellucid_clock::{Clock, Ticks};

use crate::counter_set::SAMPLED_EVERY;
use crate::stats::JobFigures;

/// The sampling of one job.
pub(super) struct JobSampler {
    clock: Clock,
    turn: u64,
}

/// A sample that has begun.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    at: Ticks,
    writer_ns: u64,
}

impl JobSampler {
    pub(super) fn new(clock: Clock) -> JobSampler {
        JobSampler { clock, turn: 0 }
    }

    /// Begins a sample, if it is this entry's turn. `writer_ns` is the writers' time so far.
    #[inline]
    pub(super) fn begin(&mut self, writer_ns: impl FnOnce() -> u64) -> Option<Sample> {
        self.turn += 1;
        let is_turn = self.turn.is_multiple_of(SAMPLED_EVERY);
        is_turn.then(|| Sample { writer_ns: writer_ns(), at: self.clock.now() })
    }

    /// Adds the time up to now to the building of blocks: the entry is in its block.
    pub(super) fn built(&self, sample: Sample, writer_ns: u64, stats: &mut JobFigures) -> Sample {
        let now = self.clock.now();
        let all_ns = self.clock.nanoseconds(now.since(sample.at));
        let own_ns = all_ns.saturating_sub(writer_ns - sample.writer_ns);
        stats.build_ns += own_ns * SAMPLED_EVERY;
        Sample { at: now, writer_ns }
    }

    /// Adds the time since then to the merging of inputs: the next entry is there.
    pub(super) fn merged(&self, sample: Sample, stats: &mut JobFigures) {
        let ns = self.clock.nanoseconds(self.clock.now().since(sample.at));
        stats.merge_ns += ns * SAMPLED_EVERY;
    }
}

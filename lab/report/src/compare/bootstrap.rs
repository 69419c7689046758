//! The block bootstrap: quantiles of runs that are drawn again from their own intervals of time.

use hdrhistogram::Histogram;
use pellucid_io::SeededRandom;

use crate::model::TimelineInterval;

/// The number of times that a run is drawn again.
const DRAWS: usize = 600;
/// The largest number of blocks of a run: longer blocks keep together requests that are slow
/// together.
const BLOCKS_MAX: usize = 64;
/// The smallest number of intervals with answers that can be drawn from.
const BLOCKS_MIN: usize = 8;
/// The number of blocks of a run without a timeline; its requests are dealt to them as if in random
/// order.
const SHUFFLED_BLOCKS: usize = 256;
/// The share of the draws beyond each end of a confidence interval.
const TAIL: f64 = 0.025;

/// A value and its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfidenceInterval {
    /// The value.
    pub value: f64,
    /// The lower end of the confidence interval.
    pub low: f64,
    /// The upper end of the confidence interval.
    pub high: f64,
}

impl ConfidenceInterval {
    /// The confidence interval of a value by its draws; it always contains the value.
    pub(super) fn around(value: f64, mut draws: Vec<f64>) -> ConfidenceInterval {
        draws.sort_by(f64::total_cmp);
        let at = |share: f64| draws.get((draws.len() as f64 * share) as usize).copied();
        let low = at(TAIL).unwrap_or(value).min(value);
        let high = at(1.0 - TAIL).unwrap_or(value).max(value);
        ConfidenceInterval { value, low, high }
    }
}

/// A run as blocks of counts over the values that occurred.
pub(super) struct Blocks {
    /// The values that occurred, ascending.
    values: Vec<u64>,
    /// For each block: indexes in `values`, and their counts.
    blocks: Vec<Vec<(usize, u64)>>,
}

impl Blocks {
    /// The blocks of a run: its intervals of time, joined to a few dozen. With too few intervals,
    /// the blocks are made of its response times without their order.
    pub(super) fn of(timeline: &[TimelineInterval], response_time: &Histogram<u64>) -> Blocks {
        let filled: Vec<_> = timeline.iter().filter(|s| !s.response_times.is_empty()).collect();
        if filled.len() < BLOCKS_MIN {
            return Blocks::shuffled(response_time);
        }
        let mut values: Vec<u64> =
            filled.iter().flat_map(|s| s.response_times.iter().map(|(value, _)| *value)).collect();
        values.sort_unstable();
        values.dedup();
        let place = |value: u64| values.partition_point(|other| *other < value);
        let joined = filled.chunks(filled.len().div_ceil(BLOCKS_MAX)).map(|stretches| {
            let times = stretches.iter().flat_map(|stretch| &stretch.response_times);
            times.map(|(value, count)| (place(*value), *count)).collect()
        });
        let blocks = joined.collect();
        Blocks { values, blocks }
    }

    /// The blocks of a run without a timeline: its requests are dealt to them in turn.
    fn shuffled(response_time: &Histogram<u64>) -> Blocks {
        let steps: Vec<(u64, u64)> = response_time
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_since_last_iteration()))
            .collect();
        let mut blocks = vec![Vec::new(); SHUFFLED_BLOCKS];
        let mut random = SeededRandom::new(1);
        for (place, (_, count)) in steps.iter().enumerate() {
            let each = count / SHUFFLED_BLOCKS as u64;
            if each > 0 {
                blocks.iter_mut().for_each(|block| block.push((place, each)));
            }
            for _ in 0..count % SHUFFLED_BLOCKS as u64 {
                blocks[random.place(SHUFFLED_BLOCKS)].push((place, 1));
            }
        }
        Blocks { values: steps.iter().map(|(value, _)| *value).collect(), blocks }
    }

    /// Draws the run again and again; returns, for each quantile, its values in all draws.
    pub(super) fn draw(&self, quantiles: &[f64], seed: u64) -> Vec<Vec<f64>> {
        let mut random = SeededRandom::new(seed);
        let mut drawn = vec![Vec::with_capacity(DRAWS); quantiles.len()];
        if self.values.is_empty() || self.blocks.is_empty() {
            return drawn;
        }
        let mut counts = vec![0_u64; self.values.len()];
        for _ in 0..DRAWS {
            counts.fill(0);
            for _ in 0..self.blocks.len() {
                for (place, count) in &self.blocks[random.place(self.blocks.len())] {
                    counts[*place] = counts[*place].saturating_add(*count);
                }
            }
            let mut all = 0_u64;
            for count in &mut counts {
                all = all.saturating_add(*count);
                *count = all;
            }
            for (values, quantile) in drawn.iter_mut().zip(quantiles) {
                values.push(self.value_at(&counts, *quantile) as f64);
            }
        }
        drawn
    }

    /// The value of a quantile in one draw. `up_to` has, for each value, the number of requests up
    /// to it.
    fn value_at(&self, up_to: &[u64], quantile: f64) -> u64 {
        let all = up_to.last().copied().unwrap_or(0);
        let rank = ((all as f64 * quantile).ceil() as u64).clamp(1, all.max(1));
        let place = up_to.partition_point(|seen| *seen < rank);
        self.values[place.min(self.values.len() - 1)]
    }
}

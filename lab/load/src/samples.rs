//! A bounded sample of single requests over time, for the jitter plot.
//!
//! A histogram does not show when something happened. Here the run is divided into bins of equal
//! length, and every bin keeps its slowest request and a few others, picked evenly. The memory is
//! bounded however long the run is: when bins run out, neighbours are merged, and the bins become
//! twice as long.

/// The largest number of bins of a run; a run of known length uses nearly all of them.
pub const MAX_BINS: usize = 1_000;
/// The number of requests that a bin keeps besides its slowest one.
pub const SAMPLES_PER_BIN: usize = 8;

/// One request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    /// The time at which its answer arrived, since the start of the run.
    pub time_offset_ns: u64,
    /// The time from the intended start to the answer.
    pub response_time_ns: u64,
    /// The time from the actual send to the answer.
    pub service_time_ns: u64,
}

/// The sample of one bin.
#[derive(Clone, Debug, Default)]
struct Bin {
    slowest: Sample,
    kept: Vec<Sample>,
    /// The number of requests in the bin.
    seen: u64,
    /// One request in this many is kept; always a power of two.
    stride: u64,
}

impl Bin {
    fn empty() -> Bin {
        Bin { stride: 1, kept: Vec::with_capacity(SAMPLES_PER_BIN), ..Bin::default() }
    }

    #[inline]
    fn add(&mut self, sample: Sample) {
        if sample.response_time_ns >= self.slowest.response_time_ns {
            self.slowest = sample;
        }
        if self.seen & (self.stride - 1) == 0 {
            self.keep(sample);
        }
        self.seen += 1;
    }

    #[cold]
    fn keep(&mut self, sample: Sample) {
        if self.kept.len() == SAMPLES_PER_BIN {
            keep_every_other(&mut self.kept);
            self.stride *= 2;
            if self.seen & (self.stride - 1) != 0 {
                return;
            }
        }
        self.kept.push(sample);
    }

    /// Merges the next bin in time, or the same bin of another thread.
    fn merge(&mut self, other: &Bin) {
        if other.slowest.response_time_ns >= self.slowest.response_time_ns {
            self.slowest = other.slowest;
        }
        // Bring both to the coarser stride, so that their requests weigh the same.
        let mut others = other.kept.clone();
        let mut other_stride = other.stride;
        while self.stride < other.stride {
            keep_every_other(&mut self.kept);
            self.stride *= 2;
        }
        while other_stride < self.stride {
            keep_every_other(&mut others);
            other_stride *= 2;
        }
        self.kept.append(&mut others);
        self.kept.sort_unstable();
        while self.kept.len() > SAMPLES_PER_BIN {
            keep_every_other(&mut self.kept);
            self.stride *= 2;
        }
        self.seen += other.seen;
    }
}

/// Drops the second of each two, so that an even sample stays even.
pub(crate) fn keep_every_other<T>(samples: &mut Vec<T>) {
    let mut index = 0;
    samples.retain(|_| {
        index += 1;
        index % 2 == 1
    });
}

/// The sample of one thread or, after merging, of the run.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    bins: Vec<Bin>,
    bin_ns: u64,
    /// The end of the last bin, so that a division is only needed once per bin.
    last_end_ns: u64,
}

impl Samples {
    /// Bins for a run of `expected_ns`; it may last longer.
    pub(crate) fn new(expected_ns: u64) -> Samples {
        let bin_ns = (expected_ns / MAX_BINS as u64 + 1).max(1);
        let mut bins = Vec::with_capacity(MAX_BINS);
        bins.push(Bin::empty());
        Samples { bins, bin_ns, last_end_ns: bin_ns }
    }

    /// Adds a request; later calls must not go back in time.
    #[inline]
    pub(crate) fn add(&mut self, sample: Sample) {
        if sample.time_offset_ns >= self.last_end_ns {
            self.open_bin(sample.time_offset_ns);
        }
        let last = self.bins.len() - 1;
        self.bins[last].add(sample);
    }

    #[cold]
    fn open_bin(&mut self, time_offset_ns: u64) {
        while time_offset_ns / self.bin_ns >= MAX_BINS as u64 {
            self.double();
        }
        let index = (time_offset_ns / self.bin_ns) as usize;
        while self.bins.len() <= index {
            self.bins.push(Bin::empty());
        }
        self.last_end_ns = (index as u64 + 1) * self.bin_ns;
    }

    fn double(&mut self) {
        let mut merged = Vec::with_capacity(MAX_BINS);
        for pair in self.bins.chunks(2) {
            let mut bin = pair[0].clone();
            if let Some(second) = pair.get(1) {
                bin.merge(second);
            }
            merged.push(bin);
        }
        self.bins = merged;
        self.bin_ns *= 2;
        self.last_end_ns = self.bins.len() as u64 * self.bin_ns;
    }

    /// Merges the sample of another thread of the same run.
    pub(crate) fn merge(&mut self, mut other: Samples) {
        while self.bin_ns < other.bin_ns {
            self.double();
        }
        while other.bin_ns < self.bin_ns {
            other.double();
        }
        while self.bins.len() < other.bins.len() {
            self.bins.push(Bin::empty());
        }
        for (bin, other_bin) in self.bins.iter_mut().zip(&other.bins) {
            bin.merge(other_bin);
        }
        self.last_end_ns = self.bins.len() as u64 * self.bin_ns;
    }

    /// All kept requests, in the order of time.
    pub(crate) fn into_sorted(self) -> Vec<Sample> {
        let mut all = Vec::new();
        for bin in self.bins.into_iter().filter(|bin| bin.seen > 0) {
            if !bin.kept.contains(&bin.slowest) {
                all.push(bin.slowest);
            }
            all.extend(bin.kept);
        }
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(time_offset_ns: u64, response_time_ns: u64) -> Sample {
        Sample { time_offset_ns, response_time_ns, service_time_ns: 1 }
    }

    #[test]
    fn the_slowest_of_every_bin_is_kept() {
        let mut samples = Samples::new(1_000_000);
        for time in 0..1_000_000 {
            samples.add(sample(time, if time == 500_001 { 9_999 } else { 10 }));
        }
        let kept = samples.into_sorted();
        assert!(kept.contains(&sample(500_001, 9_999)));
        assert!(kept.len() <= MAX_BINS * (SAMPLES_PER_BIN + 1));
        assert!(kept.windows(2).all(|pair| pair[0].time_offset_ns < pair[1].time_offset_ns));
    }

    #[test]
    fn the_others_are_picked_evenly() {
        let mut samples = Samples::new(1_000 * MAX_BINS as u64);
        for time in 0..1_000 {
            samples.add(sample(time, 10));
        }
        let kept = samples.into_sorted();
        let gaps: Vec<u64> =
            kept.windows(2).map(|pair| pair[1].time_offset_ns - pair[0].time_offset_ns).collect();
        assert!(kept.len() >= SAMPLES_PER_BIN / 2, "{kept:?}");
        assert!(gaps[..gaps.len() - 1].iter().all(|gap| *gap == gaps[0]), "{gaps:?}");
    }

    #[test]
    fn a_run_of_unknown_length_stays_bounded() {
        let mut samples = Samples::new(0);
        for time in 0..100_000 {
            samples.add(sample(time * 1_000, time));
        }
        assert!(samples.bins.len() <= MAX_BINS);
        let kept = samples.into_sorted();
        assert!(kept.len() > MAX_BINS / 2);
        assert!(kept.contains(&sample(99_999_000, 99_999)));
    }

    #[test]
    fn threads_with_different_bins_merge() {
        let (mut one, mut two) = (Samples::new(0), Samples::new(0));
        for time in 0..1_000 {
            one.add(sample(time, 5));
        }
        two.add(sample(1_000_000, 7));
        one.merge(two);
        let kept = one.into_sorted();
        assert_eq!(kept.last(), Some(&sample(1_000_000, 7)));
        assert!(kept.iter().any(|kept| kept.response_time_ns == 5));
    }
}

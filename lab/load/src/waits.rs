//! Waits for a processor over a run, by the kernel's account of threads.
//!
//! A thread that is ready to run but has no processor delays all of its requests, and no clock
//! within the thread shows that. The kernel counts the time (run delay). Each thread of the
//! generator reads its own count about once a millisecond while it runs, so that a longer wait lies
//! between two readings. The threads of a server on the same machine are read from outside.

use std::time::Duration;

use crate::samples::Sample;

/// The shortest time between two readings of the kernel's count.
pub(crate) const LOOK_PAUSE: Duration = Duration::from_millis(1);
/// The largest number of stretches that are kept; when there are more, neighbours are merged.
const STRETCHES_MAX: usize = 65_536;
/// Requests from this quantile of the response time on represent the 99th percentile.
const SLOW_QUANTILE: f64 = 0.98;

/// The time between two readings, if the thread waited in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WaitInterval {
    begin_ns: u64,
    end_ns: u64,
    waited_ns: u64,
}

/// The waits of a thread over time, since the start of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    stretches: Vec<WaitInterval>,
    last_look_ns: u64,
}

impl Waits {
    /// Records waits of `waited_ns` since the last reading. `now_ns` is the time since the start.
    pub(crate) fn note(&mut self, now_ns: u64, waited_ns: u64) {
        let begin_ns = std::mem::replace(&mut self.last_look_ns, now_ns);
        if waited_ns == 0 || now_ns <= begin_ns {
            return;
        }
        if self.stretches.len() == STRETCHES_MAX {
            let of_two = |two: &[WaitInterval]| WaitInterval {
                begin_ns: two[0].begin_ns,
                end_ns: two[two.len() - 1].end_ns,
                waited_ns: two.iter().map(|stretch| stretch.waited_ns).sum(),
            };
            self.stretches = self.stretches.chunks(2).map(of_two).collect();
        }
        // The kernel may count a wait late, so that it seems longer than the stretch.
        let waited_ns = waited_ns.min(now_ns - begin_ns);
        self.stretches.push(WaitInterval { begin_ns, end_ns: now_ns, waited_ns });
    }

    /// The waits between two times, in nanoseconds. Within a stretch, they are taken to be spread
    /// evenly.
    fn between(&self, from_ns: u64, to_ns: u64) -> f64 {
        let first = self.stretches.partition_point(|stretch| stretch.end_ns <= from_ns);
        let within = self.stretches[first..].iter().take_while(|stretch| stretch.begin_ns < to_ns);
        let waited = within.map(|stretch| {
            let common_ns = stretch.end_ns.min(to_ns) - stretch.begin_ns.max(from_ns);
            let length_ns = stretch.end_ns - stretch.begin_ns;
            stretch.waited_ns as f64 * common_ns as f64 / length_ns as f64
        });
        waited.sum()
    }

    /// The share of a request's response time in which the thread waited.
    fn share_of(&self, request: &Sample) -> f64 {
        let Sample { time_offset_ns: end_ns, response_time_ns, .. } = *request;
        let begin_ns = end_ns.saturating_sub(response_time_ns);
        (self.between(begin_ns, end_ns) / (end_ns - begin_ns).max(1) as f64).min(1.0)
    }
}

/// The waits for a processor in the slowest requests of a run, and who had the processors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessorWaits {
    /// The part of the response time's 99th percentile in which the generator's threads waited, in
    /// nanoseconds.
    pub generator_ns: f64,
    /// The part in which the server's threads waited, if it runs on this machine.
    pub server_ns: Option<f64>,
    /// The part in which threads of either waited.
    pub either_ns: f64,
    /// The share of all processors that other processes had, if it is known.
    pub others_share: Option<f64>,
}

/// The sampled requests of a thread of the generator, and its waits.
pub(crate) struct ThreadSamples {
    pub(crate) samples: Vec<Sample>,
    pub(crate) waits: Waits,
}

impl ProcessorWaits {
    /// The quantile of the response time from which on requests are evaluated.
    pub(crate) const QUANTILE: f64 = SLOW_QUANTILE;

    /// The waits in the requests that took `slow_ns` or longer, for a 99th percentile of `p99_ns`.
    pub(crate) fn of(
        threads: &[ThreadSamples],
        server: Option<&Waits>,
        [slow_ns, p99_ns]: [u64; 2],
        others_share: Option<f64>,
    ) -> ProcessorWaits {
        let (mut count, mut generators, mut servers, mut eithers) = (0.0, 0.0, 0.0, 0.0);
        for ThreadSamples { samples, waits } in threads {
            let is_slow = |sample: &&Sample| sample.response_time_ns >= slow_ns.max(1);
            for sample in samples.iter().filter(is_slow) {
                let of_generator = waits.share_of(sample);
                let of_server = server.map_or(0.0, |server| server.share_of(sample));
                count += 1.0;
                generators += of_generator;
                servers += of_server;
                // Within a stretch, the times of the waits are unknown, so both are treated as
                // independent.
                eithers += 1.0 - (1.0 - of_generator) * (1.0 - of_server);
            }
        }
        let mean_ns = |sum: f64| sum / f64::max(count, 1.0) * p99_ns as f64;
        ProcessorWaits {
            generator_ns: mean_ns(generators),
            server_ns: server.map(|_| mean_ns(servers)),
            either_ns: mean_ns(eithers),
            others_share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn request(begin_ms: u64, end_ms: u64) -> Sample {
        let response_time_ns = (end_ms - begin_ms) * MS;
        Sample { time_offset_ns: end_ms * MS, response_time_ns, service_time_ns: 0 }
    }

    fn waits(looks: &[(u64, u64)]) -> Waits {
        let mut waits = Waits::default();
        looks.iter().for_each(|(now_ms, waited_ms)| waits.note(now_ms * MS, waited_ms * MS));
        waits
    }

    #[test]
    fn the_waits_of_a_request_are_those_of_its_time() {
        let waits = waits(&[(10, 0), (20, 5), (30, 0), (50, 20), (60, 90)]);
        for (begin, end, waited) in
            [(0, 10, 0.0), (10, 20, 5.0), (14, 16, 1.0), (15, 40, 12.5), (45, 100, 15.0)]
        {
            let found = waits.share_of(&request(begin, end)) * (end - begin) as f64;
            assert!((found - waited).abs() < 1e-9, "{begin} to {end}: {found}");
        }
        assert!(waits.share_of(&Sample::default()).abs() < 1e-9);
    }

    #[test]
    fn many_stretches_become_longer_ones_and_lose_nothing() {
        let mut waits = Waits::default();
        let looks = 3 * STRETCHES_MAX as u64;
        (1..=looks).for_each(|look| waits.note(look * MS, MS / 2));
        assert!(waits.stretches.len() <= STRETCHES_MAX);
        let all_ns = waits.between(0, looks * MS);
        assert!((all_ns - (looks * MS / 2) as f64).abs() < 1.0, "{all_ns}");
    }

    #[test]
    fn the_p99_has_the_share_of_the_slow_requests() {
        let quick = (0..90).map(|at| request(at, at + 1));
        let slow = [request(100, 140), request(200, 240)];
        let samples = quick.chain(slow).collect();
        // The generator waits in half of the first slow request and in none of the second, and also
        // where nothing is slow.
        let of_thread = ThreadSamples { samples, waits: waits(&[(90, 45), (100, 0), (140, 20)]) };
        let server = waits(&[(200, 0), (240, 40)]);
        let at = [40 * MS, 50 * MS];
        let threads = [of_thread];
        let found = ProcessorWaits::of(&threads, Some(&server), at, Some(0.5));
        let expected = [(found.generator_ns, 12.5), (found.either_ns, 37.5)];
        for (ns, ms) in expected.into_iter().chain([(found.server_ns.unwrap(), 25.0)]) {
            assert!((ns - ms * 1e6).abs() < 1.0, "{found:?}");
        }
        let alone = ProcessorWaits::of(&threads, None, at, None);
        assert_eq!((alone.server_ns, alone.either_ns), (None, alone.generator_ns));
    }
}

//! Clients that request one key during the fall of a node, and the answers that they get.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::client::{Client, refusal_start};
use crate::nodes::PATIENCE;

/// The outcome of one GET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GetOutcome {
    /// The value was returned.
    Answered,
    /// The answer was 504 with the owner's address.
    Refused,
    /// Any other outcome, with its text.
    Failed(String),
}

/// One of the consecutive GETs of a client.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) sent: Instant,
    pub(super) took_ns: f64,
    pub(super) end: GetOutcome,
}

/// Sends GETs of `target` to `entry`, with a pause after each answer, until `over` is set. `owner`
/// is the address that the body of a 504 must contain.
pub(super) fn sample(
    entry: &str,
    target: &str,
    owner: &str,
    pause: Duration,
    over: &AtomicBool,
) -> Result<Vec<Sample>, String> {
    let (mut client, mut samples) = (Client::connect_within(entry, PATIENCE)?, Vec::new());
    while !over.load(Ordering::Relaxed) {
        let sent = Instant::now();
        let answer = client.call("GET", target, "").map(|_| ());
        let took_ns = sent.elapsed().as_nanos() as f64;
        let end = end_of(answer, target, owner);
        if matches!(end, GetOutcome::Failed(_)) {
            // The state of this connection is unknown after a failure.
            client = Client::connect_within(entry, PATIENCE)?;
        }
        samples.push(Sample { sent, took_ns, end });
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
    Ok(samples)
}

fn end_of(answer: Result<(), String>, target: &str, owner: &str) -> GetOutcome {
    let timeout = refusal_start(target, 504);
    match answer {
        Ok(()) => GetOutcome::Answered,
        Err(what) if what.strip_prefix(&timeout).is_some_and(|body| body.contains(owner)) => {
            GetOutcome::Refused
        }
        Err(what) => GetOutcome::Failed(what),
    }
}

/// Returns the 99th percentile in nanoseconds of the samples that were sent in this second, counted
/// from `zero`; infinity if there are none.
pub(super) fn p99_ns(samples: &[Sample], zero: Instant, second: i32) -> f64 {
    let is_within = |sample: &&Sample| {
        let after_s = match sample.sent.checked_duration_since(zero) {
            Some(after) => after.as_secs_f64(),
            None => -zero.duration_since(sample.sent).as_secs_f64(),
        };
        after_s.floor() as i32 == second
    };
    let mut times: Vec<_> = samples.iter().filter(is_within).map(|s| s.took_ns).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() * 99 / 100).copied().unwrap_or(f64::INFINITY)
}

/// Returns the longest time of a refusal, in seconds.
pub(super) fn longest_refusal_s(samples: &[Sample]) -> f64 {
    let refused = samples.iter().filter(|sample| sample.end == GetOutcome::Refused);
    refused.map(|sample| sample.took_ns / 1e9).fold(0.0, f64::max)
}

/// Returns the number of samples that were refused with 504 from `begin` to `end`, and the number
/// with an outcome that is not allowed: a 504 at another time, or any other failure.
pub(super) fn refusals(samples: &[Sample], begin: Instant, end: Instant) -> (f64, f64) {
    let (mut refused, mut unexpected) = (0.0, 0.0);
    for sample in samples {
        let ended = sample.sent + Duration::from_nanos(sample.took_ns as u64);
        match &sample.end {
            GetOutcome::Answered => {}
            GetOutcome::Refused if ended >= begin && sample.sent <= end => refused += 1.0,
            GetOutcome::Refused => {
                eprintln!("a request for the dead node's key got 504 while the node was there");
                unexpected += 1.0;
            }
            GetOutcome::Failed(what) => {
                eprintln!("a request for the dead node's key: {what}");
                unexpected += 1.0;
            }
        }
    }
    (refused, unexpected)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: &str = "127.0.0.1:1";

    fn at(zero: Instant, ms: u64, took_ms: f64, end: GetOutcome) -> Sample {
        Sample { sent: zero + Duration::from_millis(ms), took_ns: took_ms * 1e6, end }
    }

    #[test]
    fn only_a_504_with_the_owners_address_is_a_refusal() {
        let target = "/v0/entity?id=504";
        let answered = |status, body: String| {
            end_of(Err(refusal_start(target, status) + &body), target, OWNER)
        };
        assert_eq!(answered(504, format!("owner http://{OWNER} is away")), GetOutcome::Refused);
        assert!(matches!(answered(504, "owner".to_owned()), GetOutcome::Failed(_)));
        assert!(matches!(answered(503, format!("504: http://{OWNER}")), GetOutcome::Failed(_)));
        assert_eq!(end_of(Ok(()), target, OWNER), GetOutcome::Answered);
    }

    #[test]
    fn refusals_count_from_the_fall_to_the_return_and_are_faults_elsewhere() {
        let zero = Instant::now();
        let (fall, back) = (zero + Duration::from_millis(100), zero + Duration::from_millis(200));
        let samples = [
            at(zero, 10, 1.0, GetOutcome::Answered),
            // This request was in flight when the node fell.
            at(zero, 99, 40.0, GetOutcome::Refused),
            at(zero, 150, 1.0, GetOutcome::Refused),
            at(zero, 160, 1.0, GetOutcome::Failed("503".to_owned())),
            at(zero, 250, 1.0, GetOutcome::Refused),
            at(zero, 20, 1.0, GetOutcome::Refused),
        ];
        assert_eq!(refusals(&samples, fall, back), (2.0, 3.0));
        assert_eq!(longest_refusal_s(&samples), 0.04);
    }

    #[test]
    fn percentiles_are_those_of_the_given_second() {
        let zero = Instant::now() + Duration::from_secs(5);
        let before = zero.checked_sub(Duration::from_millis(500)).expect("it lies ahead");
        let samples = [
            Sample { sent: before, took_ns: 7.0, end: GetOutcome::Answered },
            at(zero, 10, 1.0, GetOutcome::Answered),
            at(zero, 20, 3.0, GetOutcome::Answered),
            at(zero, 1_000, 2.0, GetOutcome::Answered),
        ];
        assert_eq!(p99_ns(&samples, zero, -1), 7.0);
        assert_eq!(p99_ns(&samples, zero, 0), 3e6);
        assert_eq!(p99_ns(&samples, zero, 1), 2e6);
        assert_eq!(p99_ns(&samples, zero, 2), f64::INFINITY, "nothing is no good answer");
    }
}

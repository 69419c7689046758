//! Interference: the ratio by which a request is more often slow while a background job runs.
//!
//! For each operation and kind of job, the requests that overlapped such a job are counted, and how
//! many of them were slow. From that follows a ratio of two shares, the lift. It is a correlation
//! and not a cause, and is shown as such: with its counts, and not at all if they are too few.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::activity::JOB_KINDS_MAX;

/// The requests with the job, and without it, below which no lift is shown.
pub const INTERFERENCE_REQUESTS_MIN: u64 = 1_000;
/// The slow requests of an operation below which no lift is shown.
pub const INTERFERENCE_SLOW_MIN: u64 = 30;
/// The length of a time slot.
const SLOT_SECONDS: u64 = 60;
/// The number of kept slots: the page looks back ten minutes.
const SLOTS_KEPT: usize = 10;

/// The counts of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) slow: u64,
    /// The requests that overlapped a job, by its kind.
    pub(crate) beside: [u64; JOB_KINDS_MAX],
    /// The slow requests that overlapped a job, by its kind.
    pub(crate) slow_beside: [u64; JOB_KINDS_MAX],
}

impl Counts {
    #[inline]
    fn add(&mut self, is_slow: bool, mut kinds: u32) {
        self.requests += 1;
        self.slow += u64::from(is_slow);
        while kinds != 0 {
            let kind = kinds.trailing_zeros() as usize;
            self.beside[kind] += 1;
            self.slow_beside[kind] += u64::from(is_slow);
            kinds &= kinds - 1;
        }
    }

    fn merge(&mut self, other: &Counts) {
        self.requests += other.requests;
        self.slow += other.slow;
        for kind in 0..JOB_KINDS_MAX {
            self.beside[kind] += other.beside[kind];
            self.slow_beside[kind] += other.slow_beside[kind];
        }
    }
}

/// The counts of all operations: since the start, and of the last minutes.
pub(crate) struct Interference {
    /// The counts since the start, without the present slot.
    before: Vec<Counts>,
    present: Vec<Counts>,
    slots: VecDeque<Vec<Counts>>,
}

impl Interference {
    pub(crate) fn new(operations: usize) -> Interference {
        let none = vec![Counts::default(); operations];
        Interference { before: none.clone(), present: none, slots: VecDeque::new() }
    }

    /// Counts a request during which jobs of these kinds ran.
    #[inline]
    pub(crate) fn add(&mut self, operation: u8, is_slow: bool, kinds: u32) {
        if let Some(counts) = self.present.get_mut(usize::from(operation)) {
            counts.add(is_slow, kinds);
        }
    }

    pub(crate) fn close_second(&mut self, second: u64) {
        if !second.is_multiple_of(SLOT_SECONDS) {
            return;
        }
        let none = vec![Counts::default(); self.present.len()];
        let slot = std::mem::replace(&mut self.present, none);
        merge(&mut self.before, &slot);
        if self.slots.len() == SLOTS_KEPT {
            self.slots.pop_front();
        }
        self.slots.push_back(slot);
    }

    /// The counts by operation, since the start.
    pub(crate) fn since_start(&self) -> Vec<Counts> {
        let mut all = self.before.clone();
        merge(&mut all, &self.present);
        all
    }

    /// The counts by operation, of the last ten to eleven minutes.
    pub(crate) fn lately(&self) -> Vec<Counts> {
        let mut all = self.present.clone();
        self.slots.iter().for_each(|slot| merge(&mut all, slot));
        all
    }
}

fn merge(into: &mut [Counts], from: &[Counts]) {
    into.iter_mut().zip(from).for_each(|(into, from)| into.merge(from));
}

/// The figures of one operation and one kind of job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lift {
    /// The kind of job.
    pub job: String,
    /// The requests during which such a job ran.
    pub requests_beside: u64,
    /// The slow requests among `requests_beside`.
    pub slow_beside: u64,
    /// The requests during which no such job ran.
    pub requests_without: u64,
    /// The slow requests among `requests_without`.
    pub slow_without: u64,
    /// The share of slow requests beside the job, divided by that without it; none if the counts
    /// are too few, or if no request without the job was slow.
    pub lift: Option<f64>,
    /// The reason why there is no lift; none if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<String>,
}

impl Lift {
    pub(crate) fn of(job: &str, kind: usize, counts: &Counts) -> Lift {
        let (requests_beside, slow_beside) = (counts.beside[kind], counts.slow_beside[kind]);
        let requests_without = counts.requests - requests_beside;
        let slow_without = counts.slow - slow_beside;
        let few = requests_beside.min(requests_without);
        let hidden = if few < INTERFERENCE_REQUESTS_MIN {
            let needed = INTERFERENCE_REQUESTS_MIN;
            Some(format!("{few} requests on one side; {needed} are needed"))
        } else if counts.slow < INTERFERENCE_SLOW_MIN {
            let (slow, needed) = (counts.slow, INTERFERENCE_SLOW_MIN);
            Some(format!("{slow} slow requests; {needed} are needed"))
        } else if slow_without == 0 {
            Some("no request without the job was slow".to_owned())
        } else {
            None
        };
        let share = |slow: u64, all: u64| slow as f64 / all.max(1) as f64;
        let lift = share(slow_beside, requests_beside) / share(slow_without, requests_without);
        Lift {
            job: job.to_owned(),
            requests_beside,
            slow_beside,
            requests_without,
            slow_without,
            lift: hidden.is_none().then_some(lift),
            hidden,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lift_is_a_ratio_of_shares_and_hidden_if_counts_are_few() {
        let mut interference = Interference::new(1);
        // 2,000 requests beside a job of kind 3, 100 of them slow; 10,000 without, 50 of them slow.
        for index in 0..2_000 {
            interference.add(0, index < 100, 1 << 3 | u32::from(index < 10) << 5);
        }
        (0..10_000).for_each(|index| interference.add(0, index < 50, 0));
        interference.add(9, true, 1);
        let counts = interference.lately()[0];
        let lift = Lift::of("flush", 3, &counts);
        assert_eq!((lift.requests_beside, lift.slow_beside), (2_000, 100));
        assert_eq!((lift.requests_without, lift.slow_without), (10_000, 50));
        assert!((lift.lift.unwrap() - 10.0).abs() < 1e-9 && lift.hidden.is_none());
        let few = Lift::of("sync", 5, &counts);
        assert_eq!((few.requests_beside, few.lift), (10, None));
        assert!(few.hidden.unwrap().contains("10 requests"));
    }

    #[test]
    fn recent_counts_expire_and_counts_since_the_start_do_not() {
        let mut interference = Interference::new(1);
        interference.add(0, true, 0);
        for second in 0..=SLOT_SECONDS * SLOTS_KEPT as u64 {
            assert_eq!(interference.lately()[0].requests, 1, "second {second}");
            interference.close_second(second);
        }
        assert_eq!((interference.lately()[0].requests, interference.since_start()[0].slow), (0, 1));
    }
}

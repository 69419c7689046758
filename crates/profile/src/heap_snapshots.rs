//! Snapshots of the memory that was in use at past moments, for comparison with a profile of the
//! heap.
//!
//! Samples of the heap carry no times: it only matters whether their memory is still in use. So the
//! memory in use is recorded by site every few seconds.

use std::collections::VecDeque;
use std::time::Duration;

use crate::heap::{SiteUsage, site};
use crate::profile::{Kind, Profile, Sample};

/// The interval between two snapshots.
pub const MOMENT_PAUSE: Duration = Duration::from_secs(10);
/// The most snapshots that are kept: those of the last twenty minutes.
const MOMENTS_MAX: usize = 120;

/// A snapshot: a time and the memory in use then, in the order of the sites.
#[derive(Debug)]
struct HeapSnapshot {
    at_ns: u64,
    in_use: Vec<SiteUsage>,
}

/// The snapshots, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct HeapSnapshots {
    kept: VecDeque<HeapSnapshot>,
}

impl HeapSnapshots {
    pub(crate) fn push(&mut self, at_ns: u64, in_use: Vec<SiteUsage>) {
        if self.kept.len() >= MOMENTS_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(HeapSnapshot { at_ns, in_use });
    }

    /// The last snapshot up to `time_ns`, or the oldest if all are later.
    fn at(&self, time_ns: u64) -> Option<&HeapSnapshot> {
        let later = self.kept.partition_point(|moment| moment.at_ns <= time_ns);
        self.kept.get(later.saturating_sub(1))
    }

    /// The growth of the memory in use from `from_ns` to `to_ns`. If `from_ns` is zero, all memory
    /// that was in use at `to_ns`.
    pub(crate) fn between(&self, from_ns: u64, to_ns: u64) -> Profile {
        let (from, to) = (self.at(from_ns).filter(|_| from_ns > 0), self.at(to_ns));
        let before = from.map_or(&[][..], |moment| &moment.in_use);
        let after = to.map_or(&[][..], |moment| &moment.in_use);
        let samples =
            added(before, after).filter_map(|SiteUsage { site: number, events, bytes }| {
                let found = site(number as usize)?;
                Some(Sample {
                    stack: found.stack,
                    labels: found.labels,
                    thread: String::new(),
                    at_ns: 0,
                    events: f64::from(events),
                    amount: f64::from(bytes),
                })
            });
        let end_ns = to.map_or(0, |moment| moment.at_ns);
        let began_ns = from.map_or(end_ns, |moment| moment.at_ns);
        let duration_ns = end_ns.saturating_sub(began_ns);
        let (kind, samples) = (Kind::Heap, samples.collect());
        Profile { kind, samples, began_ns, duration_ns, lost: 0, missing_ns: 0 }
    }
}

/// The growth from `before` to `after`, site by site.
fn added(before: &[SiteUsage], after: &[SiteUsage]) -> impl Iterator<Item = SiteUsage> {
    after.iter().filter_map(|now| {
        let place = before.binary_search_by_key(&now.site, |in_use| in_use.site);
        let (events, bytes) =
            place.map_or((0.0, 0.0), |place| (before[place].events, before[place].bytes));
        let more = SiteUsage {
            site: now.site,
            events: (now.events - events).max(0.0),
            bytes: now.bytes - bytes,
        };
        (more.bytes >= 1.0).then_some(more)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_use(site: u32, bytes: f32) -> SiteUsage {
        SiteUsage { site, events: bytes / 10.0, bytes }
    }

    #[test]
    fn growth_is_reported_and_shrinkage_is_left_out() {
        let before = [in_use(1, 500.0), in_use(4, 100.0), in_use(7, 30.0)];
        let after = [in_use(1, 700.0), in_use(2, 50.0), in_use(4, 90.0), in_use(7, 30.0)];
        let more: Vec<SiteUsage> = added(&before, &after).collect();
        assert_eq!(more, [in_use(1, 200.0), in_use(2, 50.0)]);
        assert_eq!(added(&[], &after).count(), 4);
    }

    #[test]
    fn a_time_is_that_of_the_last_moment_before_it() {
        let mut moments = HeapSnapshots::default();
        assert!(moments.at(5).is_none() && moments.between(1, 5).samples.is_empty());
        for at_ns in (100..2_000).step_by(10) {
            moments.push(at_ns, Vec::new());
        }
        assert_eq!(moments.kept.len(), MOMENTS_MAX);
        assert_eq!(moments.at(u64::MAX).map(|moment| moment.at_ns), Some(1_990));
        assert_eq!(moments.at(1_905).map(|moment| moment.at_ns), Some(1_900));
        assert_eq!(moments.at(7).map(|moment| moment.at_ns), Some(800), "the oldest");
        let Profile { began_ns, duration_ns, .. } = moments.between(1_905, 1_945);
        assert_eq!((began_ns, duration_ns), (1_900, 40));
        let Profile { began_ns, duration_ns, .. } = moments.between(0, 1_945);
        assert_eq!((began_ns, duration_ns), (1_940, 0), "of a moment");
    }
}

//! Background jobs that run beside the requests, each with a number, a beginning and an end.
//!
//! Requests do not read it. The thread that runs a job notes its beginning and its end here, under
//! a lock that others rarely take. Afterwards, the requests that it overlapped follow from the
//! stamps that they have taken anyway, so that this costs the hot path nothing. A job that a
//! request *waited for* is something else: the waiting code notes it
//! ([`crate::Timeline::wait_for`]).

use std::collections::VecDeque;
use std::sync::Arc;

use pellucid_clock::{Clock, Ticks};
use pellucid_thread::Mutex;

/// The most kinds of jobs.
pub const JOB_KINDS_MAX: usize = 16;
/// The number of ended jobs that are remembered.
pub const JOBS_KEPT: usize = 4_096;

/// A kind of background job: a slot below [`JOB_KINDS_MAX`], whose name is in the [`Activity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobKind(u8);

impl JobKind {
    /// The kind in `slot`.
    ///
    /// # Panics
    /// If the slot is not below [`JOB_KINDS_MAX`]; in a constant, this fails the build.
    #[must_use]
    pub const fn new(slot: u8) -> JobKind {
        assert!((slot as usize) < JOB_KINDS_MAX, "the slot is below JOB_KINDS_MAX");
        JobKind(slot)
    }

    /// The slot.
    #[must_use]
    pub const fn slot(self) -> usize {
        self.0 as usize
    }
}

/// A background job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The number of the job: the first has 1, and later ones have higher numbers.
    pub id: u64,
    /// The kind of the job.
    pub kind: JobKind,
    /// The time at which it began.
    pub began: Ticks,
    /// The time at which it ended; none while it runs.
    pub ended: Option<Ticks>,
}

impl Job {
    /// True if it ran at any moment from `from` to `to`.
    fn overlaps(&self, from: Ticks, to: Ticks) -> bool {
        self.began <= to && self.ended.is_none_or(|ended| ended >= from)
    }

    /// Ticks for which it ran between `from` and `to`.
    pub(crate) fn ticks_within(&self, from: Ticks, to: Ticks) -> u64 {
        self.ended.unwrap_or(to).min(to).since(self.began.max(from))
    }
}

/// Sums over the jobs of one kind that have ended, and how many run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobTotals {
    /// Jobs that have ended.
    pub ended: u64,
    /// The sum of their run times.
    pub ticks: u64,
    /// Jobs that run now.
    pub running: u64,
}

/// The background jobs of a process or of one engine. Clones share the same jobs.
#[derive(Clone)]
pub struct Activity {
    shared: Arc<SharedJobs>,
}

struct SharedJobs {
    names: &'static [&'static str],
    jobs: Mutex<Jobs>,
}

struct Jobs {
    next_id: u64,
    running: Vec<Job>,
    /// The ended jobs, in the order of their ends.
    ended: VecDeque<Job>,
    totals: [JobTotals; JOB_KINDS_MAX],
}

impl std::fmt::Debug for Activity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Activity").field("running", &self.shared.jobs.lock().running).finish()
    }
}

impl Activity {
    /// An activity with these names of kinds, by slot; nothing runs yet.
    ///
    /// # Panics
    /// If there are more names than [`JOB_KINDS_MAX`].
    #[must_use]
    pub fn new(names: &'static [&'static str]) -> Activity {
        assert!(names.len() <= JOB_KINDS_MAX, "there are {JOB_KINDS_MAX} kinds at most");
        let jobs = Jobs {
            next_id: 1,
            running: Vec::new(),
            ended: VecDeque::new(),
            totals: [JobTotals::default(); JOB_KINDS_MAX],
        };
        Activity { shared: Arc::new(SharedJobs { names, jobs: Mutex::new(jobs) }) }
    }

    /// The names of the kinds, by slot.
    #[must_use]
    pub fn names(&self) -> &'static [&'static str] {
        self.shared.names
    }

    /// The name of a kind.
    #[must_use]
    pub fn name(&self, kind: JobKind) -> &'static str {
        self.shared.names.get(kind.slot()).copied().unwrap_or("unnamed")
    }

    /// Notes that a job begins now; it ends when the guard is dropped.
    #[must_use]
    pub fn begin(&self, kind: JobKind, clock: Clock) -> JobGuard {
        let mut jobs = self.shared.jobs.lock();
        // The clock is read under the lock, here and at the end, so that jobs are in its order.
        let job = Job { id: jobs.next_id, kind, began: clock.now(), ended: None };
        jobs.next_id += 1;
        jobs.running.push(job);
        jobs.totals[kind.slot()].running += 1;
        drop(jobs);
        JobGuard { activity: self.clone(), clock, id: job.id }
    }

    fn end(&self, id: u64, clock: Clock) {
        let mut jobs = self.shared.jobs.lock();
        let now = clock.now();
        let Some(place) = jobs.running.iter().position(|job| job.id == id) else { return };
        let mut job = jobs.running.swap_remove(place);
        job.ended = Some(now);
        let totals = &mut jobs.totals[job.kind.slot()];
        totals.running -= 1;
        totals.ended += 1;
        totals.ticks += now.since(job.began);
        if jobs.ended.len() == JOBS_KEPT {
            jobs.ended.pop_front();
        }
        jobs.ended.push_back(job);
    }

    /// The remembered jobs that ran at any moment from `from` to `to`, in the order of their
    /// numbers. If there are more than `limit`, running jobs are preferred, and then those that
    /// ended last.
    #[must_use]
    pub fn overlapping(&self, from: Ticks, to: Ticks, limit: usize) -> Vec<Job> {
        let jobs = self.shared.jobs.lock();
        let recent = jobs.ended.iter().rev();
        let recent = recent.take_while(|job| job.ended.is_some_and(|ended| ended >= from));
        let all = jobs.running.iter().chain(recent).filter(|job| job.overlaps(from, to));
        let mut found: Vec<Job> = all.take(limit).copied().collect();
        drop(jobs);
        found.sort_unstable_by_key(|job| job.id);
        found
    }

    /// The job of one of these kinds that ran longest between `from` and `to`: a request that
    /// waited for jobs of these kinds waited for this one.
    #[must_use]
    pub fn longest(&self, kinds: &[JobKind], from: Ticks, to: Ticks) -> Option<Job> {
        let overlapping = self.overlapping(from, to, JOBS_KEPT);
        let of_kind = overlapping.into_iter().filter(|job| kinds.contains(&job.kind));
        of_kind.max_by_key(|job| job.ticks_within(from, to))
    }

    /// The job with this number, if it is remembered.
    #[must_use]
    pub fn find(&self, id: u64) -> Option<Job> {
        let jobs = self.shared.jobs.lock();
        jobs.running.iter().chain(jobs.ended.iter().rev()).find(|job| job.id == id).copied()
    }

    /// The totals by kind, in the order of [`Activity::names`].
    #[must_use]
    pub fn totals(&self) -> Vec<JobTotals> {
        self.shared.jobs.lock().totals[..self.shared.names.len()].to_vec()
    }
}

/// A job that runs; dropping it ends the job.
#[derive(Debug)]
pub struct JobGuard {
    activity: Activity,
    clock: Clock,
    id: u64,
}

impl JobGuard {
    /// The number of the job.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for JobGuard {
    fn drop(&mut self) {
        self.activity.end(self.id, self.clock);
    }
}

/// The intervals in which each kind of job ran, for many queries at once.
#[derive(Default)]
pub(crate) struct Spans {
    /// The time before which nothing is known here.
    pub(crate) since: Ticks,
    /// The kinds that ran, each with its disjoint intervals in order.
    kinds: Vec<(usize, Vec<(Ticks, Ticks)>)>,
}

impl Spans {
    /// The intervals from `since` until `now`.
    pub(crate) fn of(activity: &Activity, since: Ticks, now: Ticks) -> Spans {
        let mut kinds: Vec<(usize, Vec<(Ticks, Ticks)>)> = Vec::new();
        let mut jobs = activity.overlapping(since, now, JOBS_KEPT);
        jobs.sort_unstable_by_key(|job| (job.kind.slot(), job.began));
        for job in jobs {
            let stretch = (job.began, job.ended.unwrap_or(Ticks(u64::MAX)));
            match kinds.last_mut() {
                Some((kind, stretches)) if *kind == job.kind.slot() => match stretches.last_mut() {
                    Some(last) if last.1 >= stretch.0 => last.1 = last.1.max(stretch.1),
                    _ => stretches.push(stretch),
                },
                _ => kinds.push((job.kind.slot(), vec![stretch])),
            }
        }
        Spans { since, kinds }
    }

    /// The kinds that ran at any moment from `from` to `to`: bit n is set for kind n.
    #[inline]
    pub(crate) fn mask(&self, from: Ticks, to: Ticks) -> u32 {
        let mut mask = 0;
        for (kind, stretches) in &self.kinds {
            let next = stretches.partition_point(|(_, ended)| *ended < from);
            if stretches.get(next).is_some_and(|(began, _)| *began <= to) {
                mask |= 1 << kind;
            }
        }
        mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_clock::SimulatedClock;
    use proptest::prelude::*;

    const FLUSH: JobKind = JobKind::new(0);
    const SYNC: JobKind = JobKind::new(1);
    const NAMES: &[&str] = &["flush", "sync"];

    #[test]
    fn jobs_are_numbered_found_and_summed() {
        let (time, activity) = (SimulatedClock::leaked(0), Activity::new(NAMES));
        time.advance_ns(100);
        let clock = Clock::simulated(time);
        let flush = activity.begin(FLUSH, clock);
        time.advance_ns(10);
        drop(activity.begin(SYNC, clock));
        time.advance_ns(10);
        let ids = |from, to| -> Vec<u64> {
            let jobs = activity.overlapping(Ticks(from), Ticks(to), 9);
            jobs.iter().map(|job| job.id).collect()
        };
        assert_eq!((ids(0, 99), ids(0, 105), ids(110, 110)), (vec![], vec![1], vec![1, 2]));
        assert_eq!(ids(111, 500), vec![1]);
        assert_eq!((flush.id(), activity.totals()[0].running), (1, 1));
        drop(flush);
        assert_eq!(activity.totals()[0], JobTotals { ended: 1, ticks: 20, running: 0 });
        assert_eq!(ids(121, 500), vec![]);
        let longest = activity.longest(&[FLUSH, SYNC], Ticks(0), Ticks(500)).unwrap();
        assert_eq!((longest.id, activity.name(longest.kind)), (1, "flush"));
        assert_eq!(activity.find(2).unwrap().ended, Some(Ticks(110)));
        assert_eq!(activity.find(3), None);
    }

    #[test]
    fn ended_jobs_are_bounded_and_running_ones_are_not_forgotten() {
        let (time, activity) = (SimulatedClock::leaked(0), Activity::new(NAMES));
        let clock = Clock::simulated(time);
        let long = activity.begin(FLUSH, clock);
        for _ in 0..JOBS_KEPT + 10 {
            time.advance_ns(1);
            drop(activity.begin(SYNC, clock));
        }
        assert_eq!(activity.overlapping(Ticks(0), Ticks(99_999), usize::MAX).len(), JOBS_KEPT + 1);
        assert!(activity.find(long.id()).is_some() && activity.find(2).is_none());
    }

    proptest! {
        #[test]
        fn spans_agree_with_the_jobs(
            jobs in proptest::collection::vec((0_u8..2, 0_u64..100, 0_u64..20), 0..30),
            from in 0_u64..120,
            length in 0_u64..30,
        ) {
            let (time, activity) = (SimulatedClock::leaked(0), Activity::new(NAMES));
            let clock = Clock::simulated(time);
            let mut borders: Vec<(u64, usize)> = Vec::new();
            for (index, (_, began, length)) in jobs.iter().enumerate() {
                borders.extend([(*began, index), (began + length, index)]);
            }
            borders.sort_unstable();
            let mut guards: Vec<Option<JobGuard>> = jobs.iter().map(|_| None).collect();
            let mut now = 0;
            for (at, index) in borders {
                time.advance_ns(at - now);
                now = at;
                guards[index] = match guards[index].take() {
                    Some(_ends) => None,
                    None => Some(activity.begin(JobKind::new(jobs[index].0), clock)),
                };
            }
            let to = from + length;
            let expected = jobs.iter().fold(0_u32, |mask, (kind, began, length)| {
                let overlaps = *began <= to && began + length >= from;
                if overlaps { mask | 1 << kind } else { mask }
            });
            let spans = Spans::of(&activity, Ticks(0), Ticks(1_000));
            prop_assert_eq!(spans.mask(Ticks(from), Ticks(to)), expected);
        }
    }
}

//! Background jobs of a store on a time axis: flushes, merges and collections with wall-clock
//! times, so that charts can show them beside the latencies of a load.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pellucid_account::{Account, JOBS_KEPT};
use pellucid_clock::Ticks;
use pellucid_report::Span;
use serde::{Deserialize, Serialize};

/// The kind of job that writes a memtable as a table.
pub(crate) const FLUSH: &str = "flush";
/// The kind of job that merges tables.
pub(crate) const COMPACTION: &str = "compaction";
/// The kind of job that collects the garbage of journal segments.
pub(crate) const COLLECTION: &str = "collection";

/// A job that has ended or is running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobSpan {
    /// [`FLUSH`], [`COMPACTION`] or [`COLLECTION`].
    pub(crate) kind: String,
    /// The time at which it began, in nanoseconds since 1970.
    pub(crate) began_unix_ns: u64,
    /// The time at which it ended, in nanoseconds since 1970; for a running job, the time of the
    /// observation.
    pub(crate) ended_unix_ns: u64,
}

/// A stretch of time in a study.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    /// The beginning, in nanoseconds since 1970.
    pub(crate) began_unix_ns: u64,
    /// The end, in nanoseconds since 1970.
    pub(crate) ended_unix_ns: u64,
}

impl Window {
    /// The window from a moment until now.
    pub(crate) fn since(began_unix_ns: u64) -> Window {
        Window { began_unix_ns, ended_unix_ns: unix_ns() }
    }

    /// The length in whole seconds, plus one.
    pub(crate) fn seconds(self) -> u64 {
        self.ended_unix_ns.saturating_sub(self.began_unix_ns) / 1_000_000_000 + 1
    }

    fn holds(self, job: &JobSpan) -> bool {
        job.began_unix_ns <= self.ended_unix_ns && job.ended_unix_ns >= self.began_unix_ns
    }

    /// The jobs that ran during the window, as spans in seconds since its beginning, cut to it.
    pub(crate) fn spans(self, jobs: &[JobSpan]) -> Vec<Span> {
        let seconds = |unix_ns: u64| {
            let within = unix_ns.clamp(self.began_unix_ns, self.ended_unix_ns);
            (within - self.began_unix_ns) as f64 / 1e9
        };
        let within = jobs.iter().filter(|job| self.holds(job));
        let mut spans: Vec<_> = within
            .map(|job| Span {
                from_seconds: seconds(job.began_unix_ns),
                to_seconds: seconds(job.ended_unix_ns),
                label: job.kind.clone(),
            })
            .collect();
        // Sort by kind, so that each kind always has the same lane in a chart.
        let lane = |span: &Span| {
            let order = [FLUSH, COMPACTION, COLLECTION];
            order.iter().position(|kind| *kind == span.label)
        };
        spans.sort_by_key(lane);
        spans
    }
}

/// The number of flushes and compactions.
pub(crate) fn counts(spans: &[Span]) -> [usize; 2] {
    [FLUSH, COMPACTION].map(|kind| spans.iter().filter(|span| span.label == kind).count())
}

/// The current time, in nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The kind of a job by its name in an account; `None` for jobs that charts do not mark.
fn kind_of(name: &str) -> Option<&'static str> {
    let kinds = [FLUSH, COMPACTION, COLLECTION];
    kinds.into_iter().find(|kind| name.starts_with(kind))
}

/// The jobs in the last `seconds` of an account.
pub(crate) fn of_account(account: &Account, seconds: u64) -> Vec<JobSpan> {
    let (clock, activity) = (account.clock(), account.activity());
    let (now, now_unix_ns) = (clock.now(), unix_ns());
    let since = Ticks(now.0.saturating_sub(clock.ticks(seconds.saturating_mul(1_000_000_000))));
    let unix = |at: Ticks| now_unix_ns.saturating_sub(clock.nanoseconds(now.since(at)));
    let jobs = activity.overlapping(since, now, JOBS_KEPT).into_iter().filter_map(|job| {
        Some(JobSpan {
            kind: kind_of(activity.name(job.kind))?.to_owned(),
            began_unix_ns: unix(job.began),
            ended_unix_ns: job.ended.map_or(now_unix_ns, unix),
        })
    });
    jobs.collect()
}

/// The number of jobs that are running, according to an account.
pub(crate) fn running(account: &Account) -> u64 {
    let activity = account.activity();
    let named = activity.names().iter().zip(activity.totals());
    named.filter(|(name, _)| kind_of(name).is_some()).map(|(_, totals)| totals.running).sum()
}

#[cfg(test)]
mod tests {
    use pellucid_account::{Accounting, Activity, JobKind, Names};
    use pellucid_clock::Clock;

    use super::*;

    fn job(kind: &str, began_unix_ns: u64, ended_unix_ns: u64) -> JobSpan {
        JobSpan { kind: kind.to_owned(), began_unix_ns, ended_unix_ns }
    }

    #[test]
    fn a_window_contains_the_jobs_that_overlap_it() {
        let window = Window { began_unix_ns: 10_000_000_000, ended_unix_ns: 20_000_000_000 };
        let jobs = [
            job(COMPACTION, 5_000_000_000, 11_000_000_000),
            job(FLUSH, 12_000_000_000, 12_500_000_000),
            job(FLUSH, 1, 9_999_999_999),
            job(COMPACTION, 19_000_000_000, 30_000_000_000),
        ];
        let spans = window.spans(&jobs);
        let told: Vec<_> =
            spans.iter().map(|s| (s.label.as_str(), s.from_seconds, s.to_seconds)).collect();
        assert_eq!(told, [(FLUSH, 2.0, 2.5), (COMPACTION, 0.0, 1.0), (COMPACTION, 9.0, 10.0)]);
        assert_eq!(window.seconds(), 11);
    }

    #[test]
    fn jobs_of_an_account_have_wall_clock_times() {
        const NAMES: &[&str] = &["flush", "compaction_l0", "sync"];
        let names = Names { operations: &[], outcomes: &[], parts: &[""; 8], other_parts: &[] };
        let account = Account::new(Accounting::Full, Clock::system(), names);
        let activity = Activity::new(NAMES);
        account.watch(activity.clone());
        let before = unix_ns();
        drop(activity.begin(JobKind::new(0), Clock::system()));
        drop(activity.begin(JobKind::new(2), Clock::system()));
        let merging = activity.begin(JobKind::new(1), Clock::system());
        assert_eq!(running(&account), 1);
        let jobs = of_account(&account, 3_600);
        let kinds: Vec<_> = jobs.iter().map(|job| job.kind.as_str()).collect();
        assert_eq!(kinds, [FLUSH, COMPACTION], "a sync is no mark");
        assert!(jobs.iter().all(|job| job.began_unix_ns <= job.ended_unix_ns));
        // The two times come from different clocks, which differ by much less than a second.
        assert!(jobs[0].began_unix_ns + 1_000_000_000 >= before);
        drop(merging);
        assert_eq!(running(&account), 0);
    }
}

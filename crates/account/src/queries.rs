//! Queries of the account about single requests, slow requests, and interference.

use pellucid_clock::Ticks;

use crate::account::Account;
use crate::activity::{Activity, JOBS_KEPT, Job};
use crate::interference::{Counts, Lift};
use crate::record::Record;
use crate::state::{Accounting, Names};
use crate::views::{InFlightView, InterferenceView, SlowOperation, Viewer};

/// The largest distance of drained records from the order of their ends, in nanoseconds. Drains are
/// 10 ms apart, but the draining thread may have to wait for a core.
const ORDER_SLACK_NS: u64 = 500_000_000;

/// The requests of the last seconds, and the jobs that ran beside them.
#[derive(Clone, Debug)]
pub struct RecentRequests {
    /// The requests that ended in that time, the newest last.
    pub records: Vec<Record>,
    /// The background jobs of that time, in the order of their numbers.
    pub jobs: Vec<Job>,
    /// The names of the jobs' kinds.
    pub activity: Activity,
    /// The beginning of the account, as the origin of times.
    pub began: Ticks,
    /// The time of the query.
    pub now: Ticks,
}

impl Account {
    /// The names of operations, outcomes and parts, by slot.
    #[must_use]
    pub fn names(&self) -> Names {
        self.shared.names
    }

    /// The background jobs, as set by [`Account::watch`].
    #[must_use]
    pub fn activity(&self) -> Activity {
        self.state().watch.activity.clone()
    }

    /// The requests that ended in the last `seconds`, as far as they are kept
    /// ([`crate::HISTORY_RECORDS`]); if there are more than `limit`, the newest ones.
    #[must_use]
    pub fn recent(&self, seconds: u64, limit: usize) -> RecentRequests {
        let mut state = self.state();
        let clock = self.shared.clock;
        let now = clock.now();
        let since = Ticks(now.0.saturating_sub(clock.ticks(seconds.saturating_mul(1_000_000_000))));
        let records = if self.shared.accounting == Accounting::Full {
            self.shared.drain_locked(&mut state);
            state.watch.history.since(since, self.slack(), limit)
        } else {
            // No thread drains the rings, so that they hold all that is known.
            let mut records = Vec::new();
            for reading in &state.rings {
                reading.ring.read_from(reading.ring.oldest(), u64::MAX, |record, _| {
                    if record.span().1 >= since {
                        records.push(*record);
                    }
                });
            }
            records.sort_by_key(|record| record.span().1);
            records.drain(..records.len().saturating_sub(limit));
            records
        };
        let activity = state.watch.activity.clone();
        let jobs = activity.overlapping(since, now, JOBS_KEPT);
        RecentRequests { records, jobs, activity, began: self.shared.began, now }
    }

    /// The requests that ended after `moment`, as far as they are kept, in the order of their ends.
    #[must_use]
    pub fn ended_after(&self, moment: Ticks) -> Vec<Record> {
        let state = self.drained();
        let mut records = state.watch.history.since(Ticks(moment.0 + 1), self.slack(), usize::MAX);
        drop(state);
        records.sort_by_key(|record| record.span().1);
        records
    }

    /// The slow requests of each operation that occurred: at most `limit` of the slowest, and of
    /// the newest. Empty unless accounting is `full`.
    #[must_use]
    pub fn slow(&self, limit: usize) -> Vec<SlowOperation> {
        let state = self.drained();
        let watch = &state.watch;
        let viewer = self.viewer(&watch.activity);
        let operations = (0_u8..).zip(&watch.slow.operations);
        let occurred = operations.filter(|(_, operation)| operation.requests > 0);
        occurred.map(|(slot, operation)| viewer.slow(slot, operation, limit)).collect()
    }

    /// The requests under way, the oldest first: those at which event loops work, and those that
    /// left their loops.
    #[must_use]
    pub fn in_flight(&self) -> Vec<InFlightView> {
        let state = self.state();
        let viewer = self.viewer(&state.watch.activity);
        let mut all = Vec::new();
        for reading in &state.rings {
            all.extend(reading.present.look());
            all.extend(reading.away.look());
        }
        all.sort_by_key(|request| request.received);
        // A request that came back between the two looks was seen twice.
        all.dedup_by_key(|request| request.request);
        let waits = pellucid_thread::waits();
        all.iter().map(|request| viewer.in_flight(request, &waits)).collect()
    }

    /// The interference of each kind of background job with requests: since the start, or in the
    /// last ten minutes.
    #[must_use]
    pub fn interference(&self, since_start: bool) -> Vec<InterferenceView> {
        let state = self.drained();
        let watch = &state.watch;
        let counts = match since_start {
            true => watch.interference.since_start(),
            false => watch.interference.lately(),
        };
        let viewer = self.viewer(&watch.activity);
        let operations = (0_u8..).zip(&counts).filter(|(_, counts)| counts.requests > 0);
        operations.map(|(slot, counts)| view(&viewer, slot, counts)).collect()
    }

    /// The value of [`ORDER_SLACK_NS`] in ticks.
    fn slack(&self) -> u64 {
        self.shared.clock.ticks(ORDER_SLACK_NS)
    }

    fn viewer<'a>(&self, activity: &'a Activity) -> Viewer<'a> {
        let (clock, names) = (self.shared.clock, self.shared.names);
        Viewer { clock, names, activity, now: clock.now() }
    }
}

fn view(viewer: &Viewer<'_>, slot: u8, counts: &Counts) -> InterferenceView {
    let kinds = viewer.activity.names().iter().enumerate();
    let met = kinds.filter(|(kind, _)| counts.beside[*kind] > 0);
    InterferenceView {
        operation: viewer.operation(slot),
        requests: counts.requests,
        slow: counts.slow,
        jobs: met.map(|(kind, name)| Lift::of(name, kind, counts)).collect(),
    }
}

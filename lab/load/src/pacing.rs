//! The times of a run, and the requests that are due by them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pellucid_clock::{Clock, Ticks};

use crate::recorder::Recorder;
use crate::schedule::{Plan, Schedule};

/// Requests that are due and not sent whose waits are noted one by one; later ones, which have
/// waited for less, are counted alone.
const NOTED_APART_MAX: u64 = 1_000_000;

/// Starts, delays and limits of a thread.
pub(crate) struct Pacing {
    plan: Option<Plan>,
    thread: usize,
    schedule: Option<Schedule>,
    /// Delays that the script has asked for.
    delays: BinaryHeap<Reverse<(Ticks, usize)>>,
    quota_left: u64,
    pub(crate) start: Ticks,
    pub(crate) deadline: Ticks,
}

impl Pacing {
    /// The pacing of a thread; without a plan, the loop is closed.
    pub(crate) fn new(plan: Option<Plan>, thread: usize, quota: Option<u64>) -> Pacing {
        Pacing {
            plan,
            thread,
            schedule: None,
            delays: BinaryHeap::new(),
            quota_left: quota.unwrap_or(u64::MAX),
            start: Ticks::default(),
            deadline: Ticks(u64::MAX),
        }
    }

    /// Begins at `start`, for so many ticks if that is known.
    pub(crate) fn begin(&mut self, clock: Clock, start: Ticks, duration_ticks: Option<u64>) {
        self.start = start;
        if let Some(ticks) = duration_ticks {
            self.deadline = Ticks(start.0.saturating_add(ticks));
        }
        let plan = self.plan.clone();
        self.schedule = plan.map(|plan| Schedule::new(plan, self.thread, clock, start));
    }

    /// Whether requests start at times that do not depend on answers.
    #[inline]
    pub(crate) fn is_paced(&self) -> bool {
        self.plan.is_some()
    }

    /// The next start.
    #[inline]
    pub(crate) fn next(&self) -> Option<Ticks> {
        self.schedule.as_ref().map(Schedule::next)
    }

    /// The next start, if it is due at `now`.
    #[inline]
    pub(crate) fn due(&self, now: Ticks) -> Option<Ticks> {
        self.next().filter(|due| *due <= now && *due < self.deadline && self.quota_left > 0)
    }

    /// Goes on to the start after the next.
    #[inline]
    pub(crate) fn advance(&mut self) {
        if let Some(schedule) = &mut self.schedule {
            schedule.advance();
        }
    }

    /// Whether the limit allows a further request.
    #[inline]
    pub(crate) fn has_quota(&self) -> bool {
        self.quota_left > 0
    }

    /// Takes as many of `sends` sends, each of so many requests, as the limit allows.
    #[inline]
    pub(crate) fn take_quota(&mut self, sends: usize, requests_per_send: usize) -> usize {
        let allowed = usize::try_from(self.quota_left).unwrap_or(usize::MAX);
        let sends = sends.min(allowed.div_ceil(requests_per_send));
        self.quota_left = self.quota_left.saturating_sub((sends * requests_per_send) as u64);
        sends
    }

    /// Notes that a connection waits until a time.
    pub(crate) fn delay(&mut self, until: Ticks, connection: usize) {
        self.delays.push(Reverse((until, connection)));
    }

    /// Takes the connection whose delay is over at `now`; otherwise the end of the next delay.
    pub(crate) fn take_delayed(&mut self, now: Ticks) -> Result<usize, Option<Ticks>> {
        match self.delays.peek() {
            Some(Reverse((until, index))) if *until <= now => {
                let index = *index;
                self.delays.pop();
                Ok(index)
            }
            next => Err(next.map(|Reverse((until, _))| *until)),
        }
    }

    /// Requests that are due by `end` and not sent.
    pub(crate) fn due_by(&self, end: Ticks) -> u64 {
        let due = self.schedule.as_ref().map_or(0, |schedule| schedule.requests_until(end));
        due.min(self.quota_left)
    }

    /// Notes the waits of requests that are due by `end` and not sent, and returns their number.
    pub(crate) fn note_unsent(
        &mut self,
        end: Ticks,
        requests_per_send: usize,
        recorder: &mut Recorder,
    ) -> u64 {
        let due = self.due_by(end);
        let Some(schedule) = &mut self.schedule else { return due };
        for number in 0..due.min(NOTED_APART_MAX) {
            if schedule.next() >= end {
                break;
            }
            recorder.unanswered(schedule.next(), end);
            if (number + 1) % requests_per_send as u64 == 0 {
                schedule.advance();
            }
        }
        due
    }
}

//! The pacing of a thread: its schedule, delays and limits, and the requests that are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pellucid_clock::{Clock, Ticks};

use crate::recorder::Recorder;
use crate::schedule::{Plan, Schedule};
use crate::wrk2_timers::{Pacer, SendDecision, Wrk2Timers};

/// The largest number of unsent requests whose waits are recorded one by one. Later ones, which by
/// a schedule have waited for less, are only counted.
const NOTED_APART_MAX: u64 = 1_000_000;

/// The starts, delays and limits of a thread.
pub(crate) struct Pacing {
    plan: Option<Plan>,
    thread: usize,
    schedule: Option<Schedule>,
    /// The timers of wrk2's pacing, instead of a schedule.
    timers: Option<Wrk2Timers>,
    connections: usize,
    /// The ends of delays, with their connections: those of the script or of wrk2's timers.
    delays: BinaryHeap<Reverse<(Ticks, usize)>>,
    quota_left: u64,
    pub(crate) start: Ticks,
    pub(crate) deadline: Ticks,
}

impl Pacing {
    /// The pacing of a thread with this number of connections. Without a plan, the loop is closed;
    /// `quota` is the number of requests that it may send.
    pub(crate) fn new(
        plan: Option<Plan>,
        thread: usize,
        connections: usize,
        quota: Option<u64>,
    ) -> Pacing {
        Pacing {
            plan,
            thread,
            connections,
            schedule: None,
            timers: None,
            delays: BinaryHeap::new(),
            quota_left: quota.unwrap_or(u64::MAX),
            start: Ticks::default(),
            deadline: Ticks(u64::MAX),
        }
    }

    /// Begins at `start`. `duration_ticks` is the length of a run that is limited by time.
    pub(crate) fn begin(&mut self, clock: Clock, start: Ticks, duration_ticks: Option<u64>) {
        self.start = start;
        if let Some(ticks) = duration_ticks {
            self.deadline = Ticks(start.0.saturating_add(ticks));
        }
        let Some(plan) = self.plan.clone() else { return };
        match (plan.pacer, plan.constant_rate) {
            (Pacer::Wrk2, Some(rate)) => {
                let rate = rate as f64 / plan.threads as f64;
                let batch = plan.requests_per_send;
                let timers = Wrk2Timers::new(clock, start, self.connections, rate, batch);
                self.timers = Some(timers);
            }
            _ => self.schedule = Some(Schedule::new(plan, self.thread, clock, start)),
        }
    }

    /// True if a schedule sets the starts and the next free connection takes each.
    #[inline]
    pub(crate) fn is_scheduled(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.pacer == Pacer::Exact)
    }

    /// True if requests start at times that do not depend on answers.
    #[inline]
    pub(crate) fn is_paced(&self) -> bool {
        self.plan.is_some()
    }

    /// With the pacing of wrk2: the next step of a free connection. A sleep is queued as a delay.
    pub(crate) fn turn(&mut self, connection: usize, now: Ticks) -> Option<SendDecision> {
        let turn = self.timers.as_mut()?.next(connection, now);
        if let SendDecision::Sleep(end) = turn {
            self.delay(end, connection);
        }
        Some(turn)
    }

    /// The wait from `now` until the next delay is over, at `end`, in nanoseconds.
    pub(crate) fn wait_ns(&self, clock: Clock, end: Ticks, now: Ticks) -> u64 {
        let exact = || clock.nanoseconds(end.since(now));
        self.timers.as_ref().map_or_else(exact, |timers| timers.wait_ns(end, now))
    }

    /// The next start of the schedule.
    #[inline]
    pub(crate) fn next(&self) -> Option<Ticks> {
        self.schedule.as_ref().map(Schedule::next)
    }

    /// The next start, if it is due at `now`.
    #[inline]
    pub(crate) fn due(&self, now: Ticks) -> Option<Ticks> {
        self.next().filter(|due| *due <= now && *due < self.deadline && self.quota_left > 0)
    }

    /// Moves the schedule on by one start.
    #[inline]
    pub(crate) fn advance(&mut self) {
        if let Some(schedule) = &mut self.schedule {
            schedule.advance();
        }
    }

    /// True if the limit allows another request.
    #[inline]
    pub(crate) fn has_quota(&self) -> bool {
        self.quota_left > 0
    }

    /// Takes as many of `sends` sends from the quota as it allows, and returns their number. Each
    /// send has `requests_per_send` requests.
    #[inline]
    pub(crate) fn take_quota(&mut self, sends: usize, requests_per_send: usize) -> usize {
        let allowed = usize::try_from(self.quota_left).unwrap_or(usize::MAX);
        let sends = sends.min(allowed.div_ceil(requests_per_send));
        self.quota_left = self.quota_left.saturating_sub((sends * requests_per_send) as u64);
        sends
    }

    /// Delays a connection until a time.
    pub(crate) fn delay(&mut self, until: Ticks, connection: usize) {
        self.delays.push(Reverse((until, connection)));
    }

    /// Takes a connection whose delay is over at `now`. The error is the end of the next delay, if
    /// there is one.
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

    /// The number of requests that are due by `end` and not sent.
    pub(crate) fn due_by(&self, end: Ticks) -> u64 {
        let scheduled = self.schedule.as_ref().map(|schedule| schedule.requests_until(end));
        let timed = self.timers.as_ref().map(|timers| timers.due_by(end));
        let due = scheduled.or(timed).unwrap_or(0);
        due.min(self.quota_left)
    }

    /// The earliest start that is due by `end` and not sent.
    pub(crate) fn oldest_due(&self, end: Ticks) -> Option<Ticks> {
        let timed = || self.timers.as_ref()?.oldest_due(end);
        self.next().or_else(timed).filter(|_| self.due_by(end) > 0)
    }

    /// Records the waits of requests that are due by `end` and not sent, and returns their number.
    pub(crate) fn note_unsent(
        &mut self,
        end: Ticks,
        requests_per_send: usize,
        recorder: &mut Recorder,
    ) -> u64 {
        let due = self.due_by(end);
        if let Some(timers) = &self.timers {
            let noted = usize::try_from(due.min(NOTED_APART_MAX)).unwrap_or(usize::MAX);
            timers.unsent_starts(end).take(noted).for_each(|start| recorder.unanswered(start, end));
        }
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

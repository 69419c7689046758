//! One thread of a run: its event loop, its clock hand, its connections.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use pellucid_clock::{Clock, Ticks};

use crate::READ_BUFFER_BYTES;
use crate::connection::{Connection, InFlight, Link, Opening};
use crate::direct::Directions;
use crate::error::LoadError;
use crate::http2::Answer;
use crate::poller::{Poller, wake_up_on_time};
use crate::punctuality::Punctuality;
use crate::recorder::{Recorder, Scope};
use crate::schedule::{Plan, Schedule};
use crate::script::ThreadScript;
use crate::source::RequestSource;
use crate::stages::Profile;
use crate::watch::Watcher;

/// How often rates are sampled, timeouts are looked for and lost connections are reopened.
const TICK: Duration = Duration::from_millis(100);
/// The shortest tick, for short timeouts.
const SHORTEST_TICK: Duration = Duration::from_millis(1);
/// Sends that are made one after the other before events are looked at.
const MAX_SENDS_PER_TURN: usize = 256;
/// Connections whose answers are read before the first of them is sent its next request.
const PUT_BY_MAX: usize = 32;
/// Connections that one thread opens at the same time, below the usual backlog of a listener.
const MAX_CONNECTING: usize = 64;
/// How long the connections may take to open before the run begins without the missing ones.
const OPENING_LIMIT: Duration = Duration::from_secs(5);
/// A run that is limited by requests ends when nothing was answered for this long.
const NO_PROGRESS_LIMIT: Duration = Duration::from_secs(30);

/// What a thread shares with the one that waits for it, and with its script.
#[derive(Debug, Default)]
pub(crate) struct ThreadControl {
    /// Raised to end the thread.
    pub(crate) stop: AtomicBool,
    /// Answers so far, for the progress.
    pub(crate) requests: AtomicU64,
    /// Errors so far, for the progress.
    pub(crate) errors: AtomicU64,
}

/// Where the bytes of requests come from.
pub(crate) enum Requests {
    /// Always the same bytes.
    Fixed { bytes: Vec<u8>, bodiless: bool },
    /// Always the same request of HTTP/2.
    FixedStream { request: http::Request<()>, body: Bytes },
    /// A source in Rust.
    Source(Box<dyn RequestSource>),
    /// The `request` function of the script.
    Script,
}

/// What a thread is asked to do.
pub(crate) struct Work {
    pub(crate) thread: usize,
    pub(crate) opening: Opening,
    pub(crate) requests: Requests,
    pub(crate) script: Option<ThreadScript>,
    /// Requests in what a script returns at once.
    pub(crate) requests_per_send: usize,
    /// Sends in flight on a connection, without a rate.
    pub(crate) depth: usize,
    /// Where requests go, if each goes to the owner of its key.
    pub(crate) directions: Option<Directions>,
    /// The places of the connections of this thread in the order of all connections.
    pub(crate) connections: Vec<usize>,
    /// When requests start; without it, the loop is closed.
    pub(crate) plan: Option<Plan>,
    /// How many connections are in use over time.
    pub(crate) profile: Arc<Profile>,
    /// Otherwise every request opens a connection of its own.
    pub(crate) keep_alive: bool,
    /// Whether watched requests ask the server for its account.
    pub(crate) ask_timing: bool,
    /// What tells the watched requests of this thread from those of others.
    pub(crate) seed: u64,
    /// Operations whose figures are kept apart.
    pub(crate) operations: usize,
    /// Statuses from 400 on that are no errors.
    pub(crate) accepted_statuses: Vec<u16>,
    /// Whether the source checks answers, and whether it must see them whole.
    pub(crate) checks: bool,
    pub(crate) wants_answers: bool,
    pub(crate) duration: Option<Duration>,
    /// Requests to send, in a run that is limited by them.
    pub(crate) quota: Option<u64>,
    pub(crate) timeout: Duration,
    pub(crate) warm_up: Duration,
    pub(crate) control: Arc<ThreadControl>,
    /// Raised by the caller of the run.
    pub(crate) stop: Arc<AtomicBool>,
}

/// What a thread hands back.
pub(crate) struct Outcome {
    pub(crate) recorder: Recorder,
    pub(crate) script: Option<ThreadScript>,
    pub(crate) directions: Option<Directions>,
    /// Requests that were due or under way at the end.
    pub(crate) unanswered: u64,
    pub(crate) stopped_early: bool,
    /// What has ended the thread before its time, if that was an error.
    pub(crate) failure: Option<LoadError>,
    /// Without what it took only in order to be on time.
    pub(crate) cpu_time: Duration,
}

/// The state of the loop.
pub(crate) struct Worker {
    pub(crate) work: Work,
    pub(crate) clock: Clock,
    pub(crate) poller: Poller,
    punctuality: Punctuality,
    pub(crate) connections: Vec<Connection>,
    pub(crate) buffer: Box<[u8]>,
    /// A request of HTTP/1.1 before it becomes one of HTTP/2.
    pub(crate) request_bytes: Vec<u8>,
    /// Answers of HTTP/2 that one read has completed.
    pub(crate) answers: Vec<Answer>,
    /// Requests of HTTP/2 that the server has left out, to be sent again before any other.
    pub(crate) left_out: VecDeque<InFlight>,
    /// Connections of this wake-up that go on when its answers are read.
    pub(crate) put_by: Vec<usize>,
    /// Whether they are put by, or go on at once.
    pub(crate) is_putting_by: bool,
    pub(crate) watcher: Watcher,
    pub(crate) recorder: Recorder,
    pub(crate) running: bool,
    pub(crate) schedule: Option<Schedule>,
    /// Connections that can take a request, in the order in which they became free, so that all
    /// are used alike. Some may be gone since.
    pub(crate) free: VecDeque<usize>,
    /// Connections in use now, over all threads.
    in_use: usize,
    pub(crate) start: Ticks,
    /// Delays that the script has asked for.
    pub(crate) delays: BinaryHeap<Reverse<(Ticks, usize)>>,
    pub(crate) quota_left: u64,
    pub(crate) timeout_ticks: u64,
    pub(crate) deadline: Ticks,
    next_tick: Ticks,
    tick_ticks: u64,
    last_progress: (Ticks, u64),
    stopped_early: bool,
}

impl Worker {
    pub(crate) fn new(work: Work, clock: Clock) -> Result<Worker, LoadError> {
        wake_up_on_time();
        let capture = work.opening.capture;
        let in_flight_limit = work.depth * work.requests_per_send;
        let sockets = work.connections.len() * work.directions.as_ref().map_or(1, |d| d.width());
        let connections = (0..sockets).map(|_| Connection::new(capture, in_flight_limit)).collect();
        let scope = Scope {
            apart: work.plan.is_some() || !work.keep_alive,
            expected_ns: work.duration.map_or(0, nanoseconds),
            operations: work.operations,
            accepted_statuses: work.accepted_statuses.clone(),
        };
        let rate =
            work.plan.as_ref().and_then(|plan| Some(plan.constant_rate? / plan.threads as u64));
        let watcher = Watcher::new(work.seed, work.ask_timing, rate);
        let tick = (work.timeout / 4).clamp(SHORTEST_TICK, TICK);
        let poller = match work.opening.simulation.clone() {
            Some(simulation) => Poller::simulated(simulation),
            None => Poller::new(),
        };
        let poller = poller.map_err(LoadError::system("wait for sockets"))?;
        Ok(Worker {
            clock,
            punctuality: poller.punctuality(),
            poller,
            connections,
            buffer: vec![0; READ_BUFFER_BYTES].into_boxed_slice(),
            request_bytes: Vec::new(),
            answers: Vec::new(),
            left_out: VecDeque::new(),
            put_by: Vec::with_capacity(PUT_BY_MAX),
            is_putting_by: false,
            watcher,
            recorder: Recorder::new(clock, scope),
            running: false,
            schedule: None,
            free: VecDeque::with_capacity(work.connections.len()),
            in_use: work.profile.connections_at(0.0),
            start: Ticks::default(),
            delays: BinaryHeap::new(),
            quota_left: work.quota.unwrap_or(u64::MAX),
            timeout_ticks: clock.ticks(nanoseconds(work.timeout)),
            deadline: Ticks(u64::MAX),
            next_tick: Ticks::default(),
            tick_ticks: clock.ticks(nanoseconds(tick)),
            last_progress: (Ticks::default(), 0),
            stopped_early: false,
            work,
        })
    }

    /// Opens all connections, as far as that goes, before any request is sent: opening them must
    /// not count as a latency of the first requests.
    pub(crate) fn open_connections(&mut self) -> Result<(), LoadError> {
        if !self.work.keep_alive {
            return Ok(());
        }
        let begin = self.clock.now();
        let limit_ticks = self.clock.ticks(nanoseconds(OPENING_LIMIT.min(self.work.timeout)));
        let mut next = 0;
        let last = (0..self.connections.len()).filter(|index| self.is_in_use(*index)).count();
        loop {
            let connecting = self.count_connecting();
            let all_begun = next == last;
            let late = self.clock.now().since(begin) > limit_ticks;
            if self.should_stop() || all_begun && connecting == 0 || late {
                return Ok(());
            }
            for _ in connecting..MAX_CONNECTING.min(connecting + last - next) {
                self.open(next);
                next += 1;
            }
            self.wait_and_handle(nanoseconds(SHORTEST_TICK))?;
        }
    }

    fn count_connecting(&self) -> usize {
        let connecting = |connection: &&Connection| match connection.link {
            Link::Connecting { .. } | Link::Securing { .. } => true,
            Link::Up => connection.http2.as_ref().is_some_and(|http2| !http2.is_ready()),
            Link::Down { .. } => false,
        };
        self.connections.iter().filter(connecting).count()
    }

    /// Runs from `start` until the limit, or until an error; what was measured until then counts.
    pub(crate) fn run(mut self, start: Ticks) -> Outcome {
        let cpu_before = self.poller.cpu_time();
        let mut failure = self.run_until_over(start).err();
        if failure.is_some() {
            self.stopped_early = true;
        }
        if self.work.script.as_ref().is_some_and(ThreadScript::has_ended) {
            failure = None;
            self.recorder.explain(|| {
                "the script's request() returned nothing, which ends its thread".to_owned()
            });
        }
        let end = self.clock.now().min(self.deadline);
        self.publish_progress();
        let unanswered = self.note_end(end);
        let awake = Duration::from_nanos(self.punctuality.awake_ns());
        let cpu_time = self.poller.cpu_time().saturating_sub(cpu_before).saturating_sub(awake);
        Outcome {
            recorder: self.recorder,
            script: self.work.script,
            directions: self.work.directions,
            unanswered,
            stopped_early: self.stopped_early,
            failure,
            cpu_time,
        }
    }

    fn run_until_over(&mut self, start: Ticks) -> Result<(), LoadError> {
        self.begin(start)?;
        let mut now = self.clock.now();
        while !self.is_over(now) {
            if now >= self.next_tick {
                self.tick(now)?;
            }
            let wait_ns = self.send_due(now)?;
            // Only who sends by a schedule has to wake up in time.
            let begin = self.schedule.is_some().then(|| self.clock.now());
            let events = self.wait_and_handle(wait_ns)?;
            now = self.clock.now();
            if let Some(begin) = begin.filter(|_| events == 0) {
                self.punctuality.note(wait_ns, self.clock.nanoseconds(now.since(begin)));
            }
        }
        Ok(())
    }

    fn begin(&mut self, start: Ticks) -> Result<(), LoadError> {
        self.running = true;
        self.start = start;
        self.recorder.begin(start, nanoseconds(self.work.warm_up));
        self.next_tick = Ticks(start.0 + self.tick_ticks);
        self.last_progress = (start, 0);
        if let Some(duration) = self.work.duration {
            let ticks = self.clock.ticks(nanoseconds(duration));
            self.deadline = Ticks(start.0.saturating_add(ticks));
        }
        if let Some(plan) = self.work.plan.clone() {
            self.schedule = Some(Schedule::new(plan, self.work.thread, self.clock, start));
        }
        self.refill_free(start);
        if self.schedule.is_some() || !self.work.keep_alive {
            return Ok(());
        }
        self.poller.spin_until(self.clock, start);
        (0..self.connections.len()).try_for_each(|index| self.advance(index))
    }

    /// Sends what is due by now, and returns how long to wait for the next.
    fn send_due(&mut self, now: Ticks) -> Result<u64, LoadError> {
        let mut wake_up = self.next_tick.min(self.deadline);
        if self.schedule.is_some() {
            for _ in 0..MAX_SENDS_PER_TURN {
                if !self.send_next(now)? {
                    break;
                }
            }
            // While every connection is busy, only an answer helps.
            let can_send = !self.free.is_empty() && self.quota_left > 0;
            if let Some(schedule) = self.schedule.as_ref().filter(|_| can_send) {
                wake_up = wake_up.min(schedule.next());
            }
            let wait_ns = self.clock.nanoseconds(wake_up.since(now));
            return Ok(wait_ns.saturating_sub(self.punctuality.awake_before_ns()));
        }
        while let Some(Reverse((time, index))) = self.delays.peek().copied() {
            if time > now {
                wake_up = wake_up.min(time);
                break;
            }
            self.delays.pop();
            self.connections[index].delayed = false;
            self.fill(index)?;
        }
        if now < self.start {
            wake_up = wake_up.min(self.start);
        }
        while !self.work.keep_alive && now >= self.start && self.quota_left > 0 {
            let Some(index) = self.take_free() else { break };
            self.begin_request(index, now)?;
        }
        Ok(self.clock.nanoseconds(wake_up.since(now)))
    }

    /// Whether a connection is among those that are in use now.
    pub(crate) fn is_in_use(&self, index: usize) -> bool {
        let place = match &self.work.directions {
            None => index,
            Some(directions) => index / directions.width(),
        };
        self.work.connections[place] < self.in_use
    }

    /// Whether a request can begin on a connection at `now`.
    #[inline]
    fn can_take(&self, index: usize, now: Ticks) -> bool {
        match self.work.directions {
            None => self.connections[index].can_take(self.work.keep_alive, now),
            Some(_) => self.has_room(index),
        }
    }

    /// Queues the connections that can take a request and do not stand in the queue yet.
    fn refill_free(&mut self, now: Ticks) {
        if self.schedule.is_none() && self.work.keep_alive {
            return;
        }
        for index in (0..self.connections.len()).step_by(self.width()) {
            let can_take = self.is_in_use(index) && self.can_take(index, now);
            let connection = &mut self.connections[index];
            if can_take && !connection.queued {
                connection.queued = true;
                self.free.push_back(index);
            }
        }
    }

    /// The connection that has been free for longest.
    pub(crate) fn take_free(&mut self) -> Option<usize> {
        while let Some(index) = self.free.pop_front() {
            self.connections[index].queued = false;
            // What stands in the queue can take a request unless it was lost meanwhile.
            if self.is_in_use(index) && self.can_take(index, Ticks(u64::MAX)) {
                return Some(index);
            }
        }
        None
    }

    /// Waits for at most so long; how much has happened.
    fn wait_and_handle(&mut self, wait_ns: u64) -> Result<usize, LoadError> {
        let count = self.poller.wait(wait_ns).map_err(LoadError::system("wait for sockets"))?;
        for index in 0..count {
            // Without a rate, the next requests are sent when the answers are read: a system call
            // costs less behind one of its own kind, and the server is woken for several at once.
            let place = index % PUT_BY_MAX;
            if place == 0 {
                self.is_putting_by = self.schedule.is_none() && count - index > 1;
            }
            if let Some(readiness) = self.poller.event(index) {
                self.handle(readiness)?;
            }
            if self.is_putting_by && (place == PUT_BY_MAX - 1 || index == count - 1) {
                self.send_put_by()?;
            }
        }
        Ok(count)
    }

    fn send_put_by(&mut self) -> Result<(), LoadError> {
        self.is_putting_by = false;
        let mut put_by = std::mem::take(&mut self.put_by);
        let outcome = put_by.drain(..).try_for_each(|index| self.advance(index));
        self.put_by = put_by;
        outcome
    }

    fn is_over(&mut self, now: Ticks) -> bool {
        if self.should_stop() {
            self.stopped_early = true;
            return true;
        }
        let Some(quota) = self.work.quota else { return now >= self.deadline };
        let done = self.recorder.requests + self.recorder.failed;
        let stuck = nanoseconds(NO_PROGRESS_LIMIT);
        if self.clock.nanoseconds(now.since(self.last_progress.0)) > stuck {
            self.stopped_early = true;
            self.recorder.explain(|| "no answer for 30 seconds: the run was given up".to_owned());
        }
        done >= quota || self.stopped_early || now >= self.deadline
    }

    fn should_stop(&self) -> bool {
        self.work.control.stop.load(Ordering::Relaxed) || self.work.stop.load(Ordering::Relaxed)
    }

    fn tick(&mut self, now: Ticks) -> Result<(), LoadError> {
        self.next_tick = Ticks(now.0 + self.tick_ticks);
        self.recorder.sample_rate(now);
        let tick_ns = self.clock.nanoseconds(self.tick_ticks);
        self.watcher.adapt(self.recorder.requests, tick_ns);
        self.punctuality.tick(self.poller.taken());
        self.publish_progress();
        if self.recorder.requests > self.last_progress.1 {
            self.last_progress = (now, self.recorder.requests);
        }
        self.note_backlog(now);
        let elapsed_ns = self.clock.nanoseconds(now.since(self.start));
        let in_use = self.work.profile.connections_at(elapsed_ns as f64);
        let grown = std::mem::replace(&mut self.in_use, in_use) < in_use;
        for index in 0..self.connections.len() {
            self.check_timeout(index, now)?;
            let (used, connection) = (self.is_in_use(index), &mut self.connections[index]);
            if !used && connection.is_idle() {
                connection.close(now);
            }
            let is_down = matches!(connection.link, Link::Down { retry_at } if retry_at <= now);
            if used && is_down && self.work.keep_alive {
                self.open(index);
            } else if used && grown && self.schedule.is_none() && self.work.keep_alive {
                self.advance(index)?;
            }
        }
        self.refill_free(now);
        if self.work.directions.is_some() && self.schedule.is_none() {
            // One whose request was lost with its owner goes on by way of the others.
            for index in (0..self.connections.len()).step_by(self.width()) {
                self.advance(index)?;
            }
        }
        Ok(())
    }

    pub(crate) fn note_backlog(&mut self, now: Ticks) {
        let backlog = self.due_by(now);
        self.recorder.set_backlog(now, backlog);
    }

    fn publish_progress(&self) {
        let errors = &self.recorder.errors;
        self.work.control.requests.store(self.recorder.requests, Ordering::Relaxed);
        self.work.control.errors.store(errors.all(), Ordering::Relaxed);
    }
}

/// A duration in nanoseconds; 584 years and more are all the same.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

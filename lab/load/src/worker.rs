//! A worker thread of a run: its event loop, its schedule and its connections.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pellucid_clock::{Clock, Ticks};

use crate::READ_BUFFER_BYTES;
use crate::connection::{PendingRequest, SocketState};
use crate::control::ThreadControl;
use crate::error::LoadError;
use crate::http2::Answer;
use crate::pacing::Pacing;
use crate::poller::wake_up_on_time;
use crate::pool::{Pool, PoolPlan};
use crate::recorder::{Recorder, RecorderSettings};
use crate::request_factory::RequestFactory;
use crate::request_routing::RequestRouting;
use crate::schedule::Plan;
use crate::script::ThreadScript;
use crate::trace_sampler::TraceSampler;
use crate::units::nanoseconds;
use crate::waits::{LOOK_PAUSE, Waits};
use crate::wake_up_lateness::WakeUpLateness;

/// The interval at which rates are sampled, timeouts are checked and lost connections are reopened.
const TICK: Duration = Duration::from_millis(100);
/// The shortest tick, for short timeouts.
const SHORTEST_TICK: Duration = Duration::from_millis(1);
/// The largest number of sends in a row before the loop checks for events.
const MAX_SENDS_PER_TURN: usize = 256;
/// The largest number of deferred connections: their answers are read before the first of them
/// sends its next request.
const PUT_BY_MAX: usize = 32;
/// The largest number of connections that one thread opens at the same time; below the usual
/// backlog of a listener.
const MAX_CONNECTING: usize = 64;
/// The longest time to wait for connections to open; after that, the run begins without the missing
/// ones.
const OPENING_LIMIT: Duration = Duration::from_secs(5);
/// A run that is limited by a number of requests is given up if no answer came for this long.
const NO_PROGRESS_LIMIT: Duration = Duration::from_secs(30);

/// The task of a worker thread.
pub(crate) struct WorkerTask {
    pub(crate) thread: usize,
    pub(crate) pool: PoolPlan,
    pub(crate) maker: RequestFactory,
    /// The largest number of sends in flight on a connection: the pipeline depth or, with HTTP/2,
    /// the number of streams.
    pub(crate) depth: usize,
    /// The schedule of the starts of requests; `None` in a closed loop.
    pub(crate) plan: Option<Plan>,
    pub(crate) watcher: TraceSampler,
    pub(crate) scope: RecorderSettings,
    pub(crate) limits: Limits,
}

/// The conditions that end a thread.
pub(crate) struct Limits {
    pub(crate) duration: Option<Duration>,
    /// The number of requests to send, in a run that is limited by requests.
    pub(crate) quota: Option<u64>,
    pub(crate) timeout: Duration,
    pub(crate) warm_up: Duration,
    pub(crate) control: Arc<ThreadControl>,
    /// Set by the caller to end the run early.
    pub(crate) stop: Arc<AtomicBool>,
}

impl Limits {
    fn should_stop(&self) -> bool {
        self.control.stop.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed)
    }
}

/// The outcome of a worker thread.
pub(crate) struct Outcome {
    pub(crate) recorder: Recorder,
    pub(crate) script: Option<ThreadScript>,
    pub(crate) directions: Option<RequestRouting>,
    /// Requests that were due or in flight at the end, or that ended without an answer before.
    pub(crate) unanswered: u64,
    pub(crate) stopped_early: bool,
    /// The error that ended the thread early, if an error did.
    pub(crate) failure: Option<LoadError>,
    /// Processor time, without the time that the thread stayed awake only to send on time.
    pub(crate) cpu_time: Duration,
    /// The waits of the thread for a processor.
    pub(crate) waits: Waits,
}

/// The state of a worker thread's event loop.
pub(crate) struct Worker {
    pub(crate) clock: Clock,
    limits: Limits,
    pub(crate) depth: usize,
    pub(crate) pool: Pool,
    pub(crate) maker: RequestFactory,
    pub(crate) pacing: Pacing,
    pub(crate) watcher: TraceSampler,
    pub(crate) recorder: Recorder,
    punctuality: WakeUpLateness,
    pub(crate) buffer: Box<[u8]>,
    /// HTTP/2 answers that a turn has completed; empty between turns, kept for its capacity.
    pub(crate) answers: Vec<Answer>,
    /// HTTP/2 requests that the server refused without processing them, to be sent again before any
    /// other.
    pub(crate) left_out: VecDeque<PendingRequest>,
    /// Deferred connections of this wake-up: they send after the answers of all of them are read.
    pub(crate) put_by: Vec<usize>,
    /// True if connections are deferred to `put_by`, instead of sending at once.
    pub(crate) is_putting_by: bool,
    pub(crate) timeout_ticks: u64,
    next_tick: Ticks,
    tick_ticks: u64,
    last_progress: (Ticks, u64),
    stopped_early: bool,
    own_waits: OwnWaits,
}

/// The waits of this thread for a processor, by its own readings of the kernel's count.
#[derive(Default)]
struct OwnWaits {
    waits: Waits,
    seen_ns: u64,
    next_look: Ticks,
}

impl Worker {
    pub(crate) fn new(work: WorkerTask, clock: Clock) -> Result<Worker, LoadError> {
        wake_up_on_time();
        let WorkerTask { thread, pool, maker, depth, plan, watcher, scope, limits } = work;
        let in_flight_limit = depth * maker.requests_per_send;
        let pacing = Pacing::new(plan, thread, pool.places.len(), limits.quota);
        let pool = Pool::new(pool, clock, in_flight_limit, pacing.is_scheduled());
        let pool = pool.map_err(LoadError::system("wait for sockets"))?;
        let tick = (limits.timeout / 4).clamp(SHORTEST_TICK, TICK);
        Ok(Worker {
            clock,
            depth,
            punctuality: pool.poller.punctuality(),
            pool,
            maker,
            pacing,
            watcher,
            recorder: Recorder::new(clock, scope),
            buffer: vec![0; READ_BUFFER_BYTES].into_boxed_slice(),
            answers: Vec::new(),
            left_out: VecDeque::new(),
            put_by: Vec::with_capacity(PUT_BY_MAX),
            is_putting_by: false,
            timeout_ticks: clock.ticks(nanoseconds(limits.timeout)),
            next_tick: Ticks::default(),
            tick_ticks: clock.ticks(nanoseconds(tick)),
            last_progress: (Ticks::default(), 0),
            stopped_early: false,
            own_waits: OwnWaits::default(),
            limits,
        })
    }

    /// Opens the connections before any request is sent, until all are open or the time limit is
    /// over. The time to open them must not count as latency of the first requests.
    pub(crate) fn open_connections(&mut self) -> Result<(), LoadError> {
        if !self.pool.plan.keep_alive {
            return Ok(());
        }
        let begin = self.clock.now();
        let limit_ticks = self.clock.ticks(nanoseconds(OPENING_LIMIT.min(self.limits.timeout)));
        let mut next = 0;
        let last =
            (0..self.pool.connections.len()).filter(|index| self.pool.is_in_use(*index)).count();
        loop {
            let connecting = self.pool.count_connecting();
            let all_begun = next == last;
            let late = self.clock.now().since(begin) > limit_ticks;
            if self.limits.should_stop() || all_begun && connecting == 0 || late {
                return Ok(());
            }
            for _ in connecting..MAX_CONNECTING.min(connecting + last - next) {
                self.pool.open(next, &mut self.recorder);
                next += 1;
            }
            self.wait_and_handle(nanoseconds(SHORTEST_TICK))?;
        }
    }

    /// Runs from `start` until the limit or an error; keeps what was measured until then.
    pub(crate) fn run(mut self, start: Ticks) -> Outcome {
        let cpu_before = self.pool.poller.cpu_time();
        let mut failure = self.run_until_over(start).err();
        if failure.is_some() {
            self.stopped_early = true;
        }
        if self.maker.has_ended() {
            failure = None;
            self.recorder.explain(|| {
                "the script's request() returned nothing, which ends its thread".to_owned()
            });
        }
        let end = self.clock.now().min(self.pacing.deadline);
        self.publish_progress();
        let unanswered = self.note_end(end);
        let awake = Duration::from_nanos(self.punctuality.awake_ns());
        let cpu_time = self.pool.poller.cpu_time().saturating_sub(cpu_before).saturating_sub(awake);
        Outcome {
            recorder: self.recorder,
            script: self.maker.into_script(),
            directions: self.pool.plan.directions,
            unanswered,
            stopped_early: self.stopped_early,
            failure,
            cpu_time,
            waits: self.own_waits.waits,
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
            // Only a thread that sends by a schedule has to wake up on time.
            let begin = self.pacing.is_scheduled().then(|| self.clock.now());
            let events = self.wait_and_handle(wait_ns)?;
            now = self.clock.now();
            if now >= self.own_waits.next_look {
                self.look_at_waits(now);
            }
            if let Some(begin) = begin.filter(|_| events == 0) {
                self.punctuality.note(wait_ns, self.clock.nanoseconds(now.since(begin)));
            }
        }
        Ok(())
    }

    /// Records how long the thread waited for a processor since the last reading.
    fn look_at_waits(&mut self, now: Ticks) {
        let waited_ns = self.pool.poller.waited_ns();
        let own = &mut self.own_waits;
        let since_ns = waited_ns.saturating_sub(std::mem::replace(&mut own.seen_ns, waited_ns));
        own.next_look = Ticks(now.0 + self.clock.ticks(nanoseconds(LOOK_PAUSE)));
        own.waits.note(self.clock.nanoseconds(now.since(self.pacing.start)), since_ns);
    }

    fn begin(&mut self, start: Ticks) -> Result<(), LoadError> {
        self.pool.is_running = true;
        self.recorder.begin(start, nanoseconds(self.limits.warm_up));
        self.next_tick = Ticks(start.0 + self.tick_ticks);
        self.last_progress = (start, 0);
        self.own_waits.seen_ns = self.pool.poller.waited_ns();
        let duration_ticks = self.limits.duration.map(|d| self.clock.ticks(nanoseconds(d)));
        self.pacing.begin(self.clock, start, duration_ticks);
        self.pool.refill(start);
        if self.pacing.is_scheduled() || !self.pool.plan.keep_alive {
            return Ok(());
        }
        self.pool.poller.spin_until(self.clock, start);
        (0..self.pool.connections.len()).try_for_each(|index| self.advance(index))
    }

    /// Sends the requests that are due at `now`. Returns the time to wait for the next one, in
    /// nanoseconds.
    fn send_due(&mut self, now: Ticks) -> Result<u64, LoadError> {
        let mut wake_up = self.next_tick.min(self.pacing.deadline);
        if self.pacing.is_scheduled() {
            for _ in 0..MAX_SENDS_PER_TURN {
                if !self.send_next(now)? {
                    break;
                }
            }
            // While every connection is busy, only an answer allows a send.
            let can_send = self.pool.has_free() && self.pacing.has_quota();
            if let Some(next) = self.pacing.next().filter(|_| can_send) {
                wake_up = wake_up.min(next);
            }
            let wait_ns = self.clock.nanoseconds(wake_up.since(now));
            return Ok(wait_ns.saturating_sub(self.punctuality.awake_before_ns()));
        }
        loop {
            match self.pacing.take_delayed(now) {
                Ok(index) => {
                    self.pool.connections[index].delayed = false;
                    match self.pacing.is_paced() {
                        true => self.advance(index)?,
                        false => self.fill(index)?,
                    }
                }
                Err(next) => {
                    let end = next.map(|end| {
                        let wait_ns = self.pacing.wait_ns(self.clock, end, now);
                        Ticks(now.0 + self.clock.ticks(wait_ns))
                    });
                    wake_up = end.map_or(wake_up, |end| wake_up.min(end));
                    break;
                }
            }
        }
        let start = self.pacing.start;
        if now < start {
            wake_up = wake_up.min(start);
        }
        while !self.pool.plan.keep_alive && now >= start && self.pacing.has_quota() {
            let Some(index) = self.pool.take_free() else { break };
            self.begin_request(index, now)?;
        }
        Ok(self.clock.nanoseconds(wake_up.since(now)))
    }

    /// Waits for events for at most `wait_ns` nanoseconds and handles them. Returns their number.
    fn wait_and_handle(&mut self, wait_ns: u64) -> Result<usize, LoadError> {
        let count =
            self.pool.poller.wait(wait_ns).map_err(LoadError::system("wait for sockets"))?;
        for index in 0..count {
            // Without a rate, the next requests are sent after the answers of several connections
            // were read: system calls of one kind in a row cost less, and the server is woken once
            // for several requests.
            let place = index % PUT_BY_MAX;
            if place == 0 {
                self.is_putting_by = !self.pacing.is_scheduled() && count - index > 1;
            }
            if let Some(readiness) = self.pool.poller.event(index) {
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
        if self.limits.should_stop() {
            self.stopped_early = true;
            return true;
        }
        let Some(quota) = self.limits.quota else { return now >= self.pacing.deadline };
        let done = self.recorder.requests + self.recorder.failed;
        let stuck = nanoseconds(NO_PROGRESS_LIMIT);
        if self.clock.nanoseconds(now.since(self.last_progress.0)) > stuck {
            self.stopped_early = true;
            self.recorder.explain(|| "no answer for 30 seconds: the run was given up".to_owned());
        }
        done >= quota || self.stopped_early || now >= self.pacing.deadline
    }

    fn tick(&mut self, now: Ticks) -> Result<(), LoadError> {
        self.next_tick = Ticks(now.0 + self.tick_ticks);
        self.recorder.sample_rate(now);
        let tick_ns = self.clock.nanoseconds(self.tick_ticks);
        self.watcher.adapt(self.recorder.requests, tick_ns);
        self.punctuality.tick(self.pool.poller.taken());
        self.publish_progress();
        if self.recorder.requests > self.last_progress.1 {
            self.last_progress = (now, self.recorder.requests);
        }
        self.note_backlog(now);
        let elapsed_ns = self.clock.nanoseconds(now.since(self.pacing.start));
        let grown = self.pool.use_as_at(elapsed_ns);
        let keep_alive = self.pool.plan.keep_alive;
        for index in 0..self.pool.connections.len() {
            self.check_timeout(index, now)?;
            let used = self.pool.is_in_use(index);
            let connection = &mut self.pool.connections[index];
            if !used && connection.is_idle() {
                connection.close(now);
            }
            let is_down =
                matches!(connection.link, SocketState::Down { retry_at } if retry_at <= now);
            if used && is_down && keep_alive {
                self.pool.open(index, &mut self.recorder);
            } else if used && grown && !self.pacing.is_scheduled() && keep_alive {
                self.advance(index)?;
            }
        }
        self.pool.refill(now);
        if self.pool.plan.directions.is_some() && !self.pacing.is_paced() {
            // A connection whose request was lost with the owner's socket goes on over its other
            // sockets.
            self.pool.firsts().try_for_each(|index| self.advance(index))?;
        }
        Ok(())
    }

    fn note_backlog(&mut self, now: Ticks) {
        let backlog = self.pacing.due_by(now);
        self.recorder.set_backlog(now, backlog);
    }

    /// Records the waits of the requests that were due by `end` and have no answer. Returns their
    /// number, plus that of requests that ended without an answer before. Histograms of answers
    /// alone would not show a server that falls silent in the middle of a run.
    fn note_end(&mut self, end: Ticks) -> u64 {
        self.note_backlog(end);
        let waiting_since = self.waiting_since(end);
        let mut outstanding = 0;
        let connections = &self.pool.connections;
        let in_flight = connections.iter().flat_map(|connection| &connection.in_flight);
        let intended = in_flight.chain(&self.left_out).map(|request| request.intended);
        let pending = connections.iter().filter_map(|connection| connection.pending);
        for intended in intended.chain(pending) {
            outstanding += 1;
            self.recorder.unanswered(intended, end);
        }
        let per_send = self.maker.requests_per_send;
        let due = self.pacing.note_unsent(end, per_send, &mut self.recorder);
        self.recorder.finish(end, waiting_since);
        self.recorder.failed + outstanding + due
    }

    /// The earliest time since which the thread waits for an answer; `None` if it waits for none.
    fn waiting_since(&self, end: Ticks) -> Option<Ticks> {
        let connections = &self.pool.connections;
        let oldest = connections.iter().filter_map(|connection| connection.in_flight.front());
        let sent = oldest.chain(&self.left_out).map(|request| request.sent);
        let pending = connections.iter().filter_map(|connection| connection.pending);
        let earliest = sent.chain(pending).chain(self.pacing.oldest_due(end)).min();
        // A closed loop would send another request, but one of its connections is down.
        let cannot_ask =
            !self.pacing.is_paced() && self.pacing.has_quota() && self.pool.lacks_one();
        earliest.or_else(|| cannot_ask.then_some(self.pacing.start))
    }

    fn publish_progress(&self) {
        let errors = &self.recorder.errors;
        self.limits.control.requests.store(self.recorder.requests, Ordering::Relaxed);
        self.limits.control.errors.store(errors.all(), Ordering::Relaxed);
    }
}

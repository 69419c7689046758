//! The profiler: it samples processor time, always at a low rate and at a higher rate on request,
//! and keeps the history of all kinds of samples.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pellucid_thread::{Job, PeriodicThread, monotonic_ns};

use crate::handler;
use crate::heap::in_use;
use crate::heap_snapshots::{HeapSnapshots, MOMENT_PAUSE};
use crate::history::{HISTORY_SAMPLES_MAX, History};
use crate::profile::{Kind, Profile, Sample};
use crate::ring::Ring;
use crate::timed_samples;
use crate::timers::Timers;

/// The usual rate, in samples per second of processor time. It divides no common frequency, so that
/// samples do not fall into step with periodic work.
pub const USUAL_HERTZ: u32 = 19;
/// The rate while a profile is recorded, unless another is asked for.
pub const RECORDING_HERTZ: u32 = 99;
/// The highest rate that can be asked for.
pub const HERTZ_MAX: u32 = 999;
/// The most samples that are kept with their times, for each of allocations, waits, and waits by
/// holder.
const COUNTED_SAMPLES_MAX: usize = 20_000;
/// The age up to which the end of a requested interval counts as now. A caller that asks for a heap
/// profile up to now is answered a little later.
const NOW_NS: u64 = 500_000_000;
/// The interval at which the rings are emptied.
const DRAIN_PAUSE: Duration = Duration::from_millis(100);
/// The number of drains between two scans for new threads.
const DRAINS_PER_SCAN: u32 = 2;

static PROFILING: Job = Job::new("profiling");
/// The running profiler. A process has at most one, because there is one signal for it.
static RUNNING: Mutex<Weak<ProfilerThread>> = Mutex::new(Weak::new());

/// A ring and the history of the samples that were fetched from it.
struct RingHistory {
    ring: &'static Ring,
    next: u64,
    history: History,
}

/// Indexes of [`State::kept`].
const CPU: usize = 0;
const ALLOCATIONS: usize = 1;
const WAITS: usize = 2;
const HELD: usize = 3;

struct State {
    timers: Timers,
    kept: [RingHistory; 4],
    heap: HeapSnapshots,
    usual_hertz: u32,
    /// The number of each [`Boost`] and its rate in samples per second.
    boosts: Vec<(u64, u32)>,
    boosts_ever: u64,
}

struct ProfilerThread {
    state: Arc<Mutex<State>>,
    _thread: PeriodicThread,
}

/// A handle of the profiler of this process. Dropping the last handle stops the profiler.
#[derive(Clone)]
pub struct Profiler {
    inner: Arc<ProfilerThread>,
}

/// A guard that holds a higher sampling rate until it is dropped.
#[must_use = "the rate falls back when this is dropped"]
pub struct Boost {
    number: u64,
    state: Arc<Mutex<State>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Profiler {
    /// Starts sampling at `hertz`, which is clamped to 1 up to [`HERTZ_MAX`]. If a profiler runs
    /// already, returns another handle of it and ignores `hertz`.
    ///
    /// # Errors
    /// If SIGPROF has another handler, the list of threads cannot be read, or no thread can be
    /// started.
    pub fn start(hertz: u32) -> io::Result<Profiler> {
        let mut running = lock(&RUNNING);
        if let Some(inner) = running.upgrade() {
            return Ok(Profiler { inner });
        }
        let ring = handler::install()?;
        let usual_hertz = hertz.clamp(1, HERTZ_MAX);
        handler::set_period(period_ns(usual_hertz));
        let mut timers = Timers::new(period_ns(usual_hertz));
        timers.scan()?;
        let [allocations, waits, held] = timed_samples::install();
        let mut heap = HeapSnapshots::default();
        heap.push(monotonic_ns(), in_use());
        let state = State {
            timers,
            kept: [
                RingHistory::new(ring, HISTORY_SAMPLES_MAX),
                RingHistory::new(allocations, COUNTED_SAMPLES_MAX),
                RingHistory::new(waits, COUNTED_SAMPLES_MAX),
                RingHistory::new(held, COUNTED_SAMPLES_MAX),
            ],
            heap,
            usual_hertz,
            boosts: Vec::new(),
            boosts_ever: 0,
        };
        let state = Arc::new(Mutex::new(state));
        let thread = start_thread(Arc::clone(&state))?;
        let inner = Arc::new(ProfilerThread { state, _thread: thread });
        *running = Arc::downgrade(&inner);
        Ok(Profiler { inner })
    }

    /// The current time on the clock of the samples: nanoseconds of the monotonic clock.
    #[must_use]
    pub fn now_ns() -> u64 {
        monotonic_ns()
    }

    /// The usual rate, in samples per second of processor time; zero if sampling is off.
    #[must_use]
    pub fn usual_hertz(&self) -> u32 {
        lock(&self.inner.state).usual_hertz
    }

    /// Sets the usual rate to `hertz`; zero switches sampling off. A [`Boost`] with a higher rate
    /// prevails. Samples taken so far are kept.
    pub fn set_usual_hertz(&self, hertz: u32) {
        let mut state = lock(&self.inner.state);
        state.usual_hertz = hertz.min(HERTZ_MAX);
        state.apply_rate();
    }

    /// Raises the rate to at least `hertz` until the returned guard is dropped. Threads that were
    /// started since the last scan are included at once.
    pub fn boost(&self, hertz: u32) -> Boost {
        let mut state = lock(&self.inner.state);
        // If the list of threads cannot be read, the known threads are sampled.
        let _ = state.timers.scan();
        state.boosts_ever += 1;
        let number = state.boosts_ever;
        state.boosts.push((number, hertz.clamp(1, HERTZ_MAX)));
        state.apply_rate();
        drop(state);
        Boost { number, state: Arc::clone(&self.inner.state) }
    }

    /// The samples of processor time from `from_ns` up to `to_ns`, as far as they are kept.
    #[must_use]
    pub fn cpu(&self, from_ns: u64, to_ns: u64) -> Profile {
        self.past(Kind::Cpu, from_ns, to_ns)
    }

    /// Takes a snapshot of the memory in use now, so that [`Profiler::past`] is exact for this
    /// moment.
    pub fn note_heap(&self) {
        lock(&self.inner.state).heap.push(monotonic_ns(), in_use());
    }

    /// The samples of the time from `from_ns` up to `to_ns`, as far as they are kept. For
    /// [`Kind::Heap`]: the growth of the memory in use in that time, between snapshots that are
    /// [`MOMENT_PAUSE`] apart; if `from_ns` is zero, all memory in use at `to_ns`.
    #[must_use]
    pub fn past(&self, kind: Kind, from_ns: u64, to_ns: u64) -> Profile {
        let place = match kind {
            Kind::Cpu => CPU,
            Kind::Allocations => ALLOCATIONS,
            Kind::Block => WAITS,
            Kind::Mutex => HELD,
            Kind::Heap => return self.past_heap(from_ns, to_ns),
        };
        let mut state = lock(&self.inner.state);
        state.drain();
        let State { kept, timers, .. } = &*state;
        let history = &kept[place].history;
        let samples = history.between(from_ns, to_ns).map(|(kept, stack)| Sample {
            stack,
            labels: kept.labels,
            thread: timers.name(kept.thread).to_owned(),
            at_ns: kept.at_ns,
            events: kept.events as f64,
            amount: kept.amount as f64,
        });
        let samples = samples.collect();
        let since_ns = history.since_ns().max(from_ns);
        // Losses are noticed at the next drain, so they are recorded later than they happen.
        let found_ns = to_ns.saturating_add(2 * DRAIN_PAUSE.as_nanos() as u64);
        Profile {
            kind,
            samples,
            began_ns: since_ns,
            duration_ns: to_ns.min(monotonic_ns()).saturating_sub(since_ns),
            lost: history.lost_between(from_ns, found_ns),
            missing_ns: history.missing_ns(from_ns, to_ns),
        }
    }

    fn past_heap(&self, from_ns: u64, to_ns: u64) -> Profile {
        let now_ns = monotonic_ns();
        let mut state = lock(&self.inner.state);
        if to_ns.saturating_add(NOW_NS) < now_ns {
            return state.heap.between(from_ns, to_ns);
        }
        state.heap.push(now_ns, in_use());
        state.heap.between(from_ns, now_ns)
    }
}

fn period_ns(hertz: u32) -> u64 {
    1_000_000_000 / u64::from(hertz)
}

impl State {
    fn apply_rate(&mut self) {
        let asked = self.boosts.iter().map(|(_, hertz)| *hertz).max().unwrap_or(0);
        let hertz = asked.max(self.usual_hertz);
        if hertz == 0 {
            self.timers.set_period(0);
            return;
        }
        let period_ns = period_ns(hertz);
        self.timers.set_period(period_ns);
        handler::set_period(period_ns);
    }

    fn drain(&mut self) {
        self.kept.iter_mut().for_each(RingHistory::drain);
    }
}

impl RingHistory {
    /// Skips the samples that are in the ring already: they are those of an earlier profiler.
    fn new(ring: &'static Ring, samples_max: usize) -> RingHistory {
        let (next, _) = ring.read_from(0, |_| {});
        RingHistory { ring, next, history: History::new(samples_max, monotonic_ns()) }
    }

    fn drain(&mut self) {
        let RingHistory { ring, next, history } = self;
        let (to, lost) = ring.read_from(*next, |sample| history.push(sample));
        *next = to;
        history.note_lost(monotonic_ns(), lost);
        history.resolve_early();
    }
}

/// Starts the thread that empties the rings, notes the memory in use, and scans for new threads.
fn start_thread(state: Arc<Mutex<State>>) -> io::Result<PeriodicThread> {
    let mut drains = 0_u32;
    let mut next_moment_ns = monotonic_ns() + MOMENT_PAUSE.as_nanos() as u64;
    PeriodicThread::start("pellucid-cpu", &PROFILING, DRAIN_PAUSE, move || {
        let mut state = lock(&state);
        state.drain();
        drains += 1;
        if monotonic_ns() >= next_moment_ns {
            state.heap.push(monotonic_ns(), in_use());
            next_moment_ns += MOMENT_PAUSE.as_nanos() as u64;
        }
        if drains.is_multiple_of(DRAINS_PER_SCAN) {
            // If the list of threads cannot be read, the known threads are still sampled.
            let _ = state.timers.scan();
        }
    })
}

impl Drop for Boost {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.boosts.retain(|(number, _)| *number != self.number);
        state.apply_rate();
    }
}

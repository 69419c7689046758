//! Deterministic simulation of threads: they take turns in an order that a seed decides, so that a
//! test with threads can be repeated.
//!
//! The threads of a simulation are real ones, but only one of them runs at a time. At each lock,
//! condition, start and end of a thread, and at each [`switch_point`], the seed decides which
//! thread runs next. So a seed determines the order of all interactions of the threads, except
//! those by atomics between two such points. Time passes when all threads wait, up to the first
//! deadline; short waits may also end before that.
//!
//! Outside of a simulation, each hook costs one load of a counter that is zero. It is not a feature
//! of the crate, because all crates above would have to be compiled with it and without.
//!
//! The method is that of FoundationDB's simulation and of AWS' `shuttle`, with the locks of this
//! crate.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::scheduler::Scheduler;

/// The number of simulations that run in this process.
static SIMULATIONS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The simulation in which this thread takes part, and its number there.
    static CURRENT: RefCell<Option<(Arc<Scheduler>, usize)>> = const { RefCell::new(None) };
}

/// The simulation of this thread, and its number there; none outside of simulations.
#[inline]
fn current() -> Option<(Arc<Scheduler>, usize)> {
    if SIMULATIONS.load(Ordering::Relaxed) == 0 { None } else { current_of_thread() }
}

#[cold]
fn current_of_thread() -> Option<(Arc<Scheduler>, usize)> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

fn set(new: Option<(Arc<Scheduler>, usize)>) -> Option<(Arc<Scheduler>, usize)> {
    CURRENT.with(|current| current.replace(new))
}

/// Runs `work` as the first thread of a simulation, whose decisions come from `random`. Threads
/// that it starts with [`crate::spawn`] take part, and must be joined. `on_time` is called with the
/// nanoseconds that pass when all threads wait.
///
/// # Panics
/// If `work` panics. If all threads wait for each other, the process ends with a message: the
/// threads cannot be unwound.
pub fn simulate<T>(
    random: impl FnMut() -> u64 + Send + 'static,
    on_time: impl Fn(u64) + Send + Sync + 'static,
    work: impl FnOnce() -> T,
) -> T {
    let scheduler = Arc::new(Scheduler::new(Box::new(random), Box::new(on_time)));
    SIMULATIONS.fetch_add(1, Ordering::Relaxed);
    let before = set(Some((scheduler, 0)));
    let outcome = catch_unwind(AssertUnwindSafe(work));
    set(before);
    SIMULATIONS.fetch_sub(1, Ordering::Relaxed);
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// The number of decisions so far in this thread's simulation, and a checksum of them. Two runs
/// with the same seed have the same values.
#[must_use]
pub fn decisions() -> (u64, u64) {
    current().map_or((0, 0), |(scheduler, _)| scheduler.decisions())
}

/// Lets another thread of the simulation run, if the seed decides so.
pub fn switch_point() {
    point();
}

/// Runs `work` outside of the simulation, as if it took no time. It must not wait for a thread of
/// the simulation.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    let before = set(None);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    set(before);
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

#[inline]
pub(crate) fn is_simulated() -> bool {
    current().is_some()
}

/// The time that has passed in this thread's simulation, in nanoseconds; none outside of
/// simulations.
pub(crate) fn now_ns() -> Option<u64> {
    current().map(|(scheduler, _)| scheduler.now_ns())
}

/// A point at which another thread may run. A thread that is unwinding is not interrupted.
#[inline]
pub(crate) fn point() {
    if let Some((scheduler, thread)) = current().filter(|_| !std::thread::panicking()) {
        scheduler.point(thread);
    }
}

#[inline]
pub(crate) fn took(address: usize) {
    if let Some((scheduler, _)) = current() {
        scheduler.took(address);
    }
}

#[inline]
pub(crate) fn gave_back(address: usize) {
    if let Some((scheduler, _)) = current() {
        scheduler.gave_back(address);
    }
}

#[inline]
pub(crate) fn wake(address: usize, all: bool) {
    if let Some((scheduler, _)) = current() {
        scheduler.wake(address, all);
    }
}

/// Calls `attempt` until it returns a value, and waits at `address` in between. None outside of
/// simulations.
pub(crate) fn wait_for<T>(address: usize, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let (scheduler, thread) = current()?;
    loop {
        if let Some(outcome) = attempt() {
            return Some(outcome);
        }
        if scheduler.is_taken(address) {
            scheduler.wait(thread, address, None);
        } else {
            // A thread outside of this simulation holds it for a moment.
            std::thread::yield_now();
        }
    }
}

/// Waits until the waits at `address` are woken; true if `timeout` passed first.
pub(crate) fn wait(address: usize, timeout: Option<Duration>) -> bool {
    current().is_some_and(|(scheduler, thread)| scheduler.wait(thread, address, timeout))
}

/// A thread that is going to be started, in the simulation of its parent if there is one.
pub(crate) struct Child(Option<(Arc<Scheduler>, usize)>);

impl std::fmt::Debug for Child {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Child").field(&self.0.as_ref().map(|(_, thread)| thread)).finish()
    }
}

impl Child {
    pub(crate) fn register(name: &str) -> Child {
        Child(current().map(|(scheduler, _)| {
            let thread = scheduler.register(name);
            (scheduler, thread)
        }))
    }

    /// Runs `work` on the thread when its turn comes.
    pub(crate) fn run<T>(self, work: impl FnOnce() -> T) -> T {
        let Some((scheduler, thread)) = self.0 else { return work() };
        set(Some((Arc::clone(&scheduler), thread)));
        scheduler.begin(thread);
        let outcome = catch_unwind(AssertUnwindSafe(work));
        set(None);
        scheduler.end(thread);
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }

    pub(crate) fn twin(&self) -> Child {
        Child(self.0.clone())
    }

    /// Waits until the thread has ended.
    pub(crate) fn wait_for_end(&self) {
        if let (Some((scheduler, thread)), Some((_, own))) = (&self.0, current()) {
            scheduler.wait_for_end(own, *thread);
        }
    }

    /// Notes that the thread could not be started.
    pub(crate) fn cancel(&self) {
        if let Some((scheduler, thread)) = &self.0 {
            scheduler.cancel(*thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{Condvar, Mutex, RwLock, spawn};

    /// Simulates `work` with a linear congruential generator. Returns its result, and the simulated
    /// time that passed.
    fn run<T: Send + 'static>(seed: u64, work: fn() -> T) -> (T, u64) {
        let mut state = seed;
        let random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        };
        let passed = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let sum = Arc::clone(&passed);
        let on_time = move |ns| {
            sum.fetch_add(ns, std::sync::atomic::Ordering::Relaxed);
        };
        // On a separate thread, so that this one is not part of the simulation.
        let outcome = std::thread::spawn(move || simulate(random, on_time, work)).join().unwrap();
        (outcome, passed.load(std::sync::atomic::Ordering::Relaxed))
    }

    /// Two threads that read a number, and then write it plus one: an update may be lost.
    fn lose_an_update() -> (u64, (u64, u64)) {
        let sum = Arc::new(Mutex::new(0));
        let threads = [0; 2].map(|_| {
            let sum = Arc::clone(&sum);
            spawn("adder", move || {
                let read = *sum.lock();
                *sum.lock() = read + 1;
            })
            .unwrap()
        });
        for thread in threads {
            thread.join().unwrap();
        }
        let sum = *sum.lock();
        (sum, decisions())
    }

    #[test]
    fn seeds_find_a_race_and_repeat_it() {
        let runs: Vec<_> = (0..50).map(|seed| run(seed, lose_an_update).0).collect();
        let sums: HashSet<_> = runs.iter().map(|(sum, _)| *sum).collect();
        assert_eq!(sums, HashSet::from([1, 2]));
        let again: Vec<_> = (0..50).map(|seed| run(seed, lose_an_update).0).collect();
        assert_eq!(runs, again);
    }

    #[test]
    fn waits_end_by_a_notification_or_by_simulated_time() {
        let long = Duration::from_secs(3_600);
        let outcomes: HashSet<_> = (0..20)
            .map(|seed| {
                run(seed, || {
                    let shared = Arc::new((Mutex::new(false), Condvar::new(), RwLock::new(0)));
                    let other = Arc::clone(&shared);
                    let thread = spawn("notifier", move || {
                        *other.2.write() += 1;
                        *other.0.lock() = true;
                        other.1.notify_one();
                    });
                    let (lock, condition, number) = &*shared;
                    let guard = lock.lock();
                    let still = |done: &mut bool| !*done;
                    let long = Duration::from_secs(3_600);
                    let (guard, result) = condition.wait_timeout_while(guard, long, still);
                    assert!(*guard && !result.timed_out() && *number.read() == 1);
                    drop(guard);
                    thread.unwrap().join().unwrap();
                    let guard = lock.lock();
                    let (_guard, result) = condition.wait_timeout(guard, long);
                    result.timed_out()
                })
            })
            .collect();
        assert_eq!(outcomes, HashSet::from([(true, long.as_nanos() as u64)]));
    }

    /// Regression: the deadline of a repeated wait followed the clock of the machine, so that a
    /// wait of 100 simulated seconds that was woken after 60 lasted 160.
    #[test]
    fn the_deadline_of_a_repeated_wait_is_simulated() {
        for seed in 0..20 {
            let outcome = run(seed, || {
                let shared = Arc::new((Mutex::new(()), Condvar::new(), Condvar::new()));
                let other = Arc::clone(&shared);
                let waker = spawn("waker", move || {
                    let guard = other.0.lock();
                    let wait = other.2.wait_timeout(guard, Duration::from_secs(60));
                    assert!(wait.1.timed_out());
                    other.1.notify_all();
                });
                let guard = shared.0.lock();
                let limit = Duration::from_secs(100);
                let (guard, result) = shared.1.wait_timeout_while(guard, limit, |()| true);
                drop(guard);
                waker.unwrap().join().unwrap();
                result.timed_out()
            });
            assert_eq!(outcome, (true, 100_000_000_000));
        }
    }

    #[test]
    fn a_panic_is_returned_by_join() {
        let (outcome, _) = run(1, || {
            let lock = Arc::new(Mutex::new(()));
            let held = Arc::clone(&lock);
            let thread = spawn("panics", move || {
                let _guard = held.lock();
                panic!("on purpose");
            });
            let is_panic = thread.unwrap().join().is_err();
            let _guard = lock.lock();
            is_panic
        });
        assert!(outcome);
    }
}

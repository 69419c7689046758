//! The worker threads for calls that may take long: queries, imports, arrays of documents.
//!
//! Calls come from event loops, which must not block, and their replies return there. The time that
//! a call waits for a thread is its `queue` phase, which `x-arango-queue-time-seconds` reports.
//!
//! If calls occupy all threads for longer than a second, further threads are started, up to a
//! bound, so that other calls do not wait for them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pellucid_account::Phase;
use pellucid_clock::{Clock, Ticks};
use pellucid_thread::{Condvar, Mutex, ParkedWork, WaitKind, run_contained};

/// The most calls that may wait for a thread, unless the operator sets it. ArangoDB has the same
/// default.
pub(crate) const QUEUED_CALLS_MAX: usize = 4_096;

/// The most bytes of bodies of calls that wait.
pub(crate) const QUEUED_BYTES_MAX: usize = 2 << 30;

/// The least number of regular threads.
const THREADS_MIN: usize = 8;

/// The number of regular threads for each core.
const THREADS_PER_CORE: usize = 4;

/// The most threads that stand in for others whose calls pause.
const STAND_INS_MAX: usize = 1_024;

/// The time that a call waits, while all threads are busy, before a further thread is started.
const STALL: Duration = Duration::from_secs(1);

/// The most further threads.
const FURTHER_MAX: usize = 56;

/// The time after which an idle further thread ends.
const FURTHER_REST: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce(u64) + Send>;

/// The kind of a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ThreadKind {
    Regular,
    /// It stands in for a thread whose call pauses.
    StandIn,
    /// It was started because all others were busy for long.
    Further,
}

/// A job that waits for a thread.
struct QueuedJob {
    job: Job,
    put_down: ParkedWork,
    bytes: usize,
    since: Ticks,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<QueuedJob>,
    bytes: usize,
    /// Delayed jobs, by the time at which they are due and then by the order of their arrival.
    due: BTreeMap<(Ticks, u64), QueuedJob>,
    due_count: u64,
    is_closed: bool,
    /// The number of threads whose calls pause.
    resting: usize,
    /// The number of threads that stand in for them.
    stand_ins: usize,
    /// The number of further threads.
    further: usize,
    /// The number of threads that wait for a job.
    idle: usize,
    /// The number of threads of all kinds.
    threads: usize,
}

struct PoolState {
    queue: Mutex<Queue>,
    /// Signals threads that there is a job, or that they may end.
    arrived: Condvar,
    /// Signals the watching thread that a job waits and no thread is idle.
    unattended: Condvar,
    /// Signals that a thread has ended.
    ended: Condvar,
    clock: Clock,
    last_queued_ns: AtomicU64,
    queued_calls_max: usize,
}

/// A pool of worker threads.
pub(crate) struct Pool {
    shared: Arc<PoolState>,
}

impl Pool {
    pub(crate) fn start(clock: Clock, queued_calls_max: usize) -> io::Result<Pool> {
        let shared = Arc::new(PoolState {
            queue: Mutex::default(),
            arrived: Condvar::for_work(),
            unattended: Condvar::for_work(),
            ended: Condvar::for_work(),
            clock,
            last_queued_ns: AtomicU64::new(0),
            queued_calls_max,
        });
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let pool = Pool { shared };
        for number in 0..(cores * THREADS_PER_CORE).max(THREADS_MIN) {
            pool.shared.start(format!("pellucid-call-{number}"), ThreadKind::Regular)?;
        }
        let shared = Arc::clone(&pool.shared);
        let watch = std::thread::Builder::new().name("pellucid-call-watch".to_owned());
        watch.spawn(move || shared.attend())?;
        Ok(pool)
    }

    /// Returns a function that a thread calls with true when its call pauses, as in `SLEEP`, and
    /// with false when it resumes. In between, another thread stands in for it.
    pub(crate) fn resting(&self) -> Arc<dyn Fn(bool) + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Arc::new(move |begins| shared.rest(begins))
    }

    /// Queues `job`, which a thread calls with the nanoseconds that it waited. `bytes` is the size
    /// of the call's body. Returns false, and drops the job, if too many jobs or bytes wait or the
    /// pool is stopped.
    pub(crate) fn try_run(&self, bytes: usize, job: impl FnOnce(u64) + Send + 'static) -> bool {
        let mut queue = self.shared.queue.lock();
        let is_full = queue.jobs.len() >= self.shared.queued_calls_max
            || queue.bytes + bytes > QUEUED_BYTES_MAX;
        if is_full || queue.is_closed {
            return false;
        }
        queue.bytes += bytes;
        let put_down = ParkedWork::put_down(WaitKind::Thread);
        let since = self.shared.clock.now();
        queue.jobs.push_back(QueuedJob { job: Box::new(job), put_down, bytes, since });
        let is_unattended = queue.jobs.len() == queue.idle + 1;
        drop(queue);
        self.shared.arrived.notify_one();
        if is_unattended {
            self.shared.unattended.notify_one();
        }
        true
    }

    /// Queues `job` to run after a pause, during which it occupies no thread. It is for a further
    /// attempt of a call that was accepted before, so no limit applies. If the pool is stopped, the
    /// job is dropped, because nobody waits for the call any more.
    pub(crate) fn run_after(&self, pause: Duration, job: impl FnOnce(u64) + Send + 'static) {
        let clock = self.shared.clock;
        let pause_ns = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
        let mut queue = self.shared.queue.lock();
        if queue.is_closed {
            return;
        }
        let put_down = ParkedWork::put_down(WaitKind::Thread);
        let since = Ticks(clock.now().0.saturating_add(clock.ticks(pause_ns)));
        queue.due_count += 1;
        let turn = (since, queue.due_count);
        queue.due.insert(turn, QueuedJob { job: Box::new(job), put_down, bytes: 0, since });
        drop(queue);
        // The thread that wakes up waits no longer than until the job is due.
        self.shared.arrived.notify_one();
    }

    /// The time that the last call taken by a thread had waited, in nanoseconds.
    pub(crate) fn last_queued_ns(&self) -> u64 {
        self.shared.last_queued_ns.load(Ordering::Relaxed)
    }

    /// True if the queue is at least three quarters full.
    pub(crate) fn is_busy(&self) -> bool {
        self.shared.queue.lock().jobs.len() * 4 >= self.shared.queued_calls_max * 3
    }

    /// Ends the threads, after they have finished their jobs and all delayed jobs. Calls that no
    /// thread has taken are dropped, because nobody waits for their replies any more.
    pub(crate) fn stop(&self) {
        let mut queue = self.shared.queue.lock();
        queue.is_closed = true;
        let left = std::mem::take(&mut queue.jobs);
        queue.bytes -= left.iter().map(|queued| queued.bytes).sum::<usize>();
        drop(queue);
        drop(left);
        self.shared.arrived.notify_all();
        self.shared.unattended.notify_all();
        let mut queue = self.shared.queue.lock();
        while queue.threads > 0 {
            queue = self.shared.ended.wait(queue);
        }
    }
}

impl PoolState {
    /// Notes that a call pauses (true) or resumes (false).
    fn rest(self: &Arc<Self>, begins: bool) {
        let mut queue = self.queue.lock();
        if !begins {
            queue.resting -= 1;
            drop(queue);
            // A thread that stands in is not needed any more.
            self.arrived.notify_all();
            return;
        }
        queue.resting += 1;
        if queue.stand_ins >= queue.resting.min(STAND_INS_MAX) {
            return;
        }
        queue.stand_ins += 1;
        drop(queue);
        if self.start("pellucid-call-in".to_owned(), ThreadKind::StandIn).is_err() {
            // The system cannot start a thread, so calls wait longer.
            self.queue.lock().stand_ins -= 1;
        }
    }

    /// Starts a thread.
    fn start(self: &Arc<Self>, name: String, duty: ThreadKind) -> io::Result<()> {
        let shared = Arc::clone(self);
        self.queue.lock().threads += 1;
        let work = move || {
            shared.work(duty);
            shared.queue.lock().threads -= 1;
            shared.ended.notify_all();
        };
        let started = std::thread::Builder::new().name(name).spawn(work);
        if started.is_err() {
            self.queue.lock().threads -= 1;
        }
        started.map(drop)
    }

    /// Starts a further thread whenever a call has waited for [`STALL`], until the pool is closed.
    fn attend(self: &Arc<Self>) {
        let mut queue = self.queue.lock();
        while !queue.is_closed {
            let Some(first) = queue.jobs.front() else {
                queue = self.unattended.wait(queue);
                continue;
            };
            let waited = self.clock.nanoseconds(self.clock.now().since(first.since));
            let left = STALL.saturating_sub(Duration::from_nanos(waited));
            if left.is_zero() && queue.idle == 0 && queue.further < FURTHER_MAX {
                queue.further += 1;
                drop(queue);
                let started = self.start("pellucid-call-more".to_owned(), ThreadKind::Further);
                queue = self.queue.lock();
                queue.further -= usize::from(started.is_err());
            }
            // After a start, look again soon: the next call may have waited for as long.
            let pause = if left.is_zero() { STALL / 4 } else { left };
            let woken = self.unattended.wait_timeout(queue, pause);
            queue = woken.0;
        }
    }

    fn work(&self, duty: ThreadKind) {
        while let Some(queued) = self.next(duty) {
            let waited = self.clock.nanoseconds(self.clock.now().since(queued.since));
            self.last_queued_ns.store(waited, Ordering::Relaxed);
            let _taken_up = queued.put_down.take_up(Phase::Execute.label());
            // A call that panics ends its request, but not the thread.
            run_contained(|| (queued.job)(waited));
        }
    }

    /// Takes a job that can run now. Delayed jobs that are due come first; once the pool is closed,
    /// all of them are due.
    fn take(&self, queue: &mut Queue) -> Option<QueuedJob> {
        let queued = match queue.due.first_entry() {
            Some(first) if queue.is_closed || first.key().0 <= self.clock.now() => {
                let due = first.remove();
                if !queue.jobs.is_empty() {
                    // A call arrived that expected this idle thread to take it.
                    self.unattended.notify_one();
                }
                due
            }
            _ => queue.jobs.pop_front()?,
        };
        queue.bytes -= queued.bytes;
        if !queue.due.is_empty() {
            // This thread waited for the next due job; another one has to do that now.
            self.arrived.notify_one();
        }
        Some(queued)
    }

    /// Wakes another thread if a thread that ends was woken for a job.
    fn pass_on(&self, queue: &Queue) {
        if !queue.jobs.is_empty() {
            self.arrived.notify_one();
            self.unattended.notify_one();
        }
    }

    /// Waits for the next job; `None` if the thread has to end.
    fn next(&self, duty: ThreadKind) -> Option<QueuedJob> {
        let (mut queue, mut is_rested) = (self.queue.lock(), false);
        loop {
            if duty == ThreadKind::StandIn && (queue.stand_ins > queue.resting || queue.is_closed) {
                queue.stand_ins -= 1;
                self.pass_on(&queue);
                return None;
            }
            if let Some(queued) = self.take(&mut queue) {
                return Some(queued);
            }
            if queue.is_closed || (duty == ThreadKind::Further && is_rested) {
                queue.further -= usize::from(duty == ThreadKind::Further);
                return None;
            }
            let next_due = queue.due.first_key_value().map(|((at, _), _)| *at);
            let until_due = next_due
                .map(|at| Duration::from_nanos(self.clock.nanoseconds(at.since(self.clock.now()))));
            let most = (duty == ThreadKind::Further).then_some(FURTHER_REST);
            queue.idle += 1;
            (queue, is_rested) = match until_due.into_iter().chain(most).min() {
                None => (self.arrived.wait(queue), false),
                Some(pause) => {
                    let woken = self.arrived.wait_timeout(queue, pause);
                    let (queue, timeout) = woken;
                    (queue, timeout.timed_out() && most == Some(pause))
                }
            };
            queue.idle -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::mpsc::channel;

    /// A pool whose threads, except `idle` of them, are occupied until the barrier is reached by
    /// them and by `others`.
    fn occupied_pool(idle: usize, others: usize) -> (Arc<Pool>, Arc<Barrier>) {
        let pool = Arc::new(Pool::start(Clock::system(), QUEUED_CALLS_MAX).unwrap());
        let busy = pool.shared.queue.lock().threads - idle;
        let end = Arc::new(Barrier::new(busy + others));
        for _ in 0..busy {
            let end = Arc::clone(&end);
            assert!(pool.try_run(0, move |_| {
                end.wait();
            }));
        }
        (pool, end)
    }

    /// Regression: sleeping queries occupied all threads, and no other call was answered.
    #[test]
    fn calls_that_pause_do_not_hold_up_others() {
        let pool = Arc::new(Pool::start(Clock::system(), QUEUED_CALLS_MAX).unwrap());
        let (sender, receiver) = channel();
        let count = pool.shared.queue.lock().threads + 3;
        let all_there = Arc::new(Barrier::new(count));
        for number in 0..count {
            let (sender, all_there) = (sender.clone(), Arc::clone(&all_there));
            let resting = pool.resting();
            assert!(pool.try_run(0, move |_| {
                resting(true);
                // No call resumes before all have come.
                all_there.wait();
                resting(false);
                sender.send(number).unwrap();
            }));
        }
        drop(sender);
        assert_eq!(receiver.iter().count(), count);
        pool.stop();
    }

    /// Regression: eight calls that did not end occupied all threads, and no other call was
    /// answered.
    #[test]
    fn calls_that_do_not_end_do_not_hold_up_others() {
        let (pool, end) = occupied_pool(0, 1);
        let (sender, receiver) = channel();
        for number in 0..10 {
            let sender = sender.clone();
            assert!(pool.try_run(0, move |_| sender.send(number).unwrap()));
        }
        for _ in 0..10 {
            receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        assert!(pool.shared.queue.lock().further >= 1);
        end.wait();
        pool.stop();
        let queue = pool.shared.queue.lock();
        assert_eq!((queue.threads, queue.further, queue.bytes), (0, 0, 0));
    }

    /// Regression: a call and a delayed job that became due at the same time both expected the only
    /// idle thread, and the call waited until that job ended.
    #[test]
    fn a_call_that_arrives_with_a_due_job_gets_a_thread() {
        let (pool, end) = occupied_pool(1, 2);
        let is_ready = |queue: &Queue| queue.jobs.is_empty() && queue.idle == 1;
        while !is_ready(&pool.shared.queue.lock()) {
            std::thread::yield_now();
        }
        // By then the watching thread has seen the empty queue, too.
        std::thread::sleep(2 * STALL);
        let (sender, receiver) = channel();
        let since = pool.shared.clock.now();
        let queued = |job: Box<dyn FnOnce(u64) + Send>| {
            let put_down = ParkedWork::put_down(WaitKind::Thread);
            QueuedJob { job, put_down, bytes: 0, since }
        };
        let lasting = Arc::clone(&end);
        let mut queue = pool.shared.queue.lock();
        let lasts = move |_| {
            lasting.wait();
        };
        queue.due.insert((since, 0), queued(Box::new(lasts)));
        queue.jobs.push_back(queued(Box::new(move |_| sender.send(()).unwrap())));
        drop(queue);
        pool.shared.arrived.notify_one();
        receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        end.wait();
        pool.stop();
    }

    /// Regression: a stop waited for queued calls whose clients were gone.
    #[test]
    fn queued_calls_are_dropped_at_a_stop() {
        let (pool, end) = occupied_pool(0, 1);
        while !pool.shared.queue.lock().jobs.is_empty() {
            std::thread::yield_now();
        }
        let (sender, receiver) = channel();
        assert!(pool.try_run(100, move |_| sender.send(()).unwrap()));
        let stopping = Arc::clone(&pool);
        let stop = std::thread::spawn(move || stopping.stop());
        // The job is dropped with its unused sender.
        assert!(receiver.recv_timeout(Duration::from_secs(60)).is_err());
        end.wait();
        stop.join().unwrap();
        assert_eq!(pool.shared.queue.lock().bytes, 0);
    }

    #[test]
    fn jobs_run_and_those_beyond_a_limit_are_refused() {
        let pool = Pool::start(Clock::system(), QUEUED_CALLS_MAX).unwrap();
        let (sender, receiver) = channel();
        for number in 0..100 {
            let sender = sender.clone();
            assert!(pool.try_run(0, move |_| sender.send(number).unwrap()));
        }
        let mut done: Vec<i32> = receiver.iter().take(100).collect();
        done.sort_unstable();
        assert_eq!(done, (0..100).collect::<Vec<_>>());
        assert!(!pool.try_run(QUEUED_BYTES_MAX + 1, |_| {}));
        pool.stop();
        assert!(!pool.try_run(0, |_| {}));
    }

    /// Delayed jobs run when they are due, while the only free thread runs others before, and all
    /// of them run at a stop.
    #[test]
    fn delayed_jobs_run_when_due_and_do_not_hold_up_others() {
        let (pool, end) = occupied_pool(1, 1);
        let (sender, receiver) = channel();
        let begun = Clock::monotonic().stopwatch();
        for pause_ms in [600, 30, 3_600_000] {
            let sender = sender.clone();
            let run = move |_| sender.send((pause_ms, begun.elapsed_ns() / 1_000_000)).unwrap();
            pool.run_after(Duration::from_millis(pause_ms), run);
        }
        let at_once = sender.clone();
        assert!(pool.try_run(0, move |_| at_once.send((0, 0)).unwrap()));
        let done: Vec<(u64, u64)> = receiver.iter().take(3).collect();
        assert!(done.iter().all(|(pause_ms, after_ms)| after_ms >= pause_ms), "{done:?}");
        let place = |pause_ms| done.iter().position(|(of, _)| *of == pause_ms);
        assert!(place(0).is_some() && place(30) < place(600), "{done:?}");
        end.wait();
        pool.stop();
        assert_eq!(receiver.try_recv().unwrap().0, 3_600_000, "no delayed job is forgotten");
    }
}

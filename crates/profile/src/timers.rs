//! A timer for each thread on the thread's own processor clock: a thread is sampled in proportion
//! to its processor time, and a waiting thread is not interrupted.

use std::collections::BTreeMap;
use std::io;
use std::ptr;

use pellucid_thread::exponential;

/// The kernel's list of this process's threads.
const THREADS_FOLDER: &str = "/proc/self/task";
/// The most threads that have a timer; further threads are not sampled.
pub(crate) const THREADS_MAX: usize = 512;

/// The low bits of a clock's number in the kernel: a clock of one thread (4) that counts its
/// scheduled time (2).
const THREAD_CLOCK: i32 = 4 | 2;

struct Timer {
    id: libc::timer_t,
    /// The index of the thread's name in [`Timers::names`].
    place: usize,
}

/// The timers of all threads.
pub(crate) struct Timers {
    period_ns: u64,
    by_thread: BTreeMap<i32, Timer>,
    /// The distinct names of all threads that ever had a timer.
    names: Vec<String>,
}

// SAFETY: a timer's identity is valid in the whole process, not only in the thread that made it.
unsafe impl Send for Timers {}

impl Timers {
    pub(crate) fn new(period_ns: u64) -> Timers {
        Timers { period_ns, by_thread: BTreeMap::new(), names: Vec::new() }
    }

    /// The thread name with this index; empty if it is not known.
    pub(crate) fn name(&self, place: usize) -> &str {
        self.names.get(place).map_or("", String::as_str)
    }

    /// Makes a timer for each new thread, and deletes the timers of threads that ended.
    ///
    /// # Errors
    /// If the list of threads cannot be read.
    pub(crate) fn scan(&mut self) -> io::Result<()> {
        let mut present = Vec::new();
        let threads = std::fs::read_dir(THREADS_FOLDER).map_err(|error| {
            io::Error::new(error.kind(), format!("{THREADS_FOLDER}: {error}: mount proc at /proc"))
        })?;
        for entry in threads {
            let name = entry?.file_name();
            present.extend(name.to_str().and_then(|name| name.parse::<i32>().ok()));
        }
        self.by_thread.retain(|thread, timer| {
            let stays = present.contains(thread);
            if !stays {
                delete(timer);
            }
            stays
        });
        for thread in present {
            if !self.by_thread.contains_key(&thread) && self.by_thread.len() < THREADS_MAX {
                self.add(thread);
            }
        }
        Ok(())
    }

    /// Makes a timer for a thread. A thread that is just ending, or for which the system has no
    /// timer, gets none.
    fn add(&mut self, thread: i32) {
        let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm"));
        let name = name.map_or_else(|_| "unknown".to_owned(), |name| name.trim_end().to_owned());
        let known = self.names.iter().position(|other| *other == name);
        let place = known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        if let Some(id) = create(thread, place) {
            let timer = Timer { id, place };
            arm(&timer, self.period_ns);
            self.by_thread.insert(thread, timer);
        }
    }

    /// Sets the processor time between two samples; zero for no samples.
    pub(crate) fn set_period(&mut self, period_ns: u64) {
        if period_ns != self.period_ns {
            self.period_ns = period_ns;
            self.by_thread.values().for_each(|timer| arm(timer, period_ns));
        }
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        self.by_thread.values().for_each(delete);
    }
}

fn create(thread: i32, place: usize) -> Option<libc::timer_t> {
    // SAFETY: zeroes are a valid description.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_value = libc::sigval { sival_ptr: ptr::without_provenance_mut(place) };
    event.sigev_signo = libc::SIGPROF;
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_notify_thread_id = thread;
    let mut id = ptr::null_mut();
    // The kernel's number of a thread's clock: the thread's complement, above three bits of kind.
    let clock = (!thread << 3) | THREAD_CLOCK;
    // SAFETY: both arguments are valid for the call.
    let outcome = unsafe { libc::timer_create(clock, &raw mut event, &raw mut id) };
    (outcome == 0).then_some(id)
}

fn arm(timer: &Timer, period_ns: u64) {
    let time = |ns: u64| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    };
    // The first tick comes at a random time, so that threads that start together are not sampled at
    // the same moments.
    let first_ns = (exponential(period_ns as f64) as u64).clamp(period_ns.min(1), 2 * period_ns);
    let spec = libc::itimerspec { it_interval: time(period_ns), it_value: time(first_ns) };
    // SAFETY: the timer exists, and the specification is valid. It fails for a thread that ended.
    unsafe { libc::timer_settime(timer.id, 0, &raw const spec, ptr::null_mut()) };
}

fn delete(timer: &Timer) {
    debug_assert!(timer.place < usize::MAX);
    // SAFETY: the timer exists, and is not used after this.
    unsafe { libc::timer_delete(timer.id) };
}

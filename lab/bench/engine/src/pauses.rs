//! Estimates the part of a long operation that the host of a virtual machine took (steal time). No
//! store can avoid it.
//!
//! If a thread does not sleep, its time is processor time, a wait for a processor, or time in which
//! the host gave the processor to another machine. The kernel counts the first two in nanoseconds.
//! Steal time while another thread is on the processor counts as a wait, so the estimate is a lower
//! bound.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use crate::figures::Figures;

/// The duration from which on an operation is long, and the kernel's counters are read, in
/// nanoseconds.
const LONG_NS: u64 = 2_000_000;
/// The counters are also read after this many operations. Reading them takes a microsecond or two,
/// and their change is about all operations since the last reading.
const ASKED_EVERY: u64 = 2_048;

/// The kernel's counters of this thread.
struct ThreadStatistics {
    at: Instant,
    processor_ns: u64,
    ready_ns: u64,
    sleeps: i64,
}

/// A watch over the operations of one thread.
pub struct Pauses {
    schedule: Option<File>,
    before: ThreadStatistics,
    operations: u64,
    /// The duration of the longest operation.
    longest_ns: u64,
    /// The steal time of the longest operation.
    longest_stolen_ns: u64,
    /// The longest duration of an operation without its steal time; maybe of another operation.
    longest_own_ns: u64,
}

impl Pauses {
    /// Watches the operations of the calling thread from now on.
    pub fn new() -> Pauses {
        let schedule = File::open("/proc/thread-self/schedstat").ok();
        let before = ThreadStatistics::now(schedule.as_ref());
        Pauses {
            schedule,
            before,
            operations: 0,
            longest_ns: 0,
            longest_stolen_ns: 0,
            longest_own_ns: 0,
        }
    }

    /// Records an operation that took `took_ns` and has just ended. Returns true if the counters
    /// were read, which took time that belongs to no operation.
    pub fn note(&mut self, took_ns: u64) -> bool {
        self.operations += 1;
        let is_long = took_ns >= LONG_NS;
        if !is_long && !self.operations.is_multiple_of(ASKED_EVERY) {
            return false;
        }
        let known = ThreadStatistics::now(self.schedule.as_ref());
        if is_long {
            let stolen_ns = known.stolen_since(&self.before).min(took_ns);
            if took_ns > self.longest_ns {
                (self.longest_ns, self.longest_stolen_ns) = (took_ns, stolen_ns);
            }
            self.longest_own_ns = self.longest_own_ns.max(took_ns - stolen_ns);
        }
        self.before = known;
        true
    }

    /// Sets the figures of the operation called `name`, if any was long.
    pub fn tell(&self, name: &str, figures: &mut Figures) {
        if self.longest_ns > 0 && self.schedule.is_some() {
            let stolen_ms = self.longest_stolen_ns as f64 / 1e6;
            figures.set(&format!("{name}_longest_stolen_ms"), stolen_ms);
            figures.set(&format!("{name}_longest_own_ms"), self.longest_own_ns as f64 / 1e6);
        }
    }
}

impl ThreadStatistics {
    fn now(schedule: Option<&File>) -> ThreadStatistics {
        let mut line = [0; 128];
        let length = schedule.and_then(|file| file.read_at(&mut line, 0).ok()).unwrap_or(0);
        let line = String::from_utf8_lossy(&line[..length]);
        let ready_ns = line.split(' ').nth(1).and_then(|field| field.parse().ok()).unwrap_or(0);
        // SAFETY: all fields are numbers, for which zero is a value.
        let (mut usage, mut processor): (libc::rusage, libc::timespec) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // SAFETY: both structures are valid for the writes, and neither call can fail for the
        // calling thread.
        unsafe {
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut processor);
        }
        let processor_ns = processor.tv_sec as u64 * 1_000_000_000 + processor.tv_nsec as u64;
        ThreadStatistics { at: Instant::now(), processor_ns, ready_ns, sleeps: usage.ru_nvcsw }
    }

    /// The steal time since `before`; zero if the thread slept, because sleep and steal time cannot
    /// be told apart.
    fn stolen_since(&self, before: &ThreadStatistics) -> u64 {
        if self.sleeps != before.sleeps {
            return 0;
        }
        let passed_ns = self.at.duration_since(before.at).as_nanos() as u64;
        let own_ns = self.processor_ns.saturating_sub(before.processor_ns);
        passed_ns.saturating_sub(own_ns + self.ready_ns.saturating_sub(before.ready_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_time_is_neither_work_nor_waiting_unless_the_thread_slept() {
        let at = Instant::now();
        let before = ThreadStatistics { at, processor_ns: 5, ready_ns: 7, sleeps: 1 };
        let later = at + std::time::Duration::from_nanos(100);
        let after = ThreadStatistics { at: later, processor_ns: 35, ready_ns: 17, sleeps: 1 };
        assert_eq!(after.stolen_since(&before), 60);
        assert_eq!(ThreadStatistics { sleeps: 2, ..after }.stolen_since(&before), 0);
    }

    #[test]
    fn the_longest_operation_without_steal_time_may_be_another_one() {
        let mut pauses = Pauses::new();
        assert!(!pauses.note(LONG_NS - 1));
        let mut figures = Figures::default();
        pauses.tell("put", &mut figures);
        assert_eq!(figures.get("put_longest_own_ms"), None);
        assert!(pauses.note(3 * LONG_NS));
        assert!(pauses.longest_own_ns <= 3 * LONG_NS && pauses.longest_ns == 3 * LONG_NS);
    }
}

//! Decides whether the time stamp counter can be trusted, and measures its rate.

use crate::ticks::Ticks;

/// The time for which the counter is compared with the monotonic clock.
const CALIBRATION_NS: u64 = 20_000_000;
/// The pairs of readings at each end of that time. The pair with the shortest distance is used,
/// because the thread may lose the processor between two readings.
const PAIRS: usize = 64;

/// A reading of the counter, between two readings of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CalibrationReading {
    pub(crate) before_ns: u64,
    pub(crate) ticks: Ticks,
    pub(crate) after_ns: u64,
}

impl CalibrationReading {
    /// Reads `counter` between two readings of the monotonic clock.
    pub(crate) fn read(counter: impl Fn() -> Ticks) -> CalibrationReading {
        let before_ns = read_monotonic().0;
        let ticks = counter();
        CalibrationReading { before_ns, ticks, after_ns: read_monotonic().0 }
    }

    /// Reads several pairs, and returns that with the shortest distance of its readings.
    fn closest() -> CalibrationReading {
        let pairs = (0..PAIRS).map(|_| CalibrationReading::read(read_tsc));
        let closest = pairs.min_by_key(|pair| pair.after_ns - pair.before_ns);
        closest.unwrap_or_else(|| CalibrationReading::read(read_tsc))
    }

    /// The nanoseconds since `earlier`, between the middles of both pairs.
    fn since_ns(&self, earlier: &CalibrationReading) -> u64 {
        let middle = |pair: &CalibrationReading| u64::midpoint(pair.before_ns, pair.after_ns);
        middle(self).saturating_sub(middle(earlier))
    }
}

/// Reads the monotonic clock, in nanoseconds.
#[inline]
pub(crate) fn read_monotonic() -> Ticks {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that outlives the call.
    let outcome = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    assert_eq!(outcome, 0, "the monotonic clock exists on every supported system");
    Ticks(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Reads the time stamp counter. The read is not fenced, so a stamp may be off by the few
/// instructions that the processor has in flight. That is too short to matter for any phase.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(crate) fn read_tsc() -> Ticks {
    // SAFETY: `rdtsc` has no preconditions on x86-64. If it traps, this clock is not chosen.
    Ticks(unsafe { core::arch::x86_64::_rdtsc() })
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
pub(crate) fn read_tsc() -> Ticks {
    read_monotonic()
}

/// The ticks per second of the time stamp counter; none if it must not be used. The processor must
/// report it as invariant, and the kernel must use it as its own clock, because the kernel detects
/// cores whose counters disagree.
pub(crate) fn tsc_ticks_per_second() -> Option<u64> {
    let is_there = cfg!(all(target_arch = "x86_64", not(miri)));
    if !is_there || !processor_says_invariant() || !kernel_uses_tsc() {
        return None;
    }
    let first = CalibrationReading::closest();
    loop {
        let last = CalibrationReading::closest();
        let elapsed_ns = last.since_ns(&first);
        if elapsed_ns >= CALIBRATION_NS {
            let ticks = u128::from(last.ticks.since(first.ticks));
            let rate = ticks * 1_000_000_000 / u128::from(elapsed_ns);
            return u64::try_from(rate).ok().filter(|rate| *rate > 1_000_000);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn processor_says_invariant() -> bool {
    std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| {
        text.lines()
            .find(|line| line.starts_with("flags"))
            .is_some_and(|flags| flags.contains("constant_tsc") && flags.contains("nonstop_tsc"))
    })
}

fn kernel_uses_tsc() -> bool {
    std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .is_ok_and(|name| name.trim() == "tsc")
}

//! Decides whether the time stamp counter can be trusted, and measures its rate.

use crate::source::Ticks;

/// How long the counter is watched against the monotonic clock.
const CALIBRATION_NS: u64 = 20_000_000;

/// Reads the monotonic clock, in nanoseconds.
#[inline]
pub(crate) fn read_monotonic() -> Ticks {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that outlives the call.
    let outcome = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    assert_eq!(outcome, 0, "the monotonic clock exists on every supported system");
    Ticks(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Reads the time stamp counter. The read is not fenced: a stamp may move by the few instructions
/// that the processor has in flight, which is below what any phase can mean.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn read_tsc() -> Ticks {
    // SAFETY: `rdtsc` has no preconditions on x86-64; where it traps, the clock is not chosen.
    Ticks(unsafe { core::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn read_tsc() -> Ticks {
    read_monotonic()
}

/// Ticks per second of the time stamp counter, or nothing where it must not be used: it has to be
/// invariant by the processor's word, and the kernel's own choice of clock, because the kernel
/// watches for cores that disagree.
pub(crate) fn tsc_ticks_per_second() -> Option<u64> {
    if !cfg!(target_arch = "x86_64") || !processor_says_invariant() || !kernel_uses_tsc() {
        return None;
    }
    let (first_tsc, first_ns) = (read_tsc().0, read_monotonic().0);
    loop {
        let (tsc, ns) = (read_tsc().0, read_monotonic().0);
        let elapsed_ns = ns - first_ns;
        if elapsed_ns >= CALIBRATION_NS {
            let ticks = u128::from(tsc.saturating_sub(first_tsc));
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

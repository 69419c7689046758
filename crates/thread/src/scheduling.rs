//! Scheduling of threads when there are more of them than processors.
//!
//! A thread that answers requests works for microseconds and sleeps. If it wakes while a merge has
//! the processor, the kernel may let it wait until the merge's time slice is over, four
//! milliseconds on many kernels: a hundred times as long as the request takes. So such threads ask
//! for short slices, for which the kernel schedules them earlier. Background threads also ask for
//! short slices, and for a smaller share of the processor, and yield it between small pieces of
//! work ([`give_way`]). Their share is not too small, because writes wait for merges that are
//! starved.

use std::io;

use crate::simulation;

/// The time slice of both kinds of threads; the smallest that the kernel grants.
const SLICE_NS: u64 = 100_000;
/// The amount by which the nice value of background threads is above that of the process: beside a
/// thread that never sleeps, one of them has a quarter of the processor.
const BACKGROUND_NICER: i32 = 5;
/// The highest nice value of the kernel.
const NICE_MAX: i32 = 19;
/// The number by which the kernel knows the calling thread.
const THIS_THREAD: u32 = 0;

/// The kernel's settings of a thread. The number of the process is that of its main thread.
fn settings_of(thread: u32) -> io::Result<libc::sched_attr> {
    // SAFETY: zeros are a valid value of this plain C structure.
    let mut settings: libc::sched_attr = unsafe { std::mem::zeroed() };
    let (into, size) = (&raw mut settings, size_of::<libc::sched_attr>());
    // SAFETY: the kernel writes at most `size` bytes, which is what the structure has.
    let outcome = unsafe { libc::syscall(libc::SYS_sched_getattr, thread, into, size, 0) };
    if outcome == 0 { Ok(settings) } else { Err(io::Error::last_os_error()) }
}

/// Asks for short slices for the calling thread, which answers requests.
///
/// # Errors
/// If the kernel does not allow it. The scheduling of the thread stays as it was.
pub fn schedule_for_requests() -> io::Result<()> {
    schedule(0)
}

/// Gives the calling thread, which works in the background, a smaller share of the processor, and
/// short slices.
///
/// # Errors
/// If the kernel does not allow it. The scheduling of the thread stays as it was.
pub fn schedule_for_background() -> io::Result<()> {
    schedule(BACKGROUND_NICER)
}

/// Sets the slice of the calling thread, and its nice value to at least `nicer` above that of the
/// process: a thread begins with that of the thread that started it. A thread with a policy other
/// than `SCHED_OTHER` keeps it, because an operator has set that on purpose.
fn schedule(nicer: i32) -> io::Result<()> {
    if simulation::is_simulated() {
        return Ok(());
    }
    let mut wanted = settings_of(THIS_THREAD)?;
    if wanted.sched_policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    wanted.size = size_of::<libc::sched_attr>() as u32;
    wanted.sched_flags = 0;
    let process_nice = settings_of(std::process::id())?.sched_nice;
    wanted.sched_nice = wanted.sched_nice.max(process_nice + nicer).min(NICE_MAX);
    // The length of a slice, with this policy from Linux 6.12 on; ignored before.
    wanted.sched_runtime = SLICE_NS;
    // SAFETY: the kernel reads `size` bytes, which is what the structure has.
    let outcome = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Yields the processor between two small pieces of background work. Costs half a microsecond if no
/// other thread wants it.
#[inline]
pub fn give_way() {
    if simulation::is_simulated() {
        return simulation::point();
    }
    std::thread::yield_now();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// True for the short slice, and for zero, which kernels before 6.12 return.
    fn has_short_slices(settings: &libc::sched_attr) -> bool {
        settings.sched_runtime == SLICE_NS || settings.sched_runtime == 0
    }

    #[test]
    fn a_thread_for_requests_keeps_its_share() {
        let before = settings_of(THIS_THREAD).unwrap();
        schedule_for_requests().unwrap();
        let after = settings_of(THIS_THREAD).unwrap();
        assert_eq!(after.sched_policy, before.sched_policy);
        assert_eq!(after.sched_nice, before.sched_nice);
        assert!(has_short_slices(&after), "{} ns", after.sched_runtime);
    }

    #[test]
    fn background_work_has_a_smaller_share_and_gives_way() {
        let before = settings_of(THIS_THREAD).unwrap();
        schedule_for_background().unwrap();
        let after = settings_of(THIS_THREAD).unwrap();
        assert_eq!(after.sched_nice, (before.sched_nice + BACKGROUND_NICER).min(NICE_MAX));
        assert!(has_short_slices(&after), "{} ns", after.sched_runtime);
        give_way();
    }

    /// Regression: a thread inherits the nice value of the one that starts it, and half of a merge
    /// in two parts had a smaller share than the other half.
    #[test]
    fn a_background_thread_that_another_one_starts_has_the_same_share() {
        schedule_for_background().unwrap();
        let second = std::thread::spawn(|| {
            schedule_for_background().unwrap();
            settings_of(THIS_THREAD).unwrap().sched_nice
        });
        assert_eq!(second.join().unwrap(), settings_of(THIS_THREAD).unwrap().sched_nice);
    }
}

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
/// The amount added to the nice value of background threads: beside a thread that never sleeps, one
/// of them has a quarter of the processor.
const BACKGROUND_NICER: i32 = 5;
/// The highest nice value of the kernel.
const NICE_MAX: i32 = 19;

/// `struct sched_attr` of `sched_setattr(2)`, in its first version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// The length of a slice, with the policy `SCHED_OTHER` from Linux 6.12 on; ignored before.
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

impl Attributes {
    const SIZE: u32 = size_of::<Attributes>() as u32;

    /// The kernel's settings of the calling thread.
    fn of_this_thread() -> io::Result<Attributes> {
        let mut attributes = Attributes::default();
        let (into, size) = (&raw mut attributes, Self::SIZE);
        // SAFETY: the kernel writes at most `size` bytes, which is what the structure has.
        let outcome = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, into, size, 0) };
        if outcome == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
    }

    fn set_for_this_thread(&self) -> io::Result<()> {
        // SAFETY: the kernel reads `size` bytes, which is what the structure has.
        let outcome =
            unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(self), 0) };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
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

/// Sets the slice of the calling thread, and adds `nicer` to its nice value. A thread with a policy
/// other than `SCHED_OTHER` keeps it, because an operator has set that on purpose.
fn schedule(nicer: i32) -> io::Result<()> {
    if simulation::is_simulated() {
        return Ok(());
    }
    let attributes = Attributes::of_this_thread()?;
    if attributes.policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    let nice = (attributes.nice + nicer).min(NICE_MAX);
    let wanted = Attributes { nice, runtime_ns: SLICE_NS, ..attributes };
    Attributes { size: Attributes::SIZE, flags: 0, ..wanted }.set_for_this_thread()
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
    fn has_short_slices(attributes: &Attributes) -> bool {
        attributes.runtime_ns == SLICE_NS || attributes.runtime_ns == 0
    }

    #[test]
    fn a_thread_for_requests_keeps_its_share() {
        let before = Attributes::of_this_thread().unwrap();
        schedule_for_requests().unwrap();
        let after = Attributes::of_this_thread().unwrap();
        assert_eq!((after.policy, after.nice), (before.policy, before.nice));
        assert!(has_short_slices(&after), "{} ns", after.runtime_ns);
    }

    #[test]
    fn background_work_has_a_smaller_share_and_gives_way() {
        let before = Attributes::of_this_thread().unwrap();
        schedule_for_background().unwrap();
        let after = Attributes::of_this_thread().unwrap();
        assert_eq!(after.nice, (before.nice + BACKGROUND_NICER).min(NICE_MAX));
        assert!(has_short_slices(&after), "{} ns", after.runtime_ns);
        give_way();
    }
}

//! Scheduling of threads when there are more of them than processors.
//!
//! A thread that answers requests works for microseconds and sleeps. When it wakes while a merge
//! has the processor, the kernel may leave it waiting until the merge's slice is over, four
//! milliseconds on many kernels: a hundred times what the request takes. So threads that answer ask
//! for short slices, by which the kernel lets them in earlier; background threads ask for short
//! ones, too, and for a smaller share, and offer the processor between small pieces of work
//! ([`give_way`]). Their share is smaller and not nothing: writes wait for merges that are starved.

use std::io;

use crate::simulation;

/// The slice for which either kind of thread wants to run; the least that the kernel grants.
const SLICE_NS: u64 = 100_000;
/// By how much background threads are nicer than others: beside a thread that never sleeps, one of
/// them has a quarter of the processor.
const BACKGROUND_NICER: i32 = 5;
/// The nicest that the kernel knows.
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
    /// For the ordinary policy the length of a slice, from Linux 6.12 on; ignored before.
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
/// What the kernel says where it does not allow it; the thread goes on as before.
pub fn schedule_for_requests() -> io::Result<()> {
    schedule(0)
}

/// Has the calling thread, which works in the background, take less than others where processors
/// are short.
///
/// # Errors
/// What the kernel says where it does not allow it; the thread goes on as before.
pub fn schedule_for_background() -> io::Result<()> {
    schedule(BACKGROUND_NICER)
}

/// A thread whose policy is not the ordinary one was given that by somebody who knows why, and
/// keeps it.
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

/// Offers the processor to others between two small pieces of background work. Costs half a
/// microsecond where nobody wants it.
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

    /// Kernels before 6.12 know of no slices and tell zero.
    fn has_short_slices(attributes: &Attributes) -> bool {
        attributes.runtime_ns == SLICE_NS || attributes.runtime_ns == 0
    }

    #[test]
    fn who_answers_keeps_its_share() {
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

//! The signal handler that takes a sample of the thread that it interrupts.
//!
//! It may run between any two instructions, even inside the allocator. So it calls nothing that
//! allocates, locks or initialises: it reads thread-local constants, its own stack and a few
//! registers, asks the kernel for the time, and writes to a ring of atomics.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use pellucid_thread::{
    Registers, STACK_DEPTH_MAX, capture_interrupted, labels, monotonic_ns, number_early_request,
    prepare_thread,
};

use crate::ring::{RawSample, Ring};

/// The ring that samples go to; null until [`install`]. It is never freed: a late signal may still
/// write to it.
static RING: AtomicPtr<Ring> = AtomicPtr::new(ptr::null_mut());
/// Processor time between two samples of a thread, in nanoseconds.
static PERIOD_NS: AtomicU64 = AtomicU64::new(0);

/// Sets the processor time that each sample represents.
pub(crate) fn set_period(period_ns: u64) {
    PERIOD_NS.store(period_ns, Ordering::Relaxed);
}

/// Installs the handler, and returns the ring that it writes to; the same in every call.
///
/// # Errors
/// If another handler for SIGPROF is installed, or the kernel refuses to install this one.
pub(crate) fn install() -> io::Result<&'static Ring> {
    prepare_thread();
    // SAFETY: the ring is leaked below, so that a pointer to it stays valid.
    if let Some(ring) = unsafe { RING.load(Ordering::Acquire).as_ref() } {
        return Ok(ring);
    }
    let ring: &'static Ring = Box::leak(Box::new(Ring::new()));
    // SAFETY: zeroes are a valid action, and one that does nothing special.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    action.sa_sigaction = on_tick as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: both actions are valid, and the handler does only what handlers may.
    let outcome = unsafe {
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGPROF, ptr::null(), &raw mut before)
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    if before.sa_sigaction != libc::SIG_DFL && before.sa_sigaction != libc::SIG_IGN {
        let text = "another profiler in this process has taken the signal SIGPROF";
        return Err(io::Error::other(text));
    }
    RING.store(ptr::from_ref(ring).cast_mut(), Ordering::Release);
    // SAFETY: as above.
    if unsafe { libc::sigaction(libc::SIGPROF, &raw const action, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(ring)
}

/// The kernel's layout of `siginfo_t` for a timer's signal; the same on all 64-bit Linux.
#[repr(C)]
struct TimerInfo {
    signal: i32,
    error: i32,
    code: i32,
    padding: i32,
    timer: i32,
    overrun: i32,
    value: usize,
}

/// `si_code` of a signal that a timer sent.
const SI_TIMER: i32 = -2;

extern "C" fn on_tick(
    _signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes both to a handler that was installed with SA_SIGINFO, and the
    // information of a timer's signal has this layout.
    let (info, registers) = unsafe { (&*info.cast::<TimerInfo>(), registers_of(context)) };
    // SAFETY: the ring, once there, is never freed.
    let ring = unsafe { RING.load(Ordering::Acquire).as_ref() };
    let (Some(ring), SI_TIMER) = (ring, info.code) else { return };
    // SAFETY: it returns the address of this thread's `errno`, which always exists.
    let error_number = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let error_before = unsafe { *error_number };
    take_sample(ring, info, &registers);
    // SAFETY: as above.
    unsafe { *error_number = error_before };
}

fn take_sample(ring: &Ring, info: &TimerInfo, registers: &Registers) {
    // Further ticks of the timer may pass before the kernel delivers the signal: it counts them as
    // overruns.
    let ticks = 1 + u64::try_from(info.overrun).unwrap_or(0);
    let labels = labels();
    let mut sample = RawSample {
        at_ns: monotonic_ns(),
        events: 1,
        amount: PERIOD_NS.load(Ordering::Relaxed).saturating_mul(ticks),
        thread: info.value,
        labels,
        early: if labels.is_early() { number_early_request() } else { 0 },
        depth: 0,
        stack: [0; STACK_DEPTH_MAX],
    };
    sample.depth = capture_interrupted(registers, &mut sample.stack);
    ring.push(&sample);
}

/// # Safety
/// `context` is what the kernel passed to a handler.
#[cfg(target_arch = "x86_64")]
unsafe fn registers_of(context: *mut libc::c_void) -> Registers {
    // SAFETY: as promised.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    Registers {
        pc: registers[libc::REG_RIP as usize] as usize,
        sp: registers[libc::REG_RSP as usize] as usize,
        fp: registers[libc::REG_RBP as usize] as usize,
    }
}

/// # Safety
/// `context` is what the kernel passed to a handler.
#[cfg(target_arch = "aarch64")]
unsafe fn registers_of(context: *mut libc::c_void) -> Registers {
    // SAFETY: as promised.
    let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
    Registers { pc: machine.pc as usize, sp: machine.sp as usize, fp: machine.regs[29] as usize }
}

//! Prefetch instructions: a look-up that waits for several cache lines at once waits about as long
//! as for one.

/// The size of a cache line, in bytes.
pub(crate) const CACHE_LINE_BYTES: usize = 64;

/// Prefetches the cache line that contains `pointer`. Any address is allowed: nothing is accessed.
#[inline(always)]
pub(crate) fn prefetch(pointer: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction is a hint that never faults, and every x86-64 processor has it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(pointer.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = pointer;
}

/// Prefetches the cache line that contains `pointer` for writing. Any address is allowed.
#[inline(always)]
pub(crate) fn prefetch_to_write(pointer: *mut u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction is a hint that never faults; older processors ignore it.
    unsafe {
        std::arch::asm!(
            "prefetchw [{0}]",
            in(reg) pointer,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = pointer;
}

/// Prefetches the first `lines_max` cache lines of `bytes`.
#[inline]
pub(crate) fn prefetch_all(bytes: &[u8], lines_max: usize) {
    for line in bytes.chunks(CACHE_LINE_BYTES).take(lines_max) {
        prefetch(line.as_ptr());
    }
}

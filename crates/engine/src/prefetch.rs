//! Asks the processor for memory ahead of its use: a look-up that waits for several lines at once
//! waits about as long as for one.

/// Bytes that come into the cache together.
pub(crate) const CACHE_LINE_BYTES: usize = 64;

/// Asks for the line that `pointer` is in. Any address is allowed: nothing is read.
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

/// Asks for the line that `pointer` is in, to be written. Any address is allowed.
#[inline(always)]
pub(crate) fn prefetch_to_write(pointer: *mut u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction is a hint that never faults; processors that do not know it skip it.
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

/// Asks for the first `lines_max` lines of `bytes`.
#[inline]
pub(crate) fn prefetch_all(bytes: &[u8], lines_max: usize) {
    for line in bytes.chunks(CACHE_LINE_BYTES).take(lines_max) {
        prefetch(line.as_ptr());
    }
}

//! Pages, the units in which the system maps memory.

/// The size of a page of memory, in bytes.
pub(crate) fn page_size_bytes() -> usize {
    // SAFETY: the call reads a constant of the system and has no other effect.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(4096)
}

//! Anonymous zeroed memory, in pages as large as the system provides.
//!
//! A look-up at a random place of many megabytes has two cache misses: one for the cache line, and
//! one for the translation of its address. With pages of 2 MiB the translations fit into the
//! processor's TLB.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// The size and alignment of a large page.
const LARGE_PAGE_BYTES: usize = 2 << 20;
/// The size from which on memory is mapped separately, so that it returns to the system when it is
/// dropped. An allocator may keep freed memory, even more than is in use.
const MAPPED_MIN_BYTES: usize = 64 << 10;
/// The alignment of smaller memory: a cache line.
const LINE_BYTES: usize = 64;
/// The size of the smallest page, to which the lengths of maps are rounded up.
const PAGE_BYTES: usize = 4096;

/// Memory that is initially zero. Its users have to synchronise writes.
#[derive(Debug)]
pub struct ZeroedMemory {
    pointer: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is owned by the value; access goes through raw pointers, whose users are
// responsible for it.
unsafe impl Send for ZeroedMemory {}
// SAFETY: as above.
unsafe impl Sync for ZeroedMemory {}

impl ZeroedMemory {
    /// Allocates `length` bytes of zeros, aligned to at least 64 bytes. From 2 MiB on, the system
    /// is asked for large pages; without them, the memory is only slower.
    ///
    /// # Panics
    /// If `length` is zero. As with every allocation, the process ends if there is no memory.
    #[must_use]
    pub fn new(length: usize) -> ZeroedMemory {
        assert!(length > 0, "memory has a length");
        let is_large = length >= LARGE_PAGE_BYTES;
        let is_mapped = length >= MAPPED_MIN_BYTES;
        let alignment = match (is_large, is_mapped) {
            (true, _) => LARGE_PAGE_BYTES,
            (false, true) => PAGE_BYTES,
            (false, false) => LINE_BYTES,
        };
        let layout = Layout::from_size_align(length, alignment)
            .expect("memory is smaller than the address space");
        let pointer = if is_large {
            map_large_pages(mapped_length(layout))
        } else if is_mapped {
            map(mapped_length(layout))
        } else {
            // SAFETY: the length is not zero.
            unsafe { alloc_zeroed(layout) }
        };
        let Some(pointer) = NonNull::new(pointer) else { handle_alloc_error(layout) };
        ZeroedMemory { pointer, layout }
    }

    /// The address of the first byte.
    #[inline]
    #[must_use]
    pub fn pointer(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    /// Sets all bytes to zero.
    pub fn clear(&mut self) {
        // SAFETY: the memory has that many bytes, and is borrowed exclusively.
        unsafe { self.pointer.as_ptr().write_bytes(0, self.layout.size()) };
    }

    /// The number of bytes.
    #[inline]
    #[must_use]
    pub fn length(&self) -> usize {
        self.layout.size()
    }
}

/// Maps `length` bytes of memory; null if that fails.
fn map(length: usize) -> *mut u8 {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping of its own; nothing that exists is touched.
    let begin = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
    if begin == libc::MAP_FAILED { std::ptr::null_mut() } else { begin.cast() }
}

/// Maps `length` bytes of memory, aligned to large pages; null if that fails.
fn map_large_pages(length: usize) -> *mut u8 {
    if cfg!(miri) {
        // Miri cannot unmap a part of a mapping.
        return map(length);
    }
    let reserved = length + LARGE_PAGE_BYTES;
    let begin = map(reserved);
    if begin.is_null() {
        return begin;
    }
    let front = begin.align_offset(LARGE_PAGE_BYTES);
    // SAFETY: the aligned range lies within the mapping, which is longer by a large page; what is
    // before and behind it is given back, in whole pages, as the mapping begins at a page.
    unsafe {
        let aligned = begin.add(front);
        if front > 0 {
            libc::munmap(begin.cast(), front);
        }
        let behind = reserved - front - length;
        if behind > 0 {
            libc::munmap(aligned.add(length).cast(), behind);
        }
        // A failure is ignored: a kernel without large pages refuses this.
        libc::madvise(aligned.cast(), length, libc::MADV_HUGEPAGE);
        aligned
    }
}

/// The bytes that are mapped for a layout: its size, rounded up to pages.
fn mapped_length(layout: Layout) -> usize {
    layout.size().next_multiple_of(PAGE_BYTES)
}

impl Drop for ZeroedMemory {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout in `new`, and is freed once.
        unsafe {
            if self.layout.align() >= PAGE_BYTES {
                libc::munmap(self.pointer().cast(), mapped_length(self.layout));
            } else {
                dealloc(self.pointer(), self.layout);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_all_sizes_is_zeroed_aligned_and_writable() {
        for length in [
            1,
            64,
            4097,
            MAPPED_MIN_BYTES,
            LARGE_PAGE_BYTES - 1,
            LARGE_PAGE_BYTES,
            3 * LARGE_PAGE_BYTES + 5,
        ] {
            let mut memory = ZeroedMemory::new(length);
            assert_eq!(memory.length(), length);
            assert_eq!(memory.pointer().align_offset(LINE_BYTES), 0);
            // SAFETY: the range is the memory, and nobody else has it.
            let bytes = unsafe { std::slice::from_raw_parts_mut(memory.pointer(), length) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(7);
            memory.clear();
            // SAFETY: as above.
            let bytes = unsafe { std::slice::from_raw_parts(memory.pointer(), length) };
            assert!(bytes.iter().all(|byte| *byte == 0));
        }
    }
}

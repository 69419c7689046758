//! The memory of a file's live image, which maps share.

use crate::memory::ZeroedMemory;

/// Memory with a fixed address, which is written by pointer. Its users synchronise writes, as for a
/// mapped file.
pub(super) struct Buffer(ZeroedMemory);

impl Buffer {
    pub(super) fn zeroed(length: usize) -> Buffer {
        Buffer(ZeroedMemory::new(length.max(1).next_multiple_of(8)))
    }

    pub(super) fn pointer(&self) -> *mut u8 {
        self.0.pointer()
    }

    pub(super) fn capacity(&self) -> usize {
        self.0.length()
    }

    /// Copies bytes to `target`; they must be within the capacity.
    pub(super) fn copy_out(&self, offset: usize, target: &mut [u8]) {
        assert!(offset + target.len() <= self.capacity());
        // SAFETY: the range was just checked, and the target is other memory.
        unsafe {
            let source = self.pointer().add(offset);
            std::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), target.len());
        }
    }

    /// True if the buffer begins with these bytes, which must be within the capacity.
    pub(super) fn begins_with(&self, bytes: &[u8]) -> bool {
        assert!(bytes.len() <= self.capacity());
        // SAFETY: the range was just checked, and the slice is dropped at once.
        unsafe { std::slice::from_raw_parts(self.pointer(), bytes.len()) == bytes }
    }

    /// Copies bytes from `source`; they must be within the capacity.
    pub(super) fn copy_in(&self, offset: usize, source: &[u8]) {
        assert!(offset + source.len() <= self.capacity());
        // SAFETY: the range was just checked, and the source is other memory.
        unsafe {
            let target = self.pointer().add(offset);
            std::ptr::copy_nonoverlapping(source.as_ptr(), target, source.len());
        }
    }
}

//! The memory of a file's live image, which maps share.

/// Memory with a fixed address, aligned to 8 bytes, which is written by pointer.
pub(super) struct Buffer {
    words: *mut [u64],
}

// SAFETY: the buffer is plain memory that this value owns; its users synchronise writes, as for a
// mapped file.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(super) fn zeroed(length: usize) -> Buffer {
        let words = vec![0_u64; length.div_ceil(8)].into_boxed_slice();
        Buffer { words: Box::into_raw(words) }
    }

    pub(super) fn pointer(&self) -> *mut u8 {
        self.words.cast()
    }

    pub(super) fn capacity(&self) -> usize {
        self.words.len() * 8
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

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a box, and is dropped once.
        drop(unsafe { Box::from_raw(self.words) });
    }
}

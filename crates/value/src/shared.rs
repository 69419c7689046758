//! A part of bytes that several values hold together.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A range of shared bytes; a clone costs one atomic addition.
#[derive(Clone)]
pub struct Shared {
    bytes: Arc<[u8]>,
    start: u32,
    end: u32,
}

impl Shared {
    /// Copies `bytes` into memory of their own. What lies beyond 4 GiB is left out, which no packed
    /// value reaches.
    #[must_use]
    pub fn copy(bytes: &[u8]) -> Self {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Self { bytes: Arc::from(&bytes[..length as usize]), start: 0, end: length }
    }

    /// The range of the same memory that `part` is; a copy if it lies elsewhere.
    #[must_use]
    pub fn part(&self, part: &[u8]) -> Self {
        let base = self.bytes.as_ptr() as usize;
        let place = (part.as_ptr() as usize).wrapping_sub(base);
        match place.checked_add(part.len()) {
            Some(end) if end <= self.bytes.len() => {
                // Both fit: the whole is at most u32::MAX bytes.
                Self { bytes: Arc::clone(&self.bytes), start: place as u32, end: end as u32 }
            }
            _ => Self::copy(part),
        }
    }

    /// How many bytes of memory all holders together keep alive.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl Deref for Shared {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start as usize..self.end as usize]
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} shared bytes", self.len())
    }
}

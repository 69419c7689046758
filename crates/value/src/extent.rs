//! Depth and size of built values. Both are checked when a value is made, so that code that
//! traverses a value needs no limits of its own.

use std::fmt;

use crate::packed::DEPTH_MAX;

/// The most bytes of a value, with each part counted each time it occurs. A packed form is never
/// larger.
pub const VALUE_BYTES_MAX: usize = u32::MAX as usize;

/// The error for a value that would exceed a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitError {
    /// Arrays and objects would be nested deeper than [`DEPTH_MAX`].
    Depth,
    /// The value would be larger than [`VALUE_BYTES_MAX`].
    Size,
}

impl fmt::Display for LimitError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Depth => write!(formatter, "a value would nest deeper than {DEPTH_MAX} levels"),
            Self::Size => write!(formatter, "a value would be larger than {VALUE_BYTES_MAX} bytes"),
        }
    }
}

impl std::error::Error for LimitError {}

/// The depth and size of the contents of an array or object.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    /// The levels of its parts, without its own.
    depth: u8,
    bytes: u32,
}

impl Extent {
    /// Adds a part of this depth, which must be less than [`DEPTH_MAX`], and this size.
    pub(crate) fn add(&mut self, depth: usize, bytes: usize) -> Result<(), LimitError> {
        self.depth = self.depth.max(depth as u8);
        self.add_bytes(bytes)
    }

    /// Adds memory besides that of the parts.
    pub(crate) fn add_bytes(&mut self, bytes: usize) -> Result<(), LimitError> {
        let all = (self.bytes as usize).saturating_add(bytes);
        self.bytes = u32::try_from(all).map_err(|_| LimitError::Size)?;
        Ok(())
    }

    /// The levels of arrays and objects, with its own.
    pub(crate) fn depth(self) -> usize {
        usize::from(self.depth) + 1
    }

    pub(crate) fn bytes(self) -> usize {
        self.bytes as usize
    }
}

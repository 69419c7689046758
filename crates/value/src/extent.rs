//! Depth and size of built values, known when they are made: nothing that goes through a value
//! later has to bound either.

use std::fmt;

use crate::packed::DEPTH_MAX;

/// The largest value in bytes, each of its parts counted wherever it is: no packed form is
/// larger.
pub const VALUE_BYTES_MAX: usize = u32::MAX as usize;

/// A value that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverLimit {
    /// Arrays and objects would lie deeper in each other than [`DEPTH_MAX`].
    Depth {
        /// The `_id` of the stored document that has too many levels by itself.
        document: Option<String>,
    },
    /// It would be larger than [`VALUE_BYTES_MAX`].
    Size,
}

impl fmt::Display for OverLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Depth { document } => {
                write!(formatter, "a value would nest deeper than {DEPTH_MAX} levels")?;
                match document {
                    Some(id) => write!(formatter, ", as document {id} does"),
                    None => Ok(()),
                }
            }
            Self::Size => write!(formatter, "a value would be larger than {VALUE_BYTES_MAX} bytes"),
        }
    }
}

impl std::error::Error for OverLimit {}

/// The contents of an array or object.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    /// Levels of arrays and objects in it, without its own.
    depth: u8,
    bytes: u32,
}

impl Extent {
    /// Takes note of a part of this depth, which is less than [`DEPTH_MAX`], and size.
    pub(crate) fn add(&mut self, depth: usize, bytes: usize) -> Result<(), OverLimit> {
        self.depth = self.depth.max(depth as u8);
        self.add_bytes(bytes)
    }

    /// Takes note of memory beside the parts.
    pub(crate) fn add_bytes(&mut self, bytes: usize) -> Result<(), OverLimit> {
        let all = (self.bytes as usize).saturating_add(bytes);
        self.bytes = u32::try_from(all).map_err(|_| OverLimit::Size)?;
        Ok(())
    }

    /// Levels of arrays and objects, with its own.
    pub(crate) fn depth(self) -> usize {
        usize::from(self.depth) + 1
    }

    pub(crate) fn bytes(self) -> usize {
        self.bytes as usize
    }
}

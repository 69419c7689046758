//! An open file of the simulation, and its maps.

use std::io;
use std::sync::Arc;

use super::buffer::Buffer;
use super::content::Content;
use super::state::SharedState;
use crate::{File, Map, MapMode};

/// An open file.
pub(super) struct SimulatedFile {
    pub(super) shared: Arc<SharedState>,
    pub(super) content: Arc<Content>,
}

impl SimulatedFile {
    /// Counts a call that may extend the file to `length` bytes. An error if a fault is due, or if
    /// there is no space.
    fn call(&self, length: u64) -> io::Result<usize> {
        let state = self.shared.fallible_call()?;
        let more = length.saturating_sub(self.content.length() as u64);
        if more > 0 {
            state.faults.take_space(state.tree.used_bytes(), more)?;
        }
        usize::try_from(length).map_err(io::Error::other)
    }
}

impl File for SimulatedFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64);
        let end = self.call(end.ok_or(io::Error::from(io::ErrorKind::InvalidInput))?)?;
        self.content.write(bytes, end)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.call(0)?;
        self.content.read(buffer, offset)
    }

    fn length(&self) -> io::Result<u64> {
        self.call(0)?;
        Ok(self.content.length() as u64)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let length = self.call(length)?;
        self.content.set_length(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let length = self.call(length)?;
        self.content.allocate(length)
    }

    fn sync(&self) -> io::Result<()> {
        let loses = self.shared.fallible_call()?.faults.sync();
        self.content.sync(loses)
    }

    fn will_need(&self, _offset: u64, length: usize) {
        self.shared.state().expected_bytes += length as u64;
    }

    fn map(&self, length: u64, _mode: MapMode) -> io::Result<Arc<dyn Map>> {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        self.call(0)?;
        let (content, buffer) = (Arc::clone(&self.content), self.content.mapped(length)?);
        Ok(Arc::new(SimulatedMap { content, buffer, length }))
    }
}

struct SimulatedMap {
    content: Arc<Content>,
    buffer: Arc<Buffer>,
    length: usize,
}

impl Map for SimulatedMap {
    fn pointer(&self) -> *mut u8 {
        self.buffer.pointer()
    }

    fn length(&self) -> usize {
        self.length
    }

    fn unreadable_in(&self, offset: usize, length: usize) -> Option<usize> {
        self.content.unreadable_in(offset..offset.saturating_add(length))
    }
}

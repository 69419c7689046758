//! A table of connections by slot, whose slots are used again under a new generation.

use crate::connection::Connection;
use crate::service::ConnectionId;

/// The connections of one event loop.
#[derive(Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
    used: usize,
}

#[derive(Default)]
struct Slot {
    connection: Option<Box<Connection>>,
    generation: u32,
}

impl Slots {
    /// The slot that the next connection gets, and its generation there.
    pub(crate) fn next(&mut self) -> ConnectionId {
        if self.free.is_empty() {
            self.free.push(self.slots.len());
            self.slots.push(Slot::default());
        }
        let slot = self.free[self.free.len() - 1];
        ConnectionId { slot: slot as u32, generation: self.slots[slot].generation, stream: 0 }
    }

    /// Fills the slot that [`Slots::next`] named.
    pub(crate) fn insert(&mut self, connection: Box<Connection>) {
        let slot = self.free.pop().expect("`next` has made sure of a free slot");
        assert_eq!(self.slots[slot].generation, connection.generation, "`next` named the slot");
        self.slots[slot].connection = Some(connection);
        self.used += 1;
    }

    /// Takes the connection out for its turn; it comes back by [`Slots::put`] or is gone.
    pub(crate) fn take(&mut self, slot: usize) -> Option<Box<Connection>> {
        self.slots.get_mut(slot)?.connection.take()
    }

    /// As [`Slots::take`], if the connection there is still the one that is meant.
    pub(crate) fn take_by_id(&mut self, id: ConnectionId) -> Option<Box<Connection>> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation == id.generation { slot.connection.take() } else { None }
    }

    pub(crate) fn put(&mut self, slot: usize, connection: Box<Connection>) {
        let before = self.slots[slot].connection.replace(connection);
        assert!(before.is_none(), "a slot has one connection");
    }

    /// Frees the slot of a connection that was taken out and is gone.
    pub(crate) fn free(&mut self, slot: usize) {
        self.slots[slot].generation = self.slots[slot].generation.wrapping_add(1);
        self.free.push(slot);
        self.used -= 1;
    }

    /// Connections, taken out or not.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// One more than the highest slot.
    pub(crate) fn bound(&self) -> usize {
        self.slots.len()
    }
}

//! A table of connections by slot, whose slots are used again under a new generation.

use crate::connection::Connection;
use crate::mailbox::ConnectionId;

/// The connections of one event loop.
#[derive(Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Slots that were freed in this wake-up: an event that it has still to look at may be of
    /// their last connection.
    freed: Vec<usize>,
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
        assert_eq!(
            self.slots[slot].generation,
            connection.id().generation,
            "`next` named the slot"
        );
        self.slots[slot].connection = Some(connection);
        self.used += 1;
    }

    /// Takes the connection out for its turn; it comes back by [`Slots::put`] or is gone.
    pub(crate) fn take(&mut self, slot: usize) -> Option<Box<Connection>> {
        self.slots.get_mut(slot)?.connection.take()
    }

    /// As [`Slots::take`], if the connection is as `is_wanted` says.
    pub(crate) fn take_if(
        &mut self,
        slot: usize,
        is_wanted: impl FnOnce(&Connection) -> bool,
    ) -> Option<Box<Connection>> {
        self.slots.get_mut(slot)?.connection.take_if(|connection| is_wanted(connection))
    }

    /// True if the slot still has the connection that is meant.
    pub(crate) fn is_current(&self, id: ConnectionId) -> bool {
        let slot = self.slots.get(id.slot as usize);
        slot.is_some_and(|slot| slot.generation == id.generation)
    }

    pub(crate) fn put(&mut self, slot: usize, connection: Box<Connection>) {
        let before = self.slots[slot].connection.replace(connection);
        assert!(before.is_none(), "a slot has one connection");
    }

    /// Frees the slot of a connection that was taken out and is gone.
    pub(crate) fn free(&mut self, slot: usize) {
        self.slots[slot].generation = self.slots[slot].generation.wrapping_add(1);
        self.freed.push(slot);
        self.used -= 1;
    }

    /// Has the slots used again that were freed: no event of their last connections is left.
    pub(crate) fn reuse_freed(&mut self) {
        self.free.append(&mut self.freed);
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

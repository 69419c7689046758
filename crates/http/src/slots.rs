//! A table of connections by slot. A slot is reused under a new generation.

use crate::connection::Connection;
use crate::mailbox::ConnectionId;

/// The connections of one event loop.
#[derive(Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Slots that were freed in this wake-up. They are not reused within it, because a pending
    /// event may belong to their last connection.
    freed: Vec<usize>,
    used: usize,
}

#[derive(Default)]
struct Slot {
    connection: Option<Box<Connection>>,
    generation: u32,
}

impl Slots {
    /// The slot of the next connection, with its generation.
    pub(crate) fn next(&mut self) -> ConnectionId {
        if self.free.is_empty() {
            self.free.push(self.slots.len());
            self.slots.push(Slot::default());
        }
        let slot = self.free[self.free.len() - 1];
        ConnectionId { slot: slot as u32, generation: self.slots[slot].generation, stream: 0 }
    }

    /// Puts a new connection into the slot that [`Slots::next`] returned.
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

    /// Takes the connection out for its turn. Afterwards call [`Slots::put`], or [`Slots::free`] if
    /// it has ended.
    pub(crate) fn take(&mut self, slot: usize) -> Option<Box<Connection>> {
        self.slots.get_mut(slot)?.connection.take()
    }

    /// Takes the connection out like [`Slots::take`], if `is_wanted` returns true for it.
    pub(crate) fn take_if(
        &mut self,
        slot: usize,
        is_wanted: impl FnOnce(&Connection) -> bool,
    ) -> Option<Box<Connection>> {
        self.slots.get_mut(slot)?.connection.take_if(|connection| is_wanted(connection))
    }

    /// True if the slot still belongs to the connection with this identity.
    pub(crate) fn is_current(&self, id: ConnectionId) -> bool {
        let slot = self.slots.get(id.slot as usize);
        slot.is_some_and(|slot| slot.generation == id.generation)
    }

    pub(crate) fn put(&mut self, slot: usize, connection: Box<Connection>) {
        let before = self.slots[slot].connection.replace(connection);
        assert!(before.is_none(), "a slot has one connection");
    }

    /// Frees the slot of a connection that was taken out and has ended.
    pub(crate) fn free(&mut self, slot: usize) {
        self.slots[slot].generation = self.slots[slot].generation.wrapping_add(1);
        self.freed.push(slot);
        self.used -= 1;
    }

    /// Makes the freed slots available again, once no event of their last connections is pending.
    pub(crate) fn reuse_freed(&mut self) {
        self.free.append(&mut self.freed);
    }

    /// The number of connections, including those that are taken out.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// The number of slots: one more than the highest index.
    pub(crate) fn bound(&self) -> usize {
        self.slots.len()
    }
}

//! Keys, values and writes, the same for every kind of store.

use std::ops::Deref;

use pellucid_io::FileBytes;

use crate::error::{Result, StoreError};

/// Bytes that a key may have.
pub const KEY_LENGTH_MAX: usize = 1024;

/// Refuses what is no key.
///
/// # Errors
/// [`StoreError::Unacceptable`] with the bounds of its length.
pub fn check_key(key: &[u8]) -> Result<()> {
    match key.len() {
        1..=KEY_LENGTH_MAX => Ok(()),
        length => Err(StoreError::Unacceptable(format!(
            "a key has 1 to {KEY_LENGTH_MAX} bytes, and this one has {length}"
        ))),
    }
}

/// The moment when a write counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Acknowledgement {
    /// It is visible to readers.
    Memory,
    /// It is in the operating system's memory: it survives the death of the process, not that of
    /// the machine.
    #[default]
    Os,
    /// It is on the medium: it survives the death of the machine.
    Disk,
}

/// Says whether reads may wait for the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadMode {
    /// They wait until the pages they need are in memory.
    #[default]
    MayBlock,
    /// They fail with [`StoreError::NotInMemory`](crate::StoreError::NotInMemory) where they would
    /// have to wait, if the store can tell.
    InMemory,
    /// They wait, and ranges fail with [`StoreError::NotInMemory`](crate::StoreError::NotInMemory)
    /// where they would pass over many entries that are there no more, if the store can tell.
    Brief,
}

/// A condition on a key, without which its write does not happen. A key that has expired is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    #[default]
    None,
    /// The key is not there.
    Absent,
    /// The key is there.
    Present,
    /// The key is there with this sequence number.
    Sequence(u64),
}

/// A table of the store that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Table(u16);

impl Table {
    /// The table to which its store gave this number. For kinds of stores alone.
    #[must_use]
    pub fn of_number(number: u16) -> Table {
        Table(number)
    }

    /// The number that its store gave it.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }
}

/// The length of the prefix of a key that names the part of the table in which it lies.
pub type PartOf = fn(&[u8]) -> usize;

/// Copies that have to answer, among those that are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copies {
    /// Copies that have to answer.
    pub ack: u32,
    /// Copies that are asked.
    pub from: u32,
}

/// All of an entry but its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// A number that no other write of the store has; later writes have higher ones.
    pub sequence: u64,
    /// The time at which it was written, in milliseconds since the Unix epoch.
    pub written_at_ms: u64,
    /// Length of the value in bytes.
    pub value_length: u64,
}

/// Bytes that a note may have.
pub const NOTE_BYTES_MAX: usize = 8;

/// A few bytes that a store keeps with an entry beside its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    bytes: [u8; NOTE_BYTES_MAX],
    length: u8,
}

impl Note {
    /// A note of these bytes; nothing if there are more than [`NOTE_BYTES_MAX`].
    #[must_use]
    pub fn new(text: &[u8]) -> Option<Note> {
        let mut bytes = [0; NOTE_BYTES_MAX];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Note { bytes, length: text.len() as u8 })
    }
}

impl Deref for Note {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// An entry's head and value.
#[derive(Clone, Debug)]
pub struct Object {
    /// All but the value.
    pub head: Head,
    /// The value.
    pub value: Value,
}

/// The bytes of a value, wherever the store has them.
#[derive(Clone, Debug)]
// An answer is moved a few times on its way out. Beside a tag of one byte it is copied in pieces
// that lie across those of the copy before, and waits until that one is in memory.
#[repr(u64)]
pub enum Value {
    /// In a mapped file of the store.
    Mapped(FileBytes),
    /// Brought from elsewhere.
    Owned(Vec<u8>),
}

impl Value {
    /// True if the bytes, which were just used, could still be read from where they lie.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        match self {
            Value::Mapped(value) => value.is_readable(),
            Value::Owned(_) => true,
        }
    }

    /// Bytes of memory that it takes; none where it lies in a mapped file.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match self {
            Value::Mapped(value) => value.held_bytes(),
            Value::Owned(value) => value.capacity(),
        }
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Value::Mapped(value) => value,
            Value::Owned(value) => value,
        }
    }
}

/// One entry of a write.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The new value; nothing removes the key.
    pub value: Option<&'a [u8]>,
    /// The condition of the write.
    pub condition: Condition,
    /// The lifetime of the entry, in milliseconds; nothing means until it is removed.
    /// It counts from the write, by the store's own time, which never goes back.
    pub lifetime_ms: Option<u64>,
}

impl Operation<'_> {
    /// Refuses what is no key, and a value of more than `value_bytes_max` bytes.
    ///
    /// # Errors
    /// [`StoreError::Unacceptable`] with the bounds.
    pub fn check(&self, value_bytes_max: usize) -> Result<()> {
        check_key(self.key)?;
        match self.value.map_or(0, <[u8]>::len) {
            length if length > value_bytes_max => Err(StoreError::Unacceptable(format!(
                "the value has {length} bytes; it may have up to {value_bytes_max}"
            ))),
            _ => Ok(()),
        }
    }
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The sequence number of the last entry.
    pub sequence: u64,
}

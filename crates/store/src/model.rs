//! Keys, values and writes, the same for every kind of store.

use std::ops::Deref;

use pellucid_io::FileBytes;

use crate::error::{Result, StoreError};

/// The most bytes of a key.
pub const KEY_LENGTH_MAX: usize = 1024;

/// Checks the length of a key.
///
/// # Errors
/// [`StoreError::Unacceptable`], with the bounds in its text.
pub fn check_key(key: &[u8]) -> Result<()> {
    match key.len() {
        1..=KEY_LENGTH_MAX => Ok(()),
        length => Err(StoreError::Unacceptable(format!(
            "a key has 1 to {KEY_LENGTH_MAX} bytes, and this one has {length}"
        ))),
    }
}

/// The level of durability at which a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Acknowledgement {
    /// The write is visible to readers.
    Memory,
    /// The write is in the operating system's memory: it survives a crash of the process, but not
    /// of the machine.
    #[default]
    Os,
    /// The write is on the disk: it survives a crash of the machine.
    Disk,
}

/// The behaviour of reads that would have to wait for the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadMode {
    /// Reads wait until the pages that they need are in memory.
    #[default]
    MayBlock,
    /// Reads fail with [`StoreError::NotInMemory`](crate::StoreError::NotInMemory) where they would
    /// have to wait, if the store can tell.
    InMemory,
    /// Reads wait, but scans fail with [`StoreError::NotInMemory`](crate::StoreError::NotInMemory)
    /// where they would have to skip many removed entries, if the store can tell.
    Brief,
}

/// A condition on a key as it is before the batch, whatever else the batch does to the key. If it
/// does not hold, nothing of the batch is written. An expired key is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// No condition.
    #[default]
    None,
    /// The key must not exist.
    Absent,
    /// The key must exist.
    Present,
    /// The key must exist with this sequence number.
    Sequence(u64),
}

impl Condition {
    /// True for an entry with the sequence number `current`, or for none.
    #[must_use]
    pub fn holds(self, current: Option<u64>) -> bool {
        match self {
            Condition::None => true,
            Condition::Absent => current.is_none(),
            Condition::Present => current.is_some(),
            Condition::Sequence(sequence) => current == Some(sequence),
        }
    }
}

/// A table of the store that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Table(u16);

impl Table {
    /// The table with this number. Only implementations of a store call this.
    #[must_use]
    pub fn of_number(number: u16) -> Table {
        Table(number)
    }

    /// The number that the store gave to the table.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }
}

/// A function that returns the length of the prefix of a key that names its part of the table.
pub type PartitionFunction = fn(&[u8]) -> usize;

/// The number of copies for which a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaQuorum {
    /// The number of copies that have to answer.
    pub ack: u32,
    /// The number of copies that are asked.
    pub from: u32,
}

/// An entry without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The sequence number of the write, unique in the store. Later writes have higher ones.
    pub sequence: u64,
    /// The time at which it was written, in milliseconds since the Unix epoch.
    pub written_at_ms: u64,
    /// The length of the value in bytes.
    pub value_length: u64,
}

/// The most bytes of a note.
pub const NOTE_BYTES_MAX: usize = 8;

/// A few bytes that a store keeps with an entry besides its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    bytes: [u8; NOTE_BYTES_MAX],
    length: u8,
}

impl Note {
    /// Makes a note of these bytes; `None` if there are more than [`NOTE_BYTES_MAX`].
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
    /// The entry without its value.
    pub head: Head,
    /// The value.
    pub value: Value,
}

/// The bytes of a value.
#[derive(Clone, Debug)]
// An answer is moved several times on its way to the client. With a tag of one byte, each move
// would load unaligned words that overlap the stores of the move before, and wait for those stores.
#[repr(u64)]
pub enum Value {
    /// Bytes in a mapped file of the store.
    Mapped(FileBytes),
    /// Bytes in memory of their own.
    Owned(Vec<u8>),
}

impl Value {
    /// Calls `make` with the bytes, and returns the result. Every copy for others is made by this,
    /// or is followed by [`Value::check_read`].
    ///
    /// # Errors
    /// As for [`Value::check_read`]: the result is dropped.
    pub fn read<T>(&self, make: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let made = make(self);
        self.check_read()?;
        Ok(made)
    }

    /// Checks that the bytes, which were just used, were readable. Bytes in a mapped file were
    /// checked when they were found, but a page that has left memory since, and cannot be read
    /// again, appears as zeros.
    ///
    /// # Errors
    /// [`StoreError::Corruption`] if the bytes were not readable: nothing that was made of them may
    /// be used.
    #[inline]
    pub fn check_read(&self) -> Result<()> {
        match self {
            Value::Mapped(value) if !value.is_readable() => Err(unreadable()),
            _ => Ok(()),
        }
    }

    /// The bytes of memory that the value takes.
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

#[cold]
fn unreadable() -> StoreError {
    let what = "a value could not be read from the disk, although it was sound before: check the \
                disk, and the data by `pellucid inspect`";
    StoreError::Corruption(what.to_owned())
}

/// One entry of a write.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The new value; `None` removes the key.
    pub value: Option<&'a [u8]>,
    /// The condition of the write.
    pub condition: Condition,
    /// The lifetime of the entry, in milliseconds; `None` if it does not expire. It counts from the
    /// write, by the store's own clock, which never goes back.
    pub lifetime_ms: Option<u64>,
}

impl<'a> Operation<'a> {
    /// A write without a condition, of an entry that does not expire.
    #[must_use]
    pub fn plain(key: &'a [u8], value: Option<&'a [u8]>) -> Operation<'a> {
        Operation { key, value, condition: Condition::None, lifetime_ms: None }
    }

    /// Checks the length of the key, and that the value has at most `value_bytes_max` bytes.
    ///
    /// # Errors
    /// [`StoreError::Unacceptable`], with the bounds in its text.
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

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOutcome {
    /// The sequence number of the batch's last operation. Those of the others precede it.
    pub sequence: u64,
}

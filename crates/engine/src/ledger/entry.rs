//! The ledger's entry for a record: the fields that the writer puts into memtables and tables.

use pellucid_io::ShortBytes;

use crate::header_form::HeaderForm;

/// The effect of a record on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EntryKind {
    /// The key has the value that the record holds.
    Put = 1,
    /// The key is gone: a tombstone.
    Delete = 2,
}

impl EntryKind {
    /// The kind with this number; `None` if there is none.
    #[inline]
    pub(crate) fn from_number(number: u8) -> Option<EntryKind> {
        match number {
            1 => Some(EntryKind::Put),
            2 => Some(EntryKind::Delete),
            _ => None,
        }
    }
}

/// An entry of the ledger, borrowed from the writer, a memtable or a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// The internal key: table number, then the user's key.
    pub(crate) key: &'a [u8],
    /// The sequence number of the record.
    pub(crate) sequence: u64,
    /// The effect of the record.
    pub(crate) kind: EntryKind,
    /// Length of the value, in bytes.
    pub(crate) value_length: u32,
    /// Length of the value in the journal, in bytes: smaller if it is compressed there.
    pub(crate) stored_length: u32,
    /// The time of the write, in milliseconds since the Unix epoch.
    pub(crate) written_at_ms: u64,
    /// The time of expiry, in milliseconds since the Unix epoch; 0 for never.
    pub(crate) expires_at_ms: u64,
    /// The head, which a HEAD request returns.
    pub(crate) head: &'a [u8],
    /// The value, if the ledger holds it in addition to the journal.
    pub(crate) value: Option<&'a [u8]>,
}

impl<'a> Entry<'a> {
    /// A tombstone of the empty key: the fields that the maker of an entry does not name.
    pub(crate) const NOTHING: Entry<'static> = Entry {
        key: &[],
        sequence: 0,
        kind: EntryKind::Delete,
        value_length: 0,
        stored_length: 0,
        written_at_ms: 0,
        expires_at_ms: 0,
        head: &[],
        value: None,
    };

    /// An entry for tests, whose fields follow from its key and sequence number.
    #[cfg(test)]
    pub(crate) fn sample(key: &'a [u8], sequence: u64) -> Entry<'a> {
        let value = sequence.is_multiple_of(3).then_some(key);
        let value_length = value.map_or(sequence as u32, |value| value.len() as u32);
        Entry {
            key,
            sequence,
            kind: if sequence.is_multiple_of(7) { EntryKind::Delete } else { EntryKind::Put },
            value_length,
            stored_length: if sequence.is_multiple_of(2) { value_length } else { value_length / 2 },
            written_at_ms: sequence * 1000,
            expires_at_ms: sequence % 3,
            head: &key[..key.len().min(sequence as usize % 5)],
            value,
        }
    }

    /// The same entry with the key `key`, which lives long enough for the caller.
    #[inline]
    pub(crate) fn with_key<'k>(self, key: &'k [u8]) -> Entry<'k>
    where
        'a: 'k,
    {
        Entry { key, ..self }
    }

    /// The form of this entry's record header, if the record is written now.
    pub(crate) fn header_form(&self) -> HeaderForm {
        HeaderForm::of(self.head.len(), self.written_at_ms, self.expires_at_ms)
    }

    /// Length of this entry's record in the journal with padding, in bytes, if it is written now.
    pub(crate) fn record_size_bytes(&self) -> u64 {
        let rest = (self.key.len() + self.head.len()) as u64 + u64::from(self.stored_length);
        self.header_form().padded_length(rest)
    }

    /// The sequence number of the record, if a GET has to read the record for the value.
    #[inline]
    pub(crate) fn record_to_read(&self) -> Option<u64> {
        let is_there = self.kind == EntryKind::Put && self.value_length > 0 && self.value.is_none();
        is_there.then_some(self.sequence)
    }

    /// An owned copy of the entry without its key.
    #[inline]
    pub(crate) fn to_found(self) -> FoundEntry {
        FoundEntry {
            sequence: self.sequence,
            kind: self.kind,
            value_length: self.value_length,
            stored_length: self.stored_length,
            written_at_ms: self.written_at_ms,
            expires_at_ms: self.expires_at_ms,
            head: Head::new(self.head),
            value: self.value.map(HeldValue::new),
        }
    }
}

/// The entry that a look-up found, without its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundEntry {
    /// The sequence number of the record.
    pub(crate) sequence: u64,
    /// The effect of the record; a tombstone is an answer too.
    pub(crate) kind: EntryKind,
    /// Length of the value, in bytes.
    pub(crate) value_length: u32,
    /// Length of the value in the journal, in bytes.
    pub(crate) stored_length: u32,
    /// The time of the write, in milliseconds since the Unix epoch.
    pub(crate) written_at_ms: u64,
    /// The time of expiry, in milliseconds since the Unix epoch; 0 for never.
    pub(crate) expires_at_ms: u64,
    /// The head.
    pub(crate) head: Head,
    /// The value, if the ledger holds it.
    pub(crate) value: Option<HeldValue>,
}

impl FoundEntry {
    /// An empty entry, to be filled by a look-up.
    pub(crate) fn nothing() -> FoundEntry {
        Entry::NOTHING.to_found()
    }

    /// Takes the head out of the entry.
    #[inline]
    pub(crate) fn take_head(&mut self) -> Head {
        std::mem::replace(&mut self.head, Head::new(&[]))
    }

    /// Takes the value, if the ledger knows it: it is held here, or it is empty.
    #[inline]
    pub(crate) fn take_value(&mut self) -> Option<HeldValue> {
        match self.value_length {
            0 => Some(HeldValue::new(&[])),
            _ => self.value.take(),
        }
    }
}

/// The bytes of a head, stored inline if they are few, so that a HEAD allocates nothing.
pub(crate) type Head = ShortBytes<38>;

/// A copy of a value that the ledger holds, stored inline up to the default limit of tables, so
/// that a GET allocates nothing.
pub(crate) type HeldValue = ShortBytes<64>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_size_is_padded() {
        let entry = Entry {
            key: &[0, 1, 7],
            kind: EntryKind::Put,
            value_length: 9,
            stored_length: 5,
            ..Entry::NOTHING
        };
        assert_eq!(entry.record_size_bytes(), 32);
        assert_eq!(Entry { stored_length: 6, ..entry }.record_size_bytes(), 40);
        assert_eq!(Entry { expires_at_ms: 1, ..entry }.record_size_bytes(), 48);
        assert_eq!(Entry { head: b"h", ..entry }.record_size_bytes(), 56);
    }
}

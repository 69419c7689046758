//! A batch of operations on one node in binary form, as the value of [`crate::AskKind::Write`]. The
//! store of kind `sharded` sends it; a batch of the API is text ([`crate::AskKind::Batch`]).

use pellucid_store::{KEY_LENGTH_MAX, Operation};

use crate::frame::FrameError;
use crate::numbers::{condition_of, numbers_of};

const HAS_VALUE: u8 = 1;
const HAS_LIFETIME: u8 = 2;
/// Length in bytes of an operation's fixed fields.
const OPERATION_BYTES: usize = 26;

/// One operation of a batch.
#[derive(Clone, Copy, Debug)]
pub struct PartOperation<'a> {
    /// The write.
    pub operation: Operation<'a>,
    /// Length in bytes of the key's prefix that determines its owner.
    pub part_length: u16,
}

impl<'a> PartOperation<'a> {
    /// Appends the encoded operation to `out`.
    ///
    /// # Panics
    /// If the key has more than 65,535 bytes, or the value 4 GiB or more. Callers check these
    /// limits before.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let Operation { key, value, condition, lifetime_ms } = self.operation;
        let (condition, sequence) = numbers_of(condition);
        let mut flags = if value.is_some() { HAS_VALUE } else { 0 };
        flags |= if lifetime_ms.is_some() { HAS_LIFETIME } else { 0 };
        let key_length = u16::try_from(key.len()).expect("the store has checked the key");
        let value = value.unwrap_or_default();
        let value_length = u32::try_from(value.len()).expect("a value is below 4 GiB");
        out.extend_from_slice(&[flags, condition]);
        out.extend_from_slice(&self.part_length.to_le_bytes());
        out.extend_from_slice(&sequence.to_le_bytes());
        out.extend_from_slice(&lifetime_ms.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&key_length.to_le_bytes());
        out.extend_from_slice(&value_length.to_le_bytes());
        out.extend_from_slice(key);
        out.extend_from_slice(value);
    }

    /// Decodes all operations of a value.
    ///
    /// # Errors
    /// If the bytes are not a sequence of valid operations.
    pub fn decode_all(mut bytes: &'a [u8]) -> Result<Vec<PartOperation<'a>>, FrameError> {
        let mut operations = Vec::new();
        while !bytes.is_empty() {
            let (operation, rest) = decode(bytes).ok_or(FrameError::Malformed("operation"))?;
            operations.push(operation);
            bytes = rest;
        }
        Ok(operations)
    }

    /// The prefix of the key that determines its owner; `None` if the key is shorter.
    #[must_use]
    pub fn owned_by(&self) -> Option<&'a [u8]> {
        self.operation.key.get(..usize::from(self.part_length))
    }
}

/// The operation at the beginning of `bytes`, and the bytes behind it; `None` if it is invalid.
fn decode(bytes: &[u8]) -> Option<(PartOperation<'_>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<OPERATION_BYTES>()?;
    let number = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
    let (flags, sequence, lifetime_ms) = (head[0], number(4)?, number(12)?);
    let condition = condition_of(head[1], sequence)?;
    let part_length = u16::from_le_bytes([head[2], head[3]]);
    let key_length = usize::from(u16::from_le_bytes([head[20], head[21]]));
    let value_length = u32::from_le_bytes([head[22], head[23], head[24], head[25]]) as usize;
    let (key, rest) = rest.split_at_checked(key_length)?;
    let (value, rest) = rest.split_at_checked(value_length)?;
    let has_value = flags & HAS_VALUE != 0;
    let is_sound = flags & !(HAS_VALUE | HAS_LIFETIME) == 0
        && (has_value || value.is_empty())
        && (1..=KEY_LENGTH_MAX).contains(&key_length);
    let lifetime_ms = (flags & HAS_LIFETIME != 0).then_some(lifetime_ms);
    let operation = Operation { key, value: has_value.then_some(value), condition, lifetime_ms };
    is_sound.then_some((PartOperation { operation, part_length }, rest))
}

#[cfg(test)]
mod tests {
    use pellucid_store::Condition;

    use super::*;

    #[test]
    fn a_batch_of_operations_round_trips() {
        let put = Operation {
            key: b"a:1",
            value: Some(b"".as_slice()),
            condition: Condition::Sequence(7),
            lifetime_ms: Some(3),
        };
        let operations = [put, Operation::plain(b"a:2", None)];
        let mut bytes = Vec::new();
        for operation in operations {
            PartOperation { operation, part_length: 2 }.encode(&mut bytes);
        }
        let read = PartOperation::decode_all(&bytes).unwrap();
        assert_eq!(read.len(), 2);
        for (read, written) in read.iter().zip(operations) {
            assert_eq!(format!("{:?}", read.operation), format!("{written:?}"));
            assert_eq!(read.owned_by(), Some(b"a:".as_slice()));
        }
        for length in 1..bytes.len() {
            let cut = PartOperation::decode_all(&bytes[..length]);
            assert!(cut.is_err() || length == OPERATION_BYTES + 3, "{length}");
        }
        assert!(PartOperation::decode_all(&[0xff; 60]).is_err());
    }
}

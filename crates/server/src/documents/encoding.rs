//! JSON response bodies. Before a body grows, the new memory is charged to its request's share of
//! the memory budget.

use pellucid_budget::Share;
use pellucid_document::DocumentError;
use pellucid_value::{Ref, Value, json};

use super::control::Control;
use super::memory::{out_of_memory, over_budget};

/// The first capacity of a body, which is not counted.
const FIRST_BYTES: usize = 1 << 10;

/// The most bytes of JSON for one byte of a value: a control character becomes `\u0000`.
const ENCODED_PER_BYTE: usize = 6;

/// The most bytes of a number as JSON; a number may have no bytes of its own in a value's size.
const NUMBER_BYTES_MAX: usize = 32;

/// The spare capacity that a writer of JSON asks for beyond what it writes.
const WRITER_BYTES: usize = 64;

/// A value whose JSON may be longer than this is measured before it is written.
pub(super) const UNMEASURED_BYTES_MAX: usize = 64 << 10;

/// A JSON body that is being written.
pub(super) struct Encoding<'a> {
    body: Vec<u8>,
    memory: Share,
    /// The capacity that is accounted for: charged to `memory`, or part of the first
    /// [`FIRST_BYTES`], which are free.
    counted_bytes: usize,
    /// The handle by which other threads can cancel the call; `None` where it cannot be cancelled.
    control: Option<&'a Control>,
}

impl<'a> Encoding<'a> {
    /// An empty body that charges its memory to `memory`.
    pub(super) fn new(memory: Share, control: Option<&'a Control>) -> Encoding<'a> {
        let body = Vec::with_capacity(FIRST_BYTES);
        Encoding { counted_bytes: body.capacity(), body, memory, control }
    }

    /// The number of bytes so far.
    pub(super) fn len(&self) -> usize {
        self.body.len()
    }

    /// The body so far, for changes in place.
    pub(super) fn body_mut(&mut self) -> &mut Vec<u8> {
        &mut self.body
    }

    /// Appends bytes as they are.
    ///
    /// # Errors
    /// ArangoDB's error 32 (resource limit) if there is not enough memory, 1500 (query killed) if
    /// the call was cancelled.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), DocumentError> {
        self.reserve(bytes.len())?;
        self.body.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends a value as JSON.
    ///
    /// # Errors
    /// Those of [`Self::bytes`].
    pub(super) fn value(&mut self, value: &Value) -> Result<(), DocumentError> {
        let bytes_max = value.size_bytes().saturating_mul(ENCODED_PER_BYTE) + NUMBER_BYTES_MAX;
        self.part(value.view(), bytes_max)
    }

    /// Appends a packed value of `size` bytes as JSON.
    ///
    /// # Errors
    /// Those of [`Self::bytes`].
    pub(super) fn packed(&mut self, value: Ref<'_>, size: usize) -> Result<(), DocumentError> {
        self.part(value, size.saturating_mul(ENCODED_PER_BYTE) + NUMBER_BYTES_MAX)
    }

    /// Appends a value whose JSON has at most `bytes_max` bytes.
    fn part(&mut self, value: Ref<'_>, bytes_max: usize) -> Result<(), DocumentError> {
        let room = if bytes_max > UNMEASURED_BYTES_MAX { json::length(value) } else { bytes_max };
        self.reserve(room + WRITER_BYTES)?;
        json::write(value, &mut self.body);
        // The writer may have reserved more than it needed.
        self.count()
    }

    /// Reserves room for `bytes` more.
    ///
    /// # Errors
    /// Those of [`Self::bytes`].
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), DocumentError> {
        self.count()?;
        let (length, capacity) = (self.body.len(), self.body.capacity());
        if capacity - length >= bytes {
            return Ok(());
        }
        self.control.map_or(Ok(()), Control::check)?;
        let wanted = length.saturating_add(bytes).max(capacity + capacity / 2);
        // The old and the new buffer both exist while one is copied to the other.
        self.memory.take(wanted).map_err(over_budget)?;
        let reserved = self.body.try_reserve_exact(wanted - length);
        self.memory.give_back(if reserved.is_ok() { capacity } else { wanted });
        self.counted_bytes = if reserved.is_ok() { wanted } else { capacity };
        reserved.map_err(|_| out_of_memory())
    }

    /// Takes the memory by which the body has grown without a call of [`Self::reserve`].
    fn count(&mut self) -> Result<(), DocumentError> {
        let capacity = self.body.capacity();
        if capacity > self.counted_bytes {
            self.memory.take(capacity - self.counted_bytes).map_err(over_budget)?;
            self.counted_bytes = capacity;
        }
        Ok(())
    }

    /// The body, and the memory that it takes.
    pub(super) fn finish(self) -> (Vec<u8>, Share) {
        (self.body, self.memory)
    }
}

#[cfg(test)]
mod tests {
    use pellucid_budget::Budget;
    use pellucid_document::ErrorNumber;

    use super::*;

    #[test]
    fn a_body_takes_its_memory_before_it_grows() {
        let budget = Budget::new(1 << 20);
        let mut encoding = Encoding::new(budget.share(1 << 20), None);
        // Each of its characters takes six bytes as JSON.
        let text = Value::from("\u{1}".repeat(100_000).as_str());
        encoding.value(&text).unwrap();
        assert_eq!(encoding.len(), 600_002);
        assert!((600_002..700_000).contains(&budget.used_bytes()), "{}", budget.used_bytes());
        let refused = encoding.value(&text).unwrap_err();
        assert_eq!(refused.number, ErrorNumber::RESOURCE_LIMIT);
        assert_eq!(encoding.len(), 600_002, "a refused value leaves nothing behind");
        let (body, memory) = encoding.finish();
        assert_eq!(body.len(), 600_002);
        drop(memory);
        assert_eq!(budget.used_bytes(), 0);
    }

    /// Regression: growth by [`Encoding::body_mut`] was not counted, nor anything written later.
    #[test]
    fn a_body_counts_however_it_grows() {
        let mut encoding = Encoding::new(Budget::new(1 << 20).share(1 << 20), None);
        encoding.body_mut().resize(1 << 18, b'1');
        encoding.bytes(b"1").unwrap();
        encoding.body_mut().resize(1 << 21, b'1');
        assert!(encoding.bytes(b"1").is_err());
    }

    #[test]
    fn a_body_of_an_ended_call_does_not_grow() {
        let control = Control::new(String::new(), std::time::Duration::ZERO);
        let share = Budget::unbounded().share(usize::MAX);
        let mut encoding = Encoding::new(share, Some(&control));
        encoding.bytes(&[b'1'; 2 * FIRST_BYTES]).unwrap();
        control.end();
        let refused = encoding.bytes(&[b'1'; 8 * FIRST_BYTES]).unwrap_err();
        assert_eq!(refused.number, ErrorNumber::QUERY_KILLED);
    }
}

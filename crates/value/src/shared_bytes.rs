//! Ranges of bytes that several values share.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The bytes besides its own that a part may keep in memory. A copy has about as much overhead.
const WASTE_BYTES_USUAL: usize = 64;

/// A range of shared bytes; a clone costs one atomic addition.
#[derive(Clone)]
pub struct SharedBytes {
    bytes: Arc<[u8]>,
    start: u32,
    end: u32,
}

impl SharedBytes {
    /// Copies `bytes` to memory of their own. Bytes beyond 4 GiB are left out; no packed value has
    /// so many.
    #[must_use]
    pub fn copy(bytes: &[u8]) -> Self {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Self { bytes: Arc::from(&bytes[..length as usize]), start: 0, end: length }
    }

    /// The range `part` of the same memory; a copy if `part` is not in it.
    #[must_use]
    pub fn part(&self, part: &[u8]) -> Self {
        let base = self.bytes.as_ptr() as usize;
        let place = (part.as_ptr() as usize).wrapping_sub(base);
        match place.checked_add(part.len()) {
            Some(end) if end <= self.bytes.len() => {
                // Both fit in 32 bits, because the whole has at most `u32::MAX` bytes.
                Self { bytes: Arc::clone(&self.bytes), start: place as u32, end: end as u32 }
            }
            _ => Self::copy(part),
        }
    }

    /// True if the whole that it keeps in memory is much longer than the range.
    pub(crate) fn is_wasteful(&self) -> bool {
        self.bytes.len() > self.len() + self.len() / 2 + WASTE_BYTES_USUAL
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start as usize..self.end as usize]
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} shared bytes", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ObjectBuilder, Value};

    /// Regression: a result of small parts kept all documents in memory from which they were read.
    #[test]
    fn small_parts_release_their_documents() {
        let mut builder = ObjectBuilder::new();
        builder.insert("name", Value::from("somebody"));
        builder.insert("tags", Value::array(vec![Value::from("a"), Value::from("b")]).unwrap());
        builder.insert("long", Value::from("x".repeat(10_000)));
        let document = Value::open(&builder.finish().unwrap().to_packed().unwrap()).unwrap();
        let Value::Packed(whole) = &document else { panic!("a document is packed") };
        let holders = || Arc::strong_count(&whole.bytes);
        let mut object = ObjectBuilder::new();
        object.insert("name", document.attribute("name"));
        let mut kept =
            Value::array(vec![document.attribute("tags"), object.finish().unwrap()]).unwrap();
        let mut long = document.attribute("long");
        assert_eq!(holders(), 4, "each part holds the document");
        let before = kept.to_json();
        kept.let_go();
        long.let_go();
        assert_eq!(holders(), 2, "a part that is most of the document is not copied");
        assert_eq!(kept.to_json(), before);
    }
}

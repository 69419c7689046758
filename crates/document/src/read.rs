//! Reading documents.

use pellucid_account::Timeline;
use pellucid_store::{Answer, Head, Note, Object};
use pellucid_value::packed;

use crate::collection::Shape;
use crate::documents::Documents;
use crate::error::Result;
use crate::stored::reveal;

impl Documents {
    /// The newest stored form of a document. Callers that may not block look at the answer; the
    /// others wait.
    pub fn get(
        &self,
        shape: &Shape,
        key: &[u8],
        timeline: &mut Timeline,
    ) -> Answer<Option<Object>> {
        self.store.get(self.table, &shape.document_key(key), timeline)
    }

    /// The head of a document, and the length that it has as JSON if the store knows that without
    /// its body.
    pub fn head_and_length(
        &self,
        shape: &Shape,
        key: &[u8],
        timeline: &mut Timeline,
    ) -> Answer<Option<(Head, Option<u64>)>> {
        let name_length = shape.definition.name.len() as u64;
        let key = shape.document_key(key);
        let Some(noting) = self.store.noting() else {
            let found = self.store.head(self.table, &key, timeline);
            return found.map(|found| found.map(|head| (head, None)));
        };
        noting.head_noted(self.table, &key, timeline).map(move |found| {
            found.map(|(head, note)| (head, length_of_note(note).map(|rest| rest + name_length)))
        })
    }
}

/// The note that says how long a document is as JSON, less the name of its collection, which may
/// change: little-endian, without the zeros at its end.
pub(crate) fn json_length_note(shape: &Shape, stored: &[u8]) -> Note {
    let length = packed::json_length(stored).unwrap_or(0);
    let rest = length.saturating_sub(shape.definition.name.len()) as u64;
    let bytes = rest.to_le_bytes();
    Note::new(&bytes[..8 - rest.leading_zeros() as usize / 8]).unwrap_or_default()
}

/// What such a note says; nothing if there is none.
fn length_of_note(note: Note) -> Option<u64> {
    let mut bytes = [0; 8];
    bytes.get_mut(..note.len())?.copy_from_slice(&note);
    (!note.is_empty()).then(|| u64::from_le_bytes(bytes))
}

/// The packed document, with its revision, of what [`Documents::get`] found.
///
/// # Errors
/// 4 if the stored bytes make no sense.
pub fn document_of(shape: &Shape, object: &Object) -> Result<Vec<u8>> {
    reveal(shape, &object.value, object.head.sequence)
}

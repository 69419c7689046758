//! Reading documents.

use pellucid_account::Timeline;
use pellucid_store::{Answer, Head, Object};

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

    /// The head of a document: its revision is known without its body.
    pub fn head(&self, shape: &Shape, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Head>> {
        self.store.head(self.table, &shape.document_key(key), timeline)
    }
}

/// The packed document, with its revision, of what [`Documents::get`] found.
///
/// # Errors
/// 4 if the stored bytes make no sense.
pub fn document_of(shape: &Shape, object: &Object) -> Result<Vec<u8>> {
    reveal(shape, &object.value, object.head.sequence)
}

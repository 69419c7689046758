//! The interface of import targets: entities or documents of a server.

use super::rows::Content;
use crate::Failure;
use crate::remote_server::REFUSES_WRITES;

/// The failure of a batch.
pub(super) struct Refusal {
    /// The reason.
    pub(super) text: String,
    /// The index in the batch of the item that caused it, if known.
    pub(super) place: Option<usize>,
    /// True if nothing of the batch was written for sure; false if it is not known.
    pub(super) is_undone: bool,
}

/// A target that batches of rows are written to.
pub(super) trait Target {
    /// An entity or a document.
    type Item;

    /// The end of a message: tells whether items may be written a second time without harm.
    const AGAIN: &'static str;

    /// Converts a row to an item; `None` if there is nothing to write. An error tells what is wrong
    /// with the row.
    fn item(&mut self, content: &Content<'_>) -> Result<Option<Self::Item>, String>;

    /// The approximate size of an item in bytes.
    fn bytes(item: &Self::Item) -> usize;

    /// Writes a batch, which must not be empty: all of it or nothing.
    fn write(&mut self, items: &[Self::Item]) -> Result<(), Refusal>;

    /// A sentence with the number of items written.
    fn summary(&self) -> String;
}

impl Refusal {
    /// The failure of a request without an answer. If the server was reached, it may have written
    /// the batch or not.
    pub(super) fn unanswered(failure: Failure) -> Refusal {
        let is_undone = failure.text.contains("Connection refused");
        Refusal { text: failure.text, place: None, is_undone }
    }

    /// The failure of a batch that the server answered with this status. `text` is the reason.
    pub(super) fn answered(status: u16, text: String, place: Option<usize>) -> Refusal {
        // A server that is busy or full has written nothing. After an internal error it may have,
        // and a write whose sync failed may survive.
        let is_refused = status < 500 || matches!(status, 501 | 503 | 507);
        let is_undone = is_refused && !text.contains(REFUSES_WRITES);
        Refusal { text, place, is_undone }
    }
}

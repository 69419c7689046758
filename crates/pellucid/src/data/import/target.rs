//! Places of a server that rows are written to.

use super::rows::Content;
use crate::Failure;

/// A batch that was not written, or of which nobody knows.
pub(super) struct Refusal {
    pub(super) text: String,
    /// The place in the batch of the item that is to blame.
    pub(super) place: Option<usize>,
    /// Nothing of the batch is written.
    pub(super) is_undone: bool,
}

/// See the module.
pub(super) trait Target {
    /// An entity or a document.
    type Item;

    /// The effect of items that are written again, and its cure.
    const AGAIN: &'static str;

    /// Makes an item of a row; nothing if there is nothing to write. An error says what is wrong
    /// with the row.
    fn item(&mut self, content: &Content<'_>) -> Result<Option<Self::Item>, String>;

    /// About the bytes that an item has.
    fn bytes(item: &Self::Item) -> usize;

    /// Writes a batch, which is not empty: all of it or nothing.
    fn write(&mut self, items: &[Self::Item]) -> Result<(), Refusal>;

    /// Tells what was written.
    fn summary(&self) -> String;
}

impl Refusal {
    /// A request without an answer: a server that was reached may have done what it says, or not.
    pub(super) fn unanswered(failure: Failure) -> Refusal {
        let is_undone = failure.text.contains("Connection refused");
        Refusal { text: failure.text, place: None, is_undone }
    }

    /// An answer that refuses a batch, for the reason that the text says.
    pub(super) fn answered(status: u16, text: String, place: Option<usize>) -> Refusal {
        // A server that is busy or full has done nothing; one that failed may have.
        let is_undone = status < 500 || matches!(status, 501 | 503 | 507);
        Refusal { text, place, is_undone }
    }
}

//! Commits of changes: their end, and the sequence numbers of the changes.

use std::sync::Arc;

use pellucid_store::{Answer, Pending, Result as StoreResult, StoreError, Written};

use crate::collection::Collection;
use crate::error::{DocumentError, ErrorNumber, Result};

/// The end of a commit, or the promise of one.
pub enum Commit {
    /// It is written, or was refused.
    Done(Result<Committed>),
    /// It is written, and not on the medium yet: [`Unfinished::finish`] takes the answer.
    Later(Pending<Written>, Unfinished),
}

impl Commit {
    /// Waits for the end. For threads that may block.
    ///
    /// # Errors
    /// 1200 if another writer was faster; what the store says.
    pub fn wait(self) -> Result<Committed> {
        match self {
            Commit::Done(result) => result,
            Commit::Later(pending, unfinished) => unfinished.finish(Answer::Later(pending).wait()),
        }
    }

    /// It was refused because another writer was faster.
    #[must_use]
    pub fn conflict(&self) -> bool {
        matches!(self, Commit::Done(Err(error)) if error.is_conflict())
    }
}

/// The notes to make once a batch is written.
#[derive(Debug)]
pub struct Unfinished {
    more: Vec<(Arc<Collection>, i64)>,
    changes: usize,
}

impl Unfinished {
    /// A batch of so many changes, with the number of documents that each collection has more.
    pub(crate) fn new(more: Vec<(Arc<Collection>, i64)>, changes: usize) -> Unfinished {
        Unfinished { more, changes }
    }

    /// Takes the store's answer.
    ///
    /// # Errors
    /// 1200 if another writer was faster; what the store says.
    pub fn finish(self, result: StoreResult<Written>) -> Result<Committed> {
        let last = match result {
            Ok(written) => written.sequence,
            Err(StoreError::Unacceptable(what)) => {
                return Err(DocumentError::new(ErrorNumber::RESOURCE_LIMIT, what));
            }
            Err(error) => return Err(error.into()),
        };
        for (collection, more) in self.more {
            collection.note_written(more, last);
        }
        Ok(Committed { first: last + 1 - self.changes as u64 })
    }
}

/// The changes that were written, which have consecutive sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    first: u64,
}

impl Committed {
    /// The commit of no change.
    pub(crate) fn nothing() -> Committed {
        Committed { first: 0 }
    }

    /// The sequence number of a change, by its place in the transaction.
    #[must_use]
    pub fn sequence(&self, change: usize) -> u64 {
        self.first + change as u64
    }
}

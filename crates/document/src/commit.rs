//! Commits of transactions: their results, and the sequence numbers of the changes.

use pellucid_store::{Answer, DeferredAnswer, Result as StoreResult, StoreError, WriteOutcome};

use crate::collection::InFlightBatch;
use crate::error::{DocumentError, ErrorNumber, Result};
use crate::provisional_revisions::ProvisionalRevisions;

/// The result of a commit, now or later.
pub enum Commit {
    /// The batch is written, or the commit failed.
    Done(Result<CommitSequences>),
    /// The batch is under way: it is not on the disk yet, or another thread or machine still has to
    /// write it. [`PendingCommit::finish`] takes the answer.
    Later(DeferredAnswer<WriteOutcome>, PendingCommit),
}

impl Commit {
    /// Waits for the result. It blocks, so it is not for event loops.
    ///
    /// # Errors
    /// 1200 if another writer was faster, 32 if the batch is too large, and errors of the store.
    pub fn wait(self) -> Result<CommitSequences> {
        match self {
            Commit::Done(result) => result,
            Commit::Later(pending, unfinished) => unfinished.finish(Answer::Later(pending).wait()),
        }
    }

    /// True if the commit was refused because another writer was faster.
    #[must_use]
    pub fn conflict(&self) -> bool {
        matches!(self, Commit::Done(Err(error)) if error.is_conflict())
    }
}

/// A commit whose batch is handed to the store, with the updates to make once it is written. Until
/// it is finished or dropped, the definitions of its collections do not change.
#[derive(Debug)]
pub struct PendingCommit {
    more: Vec<(InFlightBatch, i64)>,
    changes: usize,
    made_keys: Vec<usize>,
    provisional: Option<ProvisionalRevisions>,
}

impl PendingCommit {
    /// A batch of `changes` changes. `more` tells how many documents each collection gains, and
    /// `made_keys` which changes make documents with numbers as keys that were made for them.
    /// `provisional` were the revisions of the changes until now, if they were shown.
    pub(crate) fn new(
        more: Vec<(InFlightBatch, i64)>,
        changes: usize,
        made_keys: Vec<usize>,
        provisional: Option<ProvisionalRevisions>,
    ) -> PendingCommit {
        PendingCommit { more, changes, made_keys, provisional }
    }

    /// Takes the store's answer, and updates the counts of the collections.
    ///
    /// # Errors
    /// 1200 if another writer was faster, 32 if the batch is too large, and errors of the store.
    pub fn finish(self, result: StoreResult<WriteOutcome>) -> Result<CommitSequences> {
        let last = match result {
            Ok(written) => written.sequence,
            Err(StoreError::Unacceptable(what)) => {
                return Err(DocumentError::new(ErrorNumber::RESOURCE_LIMIT, what));
            }
            Err(error) => {
                for (InFlightBatch(collection), _) in &self.more {
                    match error {
                        // It may be a number that was given as a key. The next attempt looks.
                        StoreError::ConditionFailed { index, .. }
                            if self.made_keys.contains(&index) =>
                        {
                            collection.expect_number_keys();
                        }
                        StoreError::ConditionFailed { .. }
                        | StoreError::Full(..)
                        | StoreError::Busy(..) => {}
                        _ => collection.doubt_count(),
                    }
                }
                return Err(error.into());
            }
        };
        for (InFlightBatch(collection), more) in &self.more {
            collection.note_written(*more, last);
        }
        let first = last + 1 - self.changes as u64;
        Ok(CommitSequences { first, provisional: self.provisional })
    }
}

/// The sequence numbers of the changes of a committed transaction. They are consecutive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitSequences {
    first: u64,
    provisional: Option<ProvisionalRevisions>,
}

impl CommitSequences {
    /// The commit of a transaction without changes.
    pub(crate) fn nothing() -> CommitSequences {
        CommitSequences { first: 0, provisional: None }
    }

    /// The sequence number of a change, by its index in the transaction.
    #[must_use]
    pub fn sequence(&self, change: usize) -> u64 {
        self.first + change as u64
    }

    /// Replaces the provisional revisions of the transaction in `text`, which may be JSON, by the
    /// final ones.
    pub fn settle_revisions(&self, text: &mut [u8]) {
        if let Some(provisional) = &self.provisional {
            provisional.settle(text, |change| self.sequence(change));
        }
    }
}

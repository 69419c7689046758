//! Retries of transactions that conflict with other writers.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_store::{Acknowledgement, Answer, DeferredAnswer, WriteOutcome};

use crate::commit::{Commit, CommitSequences, PendingCommit};
use crate::documents::Documents;
use crate::error::{DocumentError, Result};
use crate::retry_backoff::RetryBackoff;
use crate::transaction::Transaction;

/// The most attempts of a transaction before its conflict is reported.
pub const ATTEMPTS_MAX: usize = 64;

/// The result of a transaction and of its commit.
pub enum Attempt<T> {
    /// The transaction is written, or it failed.
    Done(Result<(T, CommitSequences)>),
    /// The transaction's batch is under way: it is not on the disk yet, or it is not known yet
    /// whether it conflicts. [`PendingCommit::finish`] tells.
    Later(T, DeferredAnswer<WriteOutcome>, PendingCommit),
}

/// Fills a transaction by `make` and commits it; repeats that without a pause while the commit
/// conflicts, up to [`ATTEMPTS_MAX`] times. If `assumes_absent`, the first attempt assumes that
/// inserted documents are new, and does not read them.
pub fn attempt<T>(
    documents: &Arc<Documents>,
    acknowledgement: Acknowledgement,
    assumes_absent: bool,
    timeline: &mut Timeline,
    mut make: impl FnMut(&mut Transaction, &mut Timeline) -> Result<T>,
) -> Attempt<T> {
    let mut attempt = 0;
    loop {
        let mut transaction = Transaction::begin(documents);
        transaction.changes_mut().assume_absent(assumes_absent && attempt == 0);
        let made = match make(&mut transaction, timeline) {
            Ok(made) => made,
            Err(error) => return Attempt::Done(Err(error)),
        };
        let commit = transaction.commit(acknowledgement, timeline);
        attempt += 1;
        match commit {
            commit if commit.conflict() && attempt < ATTEMPTS_MAX => {}
            Commit::Done(result) => {
                return Attempt::Done(result.map(|committed| (made, committed)));
            }
            Commit::Later(pending, unfinished) => {
                return Attempt::Later(made, pending, unfinished);
            }
        }
    }
}

/// As [`attempt`], and waits for the result. A conflict that only the late answer tells is retried
/// as well, after a pause. It blocks, so it is not for event loops.
///
/// # Errors
/// The error of the transaction or of its commit.
pub fn attempt_to_end<T>(
    documents: &Arc<Documents>,
    acknowledgement: Acknowledgement,
    assumes_absent: bool,
    timeline: &mut Timeline,
    mut make: impl FnMut(&mut Transaction, &mut Timeline) -> Result<T>,
) -> Result<(T, CommitSequences)> {
    let mut pauses = RetryBackoff::new();
    for attempt in 0..ATTEMPTS_MAX {
        // The first conflict may only mean that a document was wrongly assumed to be new.
        if attempt > usize::from(assumes_absent) {
            std::thread::sleep(pauses.next_pause());
        }
        let assumes_absent = assumes_absent && attempt == 0;
        let made = self::attempt(documents, acknowledgement, assumes_absent, timeline, &mut make);
        let (made, pending, unfinished) = match made {
            Attempt::Done(result) => return result,
            Attempt::Later(made, pending, unfinished) => (made, pending, unfinished),
        };
        let written = Answer::Later(pending).wait_for(timeline);
        match unfinished.finish(written) {
            Err(error) if error.is_conflict() => {}
            finished => return finished.map(|committed| (made, committed)),
        }
    }
    Err(DocumentError::write_conflict())
}

//! Retries of transactions that conflict with other writers.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_store::{Acknowledgement, Answer};

use crate::commit::{Commit, CommitSequences};
use crate::documents::Documents;
use crate::error::{DocumentError, ErrorNumber, Result};
use crate::retry_backoff::RetryBackoff;
use crate::transaction::Transaction;

/// The most attempts of a transaction before its conflict is reported.
pub const ATTEMPTS_MAX: usize = 64;

/// Fills a transaction by `make` and commits it; repeats that without a pause while the commit
/// conflicts, up to [`ATTEMPTS_MAX`] times. If `assumes_absent`, the first attempt assumes that
/// inserted documents are new, and does not read them. If it fails, the next one reads them.
///
/// # Errors
/// The error of `make`.
pub fn attempt<T>(
    documents: &Arc<Documents>,
    acknowledgement: Acknowledgement,
    assumes_absent: bool,
    timeline: &mut Timeline,
    mut make: impl FnMut(&mut Transaction, &mut Timeline) -> Result<T>,
) -> Result<(T, Commit)> {
    let mut attempt = 0;
    loop {
        let assumes_absent = assumes_absent && attempt == 0;
        let mut transaction = Transaction::begin(documents);
        transaction.changes_mut().assume_absent(assumes_absent);
        let made = make(&mut transaction, timeline);
        attempt += 1;
        if assumes_absent && made.is_err() {
            continue;
        }
        let made = made?;
        let commit = transaction.commit(acknowledgement, timeline);
        if let Commit::Done(Err(error)) = &commit
            && assumes_absent
            && is_too_large(error)
        {
            continue;
        }
        if !commit.conflict() || attempt >= ATTEMPTS_MAX {
            return Ok((made, commit));
        }
    }
}

/// True if the store refused the batch because of its size.
fn is_too_large(error: &DocumentError) -> bool {
    error.number == ErrorNumber::RESOURCE_LIMIT
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
    let mut pauses = RetryBackoff::default();
    for attempt in 0..ATTEMPTS_MAX {
        // The first conflict may only mean that a document was wrongly assumed to be new.
        if attempt > usize::from(assumes_absent) {
            std::thread::sleep(pauses.next_pause());
        }
        let assumes_absent = assumes_absent && attempt == 0;
        let (made, commit) =
            self::attempt(documents, acknowledgement, assumes_absent, timeline, &mut make)?;
        let finished = match commit {
            Commit::Done(result) => return result.map(|committed| (made, committed)),
            Commit::Later(pending, unfinished) => {
                unfinished.finish(Answer::Later(pending).wait_for(timeline))
            }
        };
        match finished {
            Err(error) if error.is_conflict() || assumes_absent && is_too_large(&error) => {}
            finished => return finished.map(|committed| (made, committed)),
        }
    }
    Err(DocumentError::write_conflict())
}

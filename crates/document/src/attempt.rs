//! Attempts of transactions, until no other writer is faster.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_store::{Acknowledgement, Answer, Pending, Written};

use crate::commit::{Commit, Committed, Unfinished};
use crate::documents::Documents;
use crate::error::{DocumentError, Result};
use crate::pauses::Pauses;
use crate::transaction::Transaction;

/// Times that a transaction is made before its conflict is reported.
pub const ATTEMPTS_MAX: usize = 64;

/// A transaction that was made: its result and its commit.
pub enum Attempt<T> {
    /// It is written, or failed.
    Done(Result<(T, Committed)>),
    /// It is written, and not on the medium yet; or it was handed over, and the store has yet to
    /// say whether others were faster: [`Unfinished::finish`] tells.
    Later(T, Pending<Written>, Unfinished),
}

/// Makes a transaction and commits it, again and again while others are faster. Documents that are
/// inserted are first taken to be new, if `assumes_absent`.
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

/// As [`attempt`], to the end, with pauses between attempts: for threads that may
/// block.
///
/// # Errors
/// The error of the transaction or of its commit.
pub fn attempt_to_end<T>(
    documents: &Arc<Documents>,
    acknowledgement: Acknowledgement,
    assumes_absent: bool,
    timeline: &mut Timeline,
    mut make: impl FnMut(&mut Transaction, &mut Timeline) -> Result<T>,
) -> Result<(T, Committed)> {
    let mut pauses = Pauses::new();
    for attempt in 0..ATTEMPTS_MAX {
        // A document that was wrongly taken to be new is no sign of others.
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

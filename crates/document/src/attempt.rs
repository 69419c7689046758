//! Making a transaction until nobody was faster.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_store::{Acknowledgement, Answer, Pending, Written};

use crate::documents::Documents;
use crate::error::{DocumentError, ErrorNumber, Result};
use crate::pauses::Pauses;
use crate::transaction::{Commit, Committed, Transaction, Unfinished};

/// Times that a transaction is made before its conflict is reported.
pub const ATTEMPTS_MAX: usize = 64;

/// A transaction that was made: what it came to, and its commit.
pub enum Attempt<T> {
    /// It is written, or failed.
    Done(Result<(T, Committed)>),
    /// It is written, and not on the medium yet; or it was handed over, and the store has yet to
    /// say whether others were faster: [`Unfinished::finish`] tells.
    Later(T, Pending<Written>, Unfinished),
}

impl Documents {
    /// Makes a transaction and commits it, again and again while others are faster. What is
    /// inserted is first taken to be new, if `assumes_absent`.
    pub fn attempt<T>(
        self: &Arc<Self>,
        acknowledgement: Acknowledgement,
        assumes_absent: bool,
        timeline: &mut Timeline,
        mut make: impl FnMut(&mut Transaction, &mut Timeline) -> Result<T>,
    ) -> Attempt<T> {
        let mut attempt = 0;
        loop {
            let mut transaction = self.begin();
            transaction.assumes_absent = assumes_absent && attempt == 0;
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

    /// As [`Documents::attempt`], to the end, with pauses between attempts: for threads that may
    /// block.
    ///
    /// # Errors
    /// What the transaction or its commit failed with.
    pub fn attempt_to_end<T>(
        self: &Arc<Self>,
        acknowledgement: Acknowledgement,
        assumes_absent: bool,
        timeline: &mut Timeline,
        mut make: impl FnMut(&mut Transaction, &mut Timeline) -> Result<T>,
    ) -> Result<(T, Committed)> {
        let mut pauses = Pauses::new();
        for attempt in 0..ATTEMPTS_MAX {
            // What was wrongly taken to be new is no sign of others.
            if attempt > usize::from(assumes_absent) {
                std::thread::sleep(pauses.next_pause());
            }
            let assumes_absent = assumes_absent && attempt == 0;
            let made = self.attempt(acknowledgement, assumes_absent, timeline, &mut make);
            let (made, pending, unfinished) = match made {
                Attempt::Done(result) => return result,
                Attempt::Later(made, pending, unfinished) => (made, pending, unfinished),
            };
            let written = Answer::Later(pending).wait_for(timeline);
            match unfinished.finish(self, written) {
                Err(error) if error.number == ErrorNumber::CONFLICT => {}
                finished => return finished.map(|committed| (made, committed)),
            }
        }
        Err(DocumentError::write_conflict())
    }
}

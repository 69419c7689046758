//! The body of a stream of changes: pieces of some 64 KiB, each read from the journal when the
//! client has taken the one before.

use std::sync::Arc;

use pellucid_clock::WallTime;
use pellucid_http::{FillResult, READ_BYTES_MAX};
use pellucid_store::{ChangeReader, ChangeStep, StoreError, Value};

use super::content::{Content, ItemRemainder};
use super::form::{ChangeForm, write_member};
use super::query::ChangesQuery;
use crate::access::{Accounts, Identity};
use crate::entities::write_base64_piece;
use crate::log::Log;

/// The limit of steps over writes to other objects in one piece. It is some hundred thousand
/// records, or 32 MiB.
const STEPS_OVER_OTHERS_MAX: u32 = 32;
/// The message at the end of a stream whose collection was removed or emptied.
const EMPTIED: &str = "the collection was removed or emptied as a whole, which is no change of its \
                       documents: read it anew";

/// The message at the end of a stream whose caller has lost the right to read.
const TAKEN_BACK: &str = "this account may not read it any more, or its token or password is over";

/// The body of a stream of changes.
pub(super) struct ChangesBody {
    changes: Box<dyn ChangeReader>,
    content: Content,
    accounts: Arc<Accounts>,
    caller: Identity,
    form: ChangeForm,
    is_followed: bool,
    /// The value that is being written. Large values are written in pieces, so that a stream holds
    /// little memory.
    open: Option<OpenValue>,
    log: Log,
}

/// A value that is being written.
struct OpenValue {
    value: Value,
    sent: usize,
}

/// The reason for which a piece is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceTrigger {
    /// The client has taken the piece before, or there are new changes.
    Usual,
    /// Nothing was sent for a long time.
    Silence,
    /// The server is stopping.
    Stop,
}

impl ChangesBody {
    pub(super) fn new(
        changes: Box<dyn ChangeReader>,
        content: Content,
        accounts: Arc<Accounts>,
        caller: Identity,
        query: &ChangesQuery<'_>,
        log: &Log,
    ) -> ChangesBody {
        let (form, is_followed, log) = (query.form, query.is_followed, log.clone());
        ChangesBody { changes, content, accounts, caller, form, is_followed, open: None, log }
    }

    /// Returns true if the caller may still read the content. A stream may last for days, and the
    /// account may lose its rights meanwhile.
    fn may_read(&self) -> bool {
        let now_seconds = WallTime::now().unix_ms() / 1_000;
        let caller = self.accounts.again(&self.caller, now_seconds);
        caller.is_some_and(|caller| self.content.may_be_read_by(&caller))
    }

    /// The last sequence number that the stream has passed.
    pub(super) fn sequence(&self) -> u64 {
        self.changes.sequence()
    }

    /// Appends the next piece to `out`.
    pub(super) fn fill(&mut self, out: &mut Vec<u8>, occasion: PieceTrigger) -> FillResult {
        if !self.may_read() {
            return self.taken_back(out);
        }
        let (full, mut passed) = (out.len() + READ_BYTES_MAX, 0);
        while out.len() < full {
            if self.open.is_some() {
                match self.go_on(out, full) {
                    FillResult::Waiting => continue,
                    ended => return ended,
                }
            }
            if occasion == PieceTrigger::Stop {
                self.form.progress(out, self.sequence());
                return FillResult::Last;
            }
            match self.changes.step() {
                // Garbage of an emptied collection is removed, which is no change of a document.
                Ok(ChangeStep::Change(_)) if !self.content.is_there() => {
                    return self.lost(out, EMPTIED, None);
                }
                Ok(ChangeStep::Change(change)) => {
                    let name = if change.value.is_some() { "put" } else { "delete" };
                    self.form.begin(out, name, change.sequence);
                    write_member(out, "written_at_ms", change.written_at_ms);
                    if let Some(expires_at_ms) = change.expires_at_ms {
                        write_member(out, "expires_at_ms", expires_at_ms);
                    }
                    match self.content.write(out, change) {
                        Ok(ItemRemainder::Whole) => self.form.end(out),
                        Ok(ItemRemainder::Value(value)) => {
                            self.open = Some(OpenValue { value, sent: 0 })
                        }
                        Err(error) => return self.broken(&error),
                    }
                }
                Ok(ChangeStep::Others) => {
                    passed += 1;
                    if passed == STEPS_OVER_OTHERS_MAX {
                        self.form.progress(out, self.sequence());
                        return FillResult::More;
                    }
                }
                Ok(ChangeStep::End) => return self.at_end(out, occasion),
                Err(StoreError::ChangesLost { oldest, newest }) => {
                    let error = StoreError::ChangesLost { oldest, newest };
                    return self.lost(out, &error.to_string(), Some((oldest, newest)));
                }
                Err(error) => return self.broken(&error),
            }
        }
        FillResult::More
    }

    /// Appends the next part of the open value. [`FillResult::Waiting`] means that the caller
    /// should go on.
    fn go_on(&mut self, out: &mut Vec<u8>, full: usize) -> FillResult {
        let Some(open) = &mut self.open else { return FillResult::Waiting };
        let room = full.saturating_sub(out.len());
        match open.value.read(|bytes| write_base64_piece(out, &bytes[open.sent..], room)) {
            Ok(count) => open.sent += count,
            Err(error) => return self.broken(&error),
        }
        if open.sent < open.value.len() {
            return FillResult::Waiting;
        }
        self.open = None;
        out.push(b'"');
        self.form.end(out);
        FillResult::Waiting
    }

    /// Ends a piece after the newest change. A stream that follows then waits, another one ends.
    fn at_end(&mut self, out: &mut Vec<u8>, occasion: PieceTrigger) -> FillResult {
        if !self.content.is_there() {
            return self.lost(out, EMPTIED, None);
        }
        if !self.is_followed || (out.is_empty() && occasion == PieceTrigger::Silence) {
            self.form.progress(out, self.sequence());
        }
        if self.is_followed { FillResult::Waiting } else { FillResult::Last }
    }

    /// Ends the stream with an item that says why it cannot go on. `there` are the oldest and the
    /// newest sequence number that a new stream can start from.
    fn lost(&self, out: &mut Vec<u8>, message: &str, there: Option<(u64, u64)>) -> FillResult {
        self.form.begin(out, "lost", self.sequence());
        out.extend_from_slice(b",\"error\":");
        pellucid_value::json::write_string(message, out);
        if let Some((oldest, newest)) = there {
            write_member(out, "oldest", oldest);
            write_member(out, "newest", newest);
        }
        self.form.end(out);
        FillResult::Last
    }

    /// Ends the stream because the caller has lost the right to read. In the middle of a value the
    /// connection is cut, since a message has no place there.
    fn taken_back(&self, out: &mut Vec<u8>) -> FillResult {
        match self.open {
            Some(_) => FillResult::Broken,
            None => self.lost(out, TAKEN_BACK, None),
        }
    }

    /// Logs the error and cuts the stream.
    fn broken(&self, what: &dyn std::fmt::Display) -> FillResult {
        self.log.error(&format!("changes were cut short: {what}"));
        FillResult::Broken
    }
}

//! The body of a stream of changes: pieces of some 64 KiB, each read from the journal when the
//! client has taken the one before.

use std::sync::Arc;

use pellucid_budget::BudgetError;
use pellucid_clock::WallTime;
use pellucid_document::DocumentError;
use pellucid_http::{FillResult, READ_BYTES_MAX};
use pellucid_store::{Change, ChangeReader, ChangeStep, StoreError, Value};

use super::content::{Content, ItemRemainder};
use super::followers::AwaitedEvent;
use super::form::{ChangeForm, write_member};
use super::memory::DocumentMemory;
use super::query::ChangesQuery;
use crate::access::{Accounts, Identity};
use crate::entities::write_base64_piece;
use crate::log::Log;

/// The limit of steps over writes to other objects in one piece. It is some hundred thousand
/// records, or 32 MiB.
const STEPS_OVER_OTHERS_MAX: u32 = 32;

/// The message of a stream whose collection was removed, emptied or renamed.
pub(super) const EMPTIED: &str = "the collection was removed, emptied as a whole or renamed, which \
                                  is no change of its documents: read it anew";

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
    /// True until a client that named no position has the one where the stream began: without it,
    /// a client whose connection breaks before the first change could not continue there. False for
    /// a durable stream, whose begin may be lost with the power.
    lacks_position: bool,
    /// The event for which the stream waits, unless it is the next change.
    put_off: Option<AwaitedEvent>,
    /// The memory that the next document needs, if the stream waits for it. The document itself is
    /// read again then.
    wanted_bytes: usize,
    /// The value that is being written. Large values are written in pieces, so that a stream holds
    /// little memory.
    open: Option<OpenValue>,
    log: Log,
}

/// A value that is being written.
struct OpenValue {
    value: Value,
    sent: usize,
    /// The memory of a value that is JSON; `None` for one that is written in base64.
    json_memory: Option<DocumentMemory>,
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
        ChangesBody {
            changes,
            content,
            accounts,
            caller,
            form: query.form,
            is_followed: query.is_followed,
            lacks_position: query.since.is_none() && !query.is_durable,
            put_off: None,
            wanted_bytes: 0,
            open: None,
            log: log.clone(),
        }
    }

    /// Returns true if the caller may still read the content. A stream may last for days, and the
    /// account may lose its rights meanwhile.
    fn may_read(&self) -> bool {
        let now_seconds = WallTime::now().unix_ms() / 1_000;
        let caller = self.accounts.again(&self.caller, now_seconds);
        caller.is_some_and(|caller| self.content.may_be_read_by(&caller))
    }

    /// The event for which the stream waits after a piece.
    pub(super) fn awaited(&self) -> AwaitedEvent {
        self.put_off.unwrap_or_else(|| AwaitedEvent::Change(self.changes.sequence()))
    }

    /// Appends the next piece to `out`.
    pub(super) fn fill(&mut self, out: &mut Vec<u8>, occasion: PieceTrigger) -> FillResult {
        self.put_off = None;
        if !self.may_read() {
            return self.end_with(out, TAKEN_BACK);
        }
        if self.lacks_position && occasion != PieceTrigger::Stop {
            match self.progress(out, FillResult::More) {
                FillResult::More => self.lacks_position = false,
                ended => return ended,
            }
        }
        let (full, mut passed) = (out.len() + READ_BYTES_MAX, 0);
        while out.len() < full {
            if self.open.is_some() {
                match self.go_on(out, full) {
                    None => continue,
                    Some(ended) => return ended,
                }
            }
            if occasion == PieceTrigger::Stop {
                // While the collection changes, the stream ends without its position.
                self.progress(out, FillResult::Last);
                return FillResult::Last;
            }
            if !self.content.has_room(self.wanted_bytes) {
                return self.wait_for_memory(out, occasion);
            }
            match self.changes.step() {
                // Garbage of an emptied collection is removed, which is no change of a document.
                Ok(ChangeStep::Change(_)) if !self.content.is_there() => {
                    return self.lost(out, EMPTIED, None);
                }
                Ok(ChangeStep::Change(change)) => {
                    if let Some(ended) = self.write_change(out, change, occasion) {
                        return ended;
                    }
                }
                Ok(ChangeStep::Others) => {
                    passed += 1;
                    if passed == STEPS_OVER_OTHERS_MAX {
                        return self.progress(out, FillResult::More);
                    }
                }
                Ok(ChangeStep::End) => return self.at_end(out, occasion),
                Err(StoreError::ChangesLost { oldest, newest }) => {
                    let error = StoreError::ChangesLost { oldest, newest };
                    return self.lost(out, &error.to_string(), Some((oldest, newest)));
                }
                Err(error) => return self.broken(out, &error),
            }
        }
        FillResult::More
    }

    /// Appends a change; of a large one only the beginning, and the rest is open. Returns the
    /// result that ends the piece, if it cannot go on. Without memory, the change is put off.
    fn write_change(
        &mut self,
        out: &mut Vec<u8>,
        change: Change,
        occasion: PieceTrigger,
    ) -> Option<FillResult> {
        let bytes = self.content.memory_bytes(&change);
        let memory = match self.content.take_memory(bytes) {
            Ok(memory) => memory,
            Err(error) => {
                self.changes.step_back();
                if let BudgetError::Share { .. } = error {
                    let message = format!(
                        "a document is too large for streams, which take half of \
                         --request-memory: {error}"
                    );
                    return Some(self.lost(out, &message, None));
                }
                self.wanted_bytes = bytes;
                return Some(self.wait_for_memory(out, occasion));
            }
        };
        self.wanted_bytes = 0;
        let name = if change.value.is_some() { "put" } else { "delete" };
        let begin = out.len();
        self.form.begin(out, name, change.sequence);
        write_member(out, "written_at_ms", change.written_at_ms);
        if let Some(expires_at_ms) = change.expires_at_ms {
            write_member(out, "expires_at_ms", expires_at_ms);
        }
        match self.content.write(out, change, memory) {
            Ok(ItemRemainder::Whole) => self.form.end(out),
            Ok(ItemRemainder::Value(value, json_memory)) => {
                self.open = Some(OpenValue { value, sent: 0, json_memory });
            }
            Err(DocumentError { cause, message, .. }) => {
                out.truncate(begin);
                self.changes.step_back();
                let error = cause.map_or(StoreError::Failed(message), |cause| *cause);
                return Some(self.broken(out, &error));
            }
        }
        None
    }

    /// Appends the next part of the open value. Returns the result that ends the piece, if it
    /// cannot go on.
    fn go_on(&mut self, out: &mut Vec<u8>, full: usize) -> Option<FillResult> {
        let open = self.open.as_mut()?;
        let (room, is_json) = (full.saturating_sub(out.len()), open.json_memory.is_some());
        let appended = open.value.read(|bytes| {
            let rest = &bytes[open.sent..];
            if !is_json {
                return write_base64_piece(out, rest, room);
            }
            let piece = &rest[..rest.len().min(room)];
            out.extend_from_slice(piece);
            piece.len()
        });
        match appended {
            Ok(count) => open.sent += count,
            Err(error) => return Some(self.broken(out, &error)),
        }
        if open.sent == open.value.len() {
            self.open = None;
            if !is_json {
                out.push(b'"');
            }
            self.form.end(out);
        }
        None
    }

    /// Ends a piece after the newest change. A stream that follows then waits, another one ends.
    fn at_end(&mut self, out: &mut Vec<u8>, occasion: PieceTrigger) -> FillResult {
        match self.is_followed {
            true => self.wait(out, occasion),
            false => self.progress(out, FillResult::Last),
        }
    }

    /// Ends a piece before a document for which there is no memory now.
    fn wait_for_memory(&mut self, out: &mut Vec<u8>, occasion: PieceTrigger) -> FillResult {
        self.put_off = Some(AwaitedEvent::Memory);
        self.wait(out, occasion)
    }

    /// Ends a piece of a stream that waits.
    fn wait(&mut self, out: &mut Vec<u8>, occasion: PieceTrigger) -> FillResult {
        if out.is_empty() && occasion == PieceTrigger::Silence {
            return self.progress(out, FillResult::Waiting);
        }
        self.interruption(out).unwrap_or(FillResult::Waiting)
    }

    /// Appends the position of the stream and returns `filled`, unless its collection changes.
    fn progress(&mut self, out: &mut Vec<u8>, filled: FillResult) -> FillResult {
        let sequence = self.changes.sequence();
        self.interruption(out).unwrap_or_else(|| {
            self.form.progress(out, sequence);
            filled
        })
    }

    /// Ends a stream whose collection was removed, emptied or renamed, and makes one wait whose
    /// collection changes: a client that begins again behind that would not be told of it, and no
    /// later write needs to wake the stream. `None` if it can go on.
    fn interruption(&mut self, out: &mut Vec<u8>) -> Option<FillResult> {
        if self.content.is_changing() {
            self.put_off = Some(AwaitedEvent::Look);
            return Some(FillResult::Waiting);
        }
        (!self.content.is_there()).then(|| self.lost(out, EMPTIED, None))
    }

    /// Ends the stream with an item that says why it cannot go on. `there` are the oldest and the
    /// newest sequence number that a new stream can start from.
    fn lost(&self, out: &mut Vec<u8>, message: &str, there: Option<(u64, u64)>) -> FillResult {
        self.form.begin(out, "lost", self.content.position(self.changes.sequence()));
        out.extend_from_slice(b",\"error\":");
        pellucid_value::json::write_string(message, out);
        if let Some((oldest, newest)) = there {
            write_member(out, "oldest", oldest);
            write_member(out, "newest", newest);
        }
        self.form.end(out);
        FillResult::Last
    }

    /// Ends the stream with a message. In the middle of a value the connection is cut, since a
    /// message has no place there.
    fn end_with(&self, out: &mut Vec<u8>, message: &str) -> FillResult {
        match self.open {
            Some(_) => FillResult::Broken,
            None => self.lost(out, message, None),
        }
    }

    /// Logs the error and ends the stream with it.
    fn broken(&self, out: &mut Vec<u8>, error: &StoreError) -> FillResult {
        self.log.failed_request("changes were cut short", error);
        self.end_with(out, &error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use pellucid_account::Timeline;
    use pellucid_budget::Budget;
    use pellucid_document::{
        CollectionDefinition, Documents, ErrorNumber, SYSTEM_DATABASE, TABLE, WriteOptions,
        attempt_to_end,
    };
    use pellucid_embedded::{EmbeddedOptions, EmbeddedStore};
    use pellucid_store::{Acknowledgement, ChangeSelector, Store};
    use pellucid_value::{DuplicateRule, Ref, json, packed};
    use tempfile::TempDir;

    use super::*;
    use crate::access::Authentication;
    use crate::changes::memory::StreamMemory;

    const DOCUMENT_BYTES: usize = 100_000;

    /// The stream of a collection that has one large document.
    fn of_large_document(folder: &TempDir, memory: StreamMemory) -> (Arc<Documents>, ChangesBody) {
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let documents = Arc::new(Documents::open_named(Arc::clone(&store), "test").unwrap());
        let system = documents.database(SYSTEM_DATABASE).unwrap();
        let new = CollectionDefinition::named("c");
        let collection = documents.create_collection(&system, new).unwrap();
        let text = format!(r#"{{"v":"{}"}}"#, "v".repeat(DOCUMENT_BYTES));
        let document = json::parse_packed(text.as_bytes(), DuplicateRule::Refuse).unwrap();
        let document = packed::open(&document).ok().and_then(Ref::as_object).unwrap();
        let (os, mut timeline) = (Acknowledgement::Os, Timeline::off());
        attempt_to_end(&documents, os, false, &mut timeline, |transaction, timeline| {
            transaction.insert(&collection, document, &WriteOptions::default(), timeline)
        })
        .unwrap();
        let database = SYSTEM_DATABASE.to_owned();
        let content = Content::of_collection(collection, "c", database, memory).unwrap();
        let (table, prefix) = (store.table(TABLE).unwrap(), content.prefix(b""));
        let all = ChangeSelector { table, prefix: &prefix, since: 0, is_durable: false };
        let feed = store.local().and_then(|local| local.change_feed()).unwrap();
        let accounts = Accounts::open(folder.path(), Authentication::Off, None).unwrap();
        let query = ChangesQuery {
            since: Some(0),
            prefix: Cow::default(),
            is_followed: true,
            is_durable: false,
            form: ChangeForm::Lines,
            collection: None,
        };
        let (changes, accounts, log) =
            (feed.changes(all).unwrap(), Arc::new(accounts), Log::of_process());
        (documents, ChangesBody::new(changes, content, accounts, Identity::Anybody, &query, &log))
    }

    /// Regression: a stream that was opened while its collection was renamed followed it for ever.
    #[test]
    fn a_collection_that_was_renamed_since_it_was_found_is_not_there() {
        let (folder, memory) = (TempDir::new().unwrap(), StreamMemory::of(Budget::new(1 << 20)));
        let (documents, _body) = of_large_document(&folder, memory.clone());
        let system = documents.database(SYSTEM_DATABASE).unwrap();
        let collection = system.collection("c").unwrap();
        documents.rename_collection(&system, &collection, "old").unwrap();
        let opened = |name: &str| {
            let (collection, database) = (Arc::clone(&collection), SYSTEM_DATABASE.to_owned());
            let content = Content::of_collection(collection, name, database, memory.clone());
            content.map(drop).map_err(|error| error.number)
        };
        assert_eq!(opened("c"), Err(ErrorNumber::COLLECTION_NOT_FOUND));
        assert_eq!(opened("old"), Ok(()));
        assert_eq!(opened(&collection.id.to_string()), Ok(()));
    }

    /// Regression: a stream that waited for memory sent nothing meanwhile, not even its position,
    /// and each of its looks counted as a refused request.
    #[test]
    fn a_stream_that_waits_for_memory_sends_its_position() {
        let (folder, requests) = (TempDir::new().unwrap(), Budget::new(1 << 20));
        let (_documents, mut body) = of_large_document(&folder, StreamMemory::of(requests.clone()));
        let mut others = requests.share(usize::MAX);
        others.take(1 << 20).unwrap();
        let mut out = Vec::new();
        for occasion in [PieceTrigger::Usual, PieceTrigger::Usual, PieceTrigger::Silence] {
            assert!(out.is_empty());
            assert_eq!(body.fill(&mut out, occasion), FillResult::Waiting);
            assert!(matches!(body.awaited(), AwaitedEvent::Memory));
        }
        let position = format!("{{\"sequence\":{}}}\n", body.changes.sequence());
        assert_eq!((&*out, requests.refusals()), (position.as_bytes(), 0));
        drop(others);
        out.clear();
        while body.fill(&mut out, PieceTrigger::Usual) == FillResult::More {}
        let line: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(line["document"]["v"].as_str().map(str::len), Some(DOCUMENT_BYTES));
        assert!(matches!(body.awaited(), AwaitedEvent::Change(_)));
        assert_eq!(requests.used_bytes(), 0);
    }
}

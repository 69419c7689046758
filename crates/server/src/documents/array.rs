//! Handler of `/_api/document` with arrays. Each item succeeds or fails on its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_budget::Share;
use pellucid_document::{
    Collection, CollectionSchema, CommitSequences, DocumentError, Documents, ErrorNumber,
    StoredRevision, document_of, is_document_key, revision_text, sequence_of,
};
use pellucid_store::Acknowledgement;
use pellucid_value::{DuplicateRule, Ref, json};

use super::call::{Call, bad_json, bad_parameter, open};
use super::completion::ReplyResult;
use super::encoding::Encoding;
use super::memory::{RequestMemory, over_budget};
use super::reply::encoded;
use super::write_request::{WriteRequest, WriteResult};
use crate::reply::Reply;
use crate::routes::Method;

/// The number of items at which a batch is written.
const ITEMS_AT_ONCE: usize = 1_000;

/// The bytes of items, or of documents in their results, at which a batch is written.
const BYTES_AT_ONCE: usize = 4 << 20;

/// The bytes of an item's error in the reply besides its message.
const ITEM_ERROR_BYTES: usize = 64;

/// Answers a call with an array. It may block.
pub(super) fn answer(
    documents: &Arc<Documents>,
    acknowledgement: Acknowledgement,
    memory: &RequestMemory,
    call: &Call<'_>,
    collection: &Arc<Collection>,
    timeline: &mut Timeline,
) -> ReplyResult {
    let reads = call.route.reads();
    // Without a value, `onlyget` means true here, because its presence selects this route.
    let is_bare = call.parameter("onlyget").is_some_and(|word| word.is_empty());
    if reads && !is_bare && !call.is_set("onlyget")? {
        return Err(bad_parameter("`onlyget` is true or false, as it is written"));
    }
    let request = WriteRequest::of(call, collection, acknowledgement)?;
    let mut items_memory = memory.of_call();
    let mut results = ItemResults {
        documents,
        memory,
        call,
        collection,
        request,
        out: Encoding::new(memory.of_call(), call.control.as_ref()),
        error_counts: BTreeMap::new(),
        is_first: true,
        done: 0,
    };
    results.out.bytes(b"[")?;
    // The whole body is checked before anything is written.
    check_array(call)?;
    let mut parser = parser_of(call)?;
    let (mut items, mut bytes) = (Vec::new(), 0);
    let mut goes_on = parser.peek() != Some(b']');
    while goes_on {
        parser.skip_space();
        let item = parser.value().map_err(|error| bad_json(&error))?;
        items_memory.take(item.len()).map_err(over_budget).map_err(|e| results.cut(e))?;
        let item = item.to_vec();
        parser.skip_space();
        goes_on = parser.take(b',');
        bytes += item.len();
        items.push(item);
        if !goes_on || items.len() >= ITEMS_AT_ONCE || bytes >= BYTES_AT_ONCE {
            if reads {
                results.read(&items, timeline)?;
            } else {
                let written = results.write(&items, timeline);
                written.map_err(|error| results.cut(error))?;
            }
            items.clear();
            items_memory.give_back(bytes);
            bytes = 0;
        }
    }
    results.out.bytes(b"]").map_err(|error| results.cut(error))?;
    let status = if reads { 200 } else { request.status() };
    if results.error_counts.is_empty() {
        return Ok(match request.is_silent && !reads {
            true => Reply::json(status, b"{}".to_vec()),
            false => encoded(status, results.out),
        });
    }
    let counts = serde_json::to_string(&results.error_counts).unwrap_or_default();
    Ok(encoded(status, results.out).with_header("X-Arango-Error-Codes", counts))
}

/// A parser at the first item of a call's body.
fn parser_of<'a>(call: &'a Call<'_>) -> Result<json::Parser<'a>, DocumentError> {
    let parser = json::Parser::new(&call.body, DuplicateRule::Refuse);
    let mut parser = parser.map_err(|error| bad_json(&error))?;
    parser.skip_space();
    if !parser.take(b'[') {
        return Err(ErrorNumber::DOCUMENT_TYPE_INVALID.into());
    }
    parser.skip_space();
    Ok(parser)
}

/// Checks that the body is a valid JSON array. It parses one item at a time, so that it needs the
/// memory of only one.
fn check_array(call: &Call<'_>) -> Result<(), DocumentError> {
    let mut parser = parser_of(call)?;
    let bad = |error| bad_json(&error);
    let mut items = 0_usize;
    while parser.element(items == 0).map_err(bad)?.is_some() {
        items += 1;
        if items.is_multiple_of(ITEMS_AT_ONCE) {
            call.check()?;
        }
    }
    parser.skip_space();
    parser.expect_end().map_err(bad)
}

/// The key of the document that an item names, as a key, an id, or an object with one of them.
fn key_of<'a>(shape: &CollectionSchema, item: Ref<'a>) -> Result<&'a str, DocumentError> {
    let text = match item {
        Ref::String(text) => text,
        Ref::Object(object) => {
            let name = object.get("_key").or_else(|| object.get("_id"));
            name.and_then(Ref::as_str).ok_or(ErrorNumber::DOCUMENT_KEY_BAD)?
        }
        _ => return Err(ErrorNumber::DOCUMENT_HANDLE_BAD.into()),
    };
    let key = match text.split_once('/') {
        None => text,
        Some((collection, key)) if collection == shape.definition.name => key,
        Some(_) => return Err(ErrorNumber::DOCUMENT_NOT_FOUND.into()),
    };
    if is_document_key(key.as_bytes()) {
        return Ok(key);
    }
    Err(ErrorNumber::DOCUMENT_KEY_BAD.into())
}

/// The key and the expected revision that an item names. A new document has no key here.
fn identity_of<'a>(
    method: Method,
    shape: &CollectionSchema,
    request: &WriteRequest,
    item: Ref<'a>,
) -> Result<(Option<&'a str>, Option<&'a [u8]>), DocumentError> {
    let object = item.as_object();
    if method == Method::Post {
        return Ok((None, object.and_then(|object| request.revision_in(object))));
    }
    if object.is_none() && method != Method::Delete {
        return Err(ErrorNumber::DOCUMENT_TYPE_INVALID.into());
    }
    let key = key_of(shape, item)?;
    Ok((Some(key), object.and_then(|object| request.revision_in(object))))
}

/// The results of a batch that is committed.
struct BatchOutcome {
    results: Vec<Result<WriteResult, DocumentError>>,
    committed: CommitSequences,
    /// The memory of the documents in the results.
    _memory: Share,
}

/// The call with its array, and the results of the items so far, as JSON.
struct ItemResults<'a> {
    documents: &'a Arc<Documents>,
    memory: &'a RequestMemory,
    call: &'a Call<'a>,
    collection: &'a Arc<Collection>,
    request: WriteRequest,
    out: Encoding<'a>,
    /// The number of failed items by error number.
    error_counts: BTreeMap<u16, u64>,
    is_first: bool,
    /// The number of items in batches that are committed.
    done: usize,
}

impl ItemResults<'_> {
    fn read(&mut self, items: &[Vec<u8>], timeline: &mut Timeline) -> Result<(), DocumentError> {
        let shape = self.collection.shape();
        for item in items {
            self.call.check()?;
            let item = open(item);
            let expected = item.as_object().and_then(|object| self.request.revision_in(object));
            let found = key_of(&shape, item).and_then(|key| {
                let object = self.documents.get(&shape, key.as_bytes(), timeline);
                let object = object.wait_for(timeline)?.ok_or(ErrorNumber::DOCUMENT_NOT_FOUND)?;
                let sequence = object.head.sequence;
                if expected.is_some_and(|revision| sequence_of(revision) != Some(sequence)) {
                    let (key, revision) = (key.to_owned(), revision_text(sequence));
                    return Err(DocumentError::revision_differs(StoredRevision { key, revision }));
                }
                document_of(&shape, &object)
            });
            match found {
                Ok(document) => {
                    self.begin_item()?;
                    self.out.packed(open(&document), document.len())?;
                }
                Err(error) => self.error(&error)?,
            }
        }
        Ok(())
    }

    fn write(&mut self, items: &[Vec<u8>], timeline: &mut Timeline) -> Result<(), DocumentError> {
        let (mut rest, mut count) = (items, items.len());
        while !rest.is_empty() {
            count = count.min(rest.len());
            match self.write_some(&rest[..count], timeline) {
                Ok(written) => {
                    self.done += written.results.len();
                    rest = &rest[written.results.len()..];
                    self.note(written)?;
                    // One large document does not make all later batches small.
                    count = count.saturating_mul(2);
                }
                // Documents with many index entries may be too much for one batch.
                Err(error) if error.number == ErrorNumber::RESOURCE_LIMIT && count > 1 => {
                    count /= 2;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes the first of these items in one batch: as many as fit, and at least one.
    fn write_some(
        &self,
        items: &[Vec<u8>],
        timeline: &mut Timeline,
    ) -> Result<BatchOutcome, DocumentError> {
        let ItemResults { documents, memory, call, collection, request, .. } = self;
        let shape = collection.shape();
        let inserts = call.method == Method::Post;
        let attempt = pellucid_document::attempt_to_end(
            documents,
            request.acknowledgement,
            inserts,
            timeline,
            |transaction, timeline| {
                let mut results = Vec::with_capacity(items.len());
                let mut memory = memory.of_call();
                for item in items {
                    call.check()?;
                    let item = open(item);
                    let written = identity_of(call.method, &shape, request, item);
                    let written = written.and_then(|(key, expected)| {
                        request.apply(collection, key, item, expected, transaction, timeline)
                    });
                    let bytes = written.as_ref().map_or(0, WriteResult::document_bytes);
                    memory.take(bytes).map_err(over_budget)?;
                    results.push(written);
                    if memory.held_bytes() >= BYTES_AT_ONCE || transaction.is_full() {
                        break;
                    }
                }
                Ok((results, memory))
            },
        );
        let ((results, memory), committed) = attempt?;
        Ok(BatchOutcome { results, committed, _memory: memory })
    }

    /// Adds the results of a batch.
    fn note(&mut self, batch: BatchOutcome) -> Result<(), DocumentError> {
        let (shape, committed) = (self.collection.shape(), batch.committed);
        for result in batch.results {
            match result {
                Ok(_) if self.request.is_silent => {}
                Ok(written) => {
                    self.begin_item()?;
                    self.out.reserve(written.json_bytes_max())?;
                    written.write(&shape, &committed, self.out.body_mut());
                }
                Err(error) => self.error(&error)?,
            }
        }
        Ok(())
    }

    fn begin_item(&mut self) -> Result<(), DocumentError> {
        if std::mem::take(&mut self.is_first) {
            return Ok(());
        }
        self.out.bytes(b",")
    }

    fn error(&mut self, error: &DocumentError) -> Result<(), DocumentError> {
        *self.error_counts.entry(error.number.0).or_default() += 1;
        self.begin_item()?;
        self.out.reserve(error.message.len() * 6 + ITEM_ERROR_BYTES)?;
        let value = serde_json::json!({
            "error": true, "errorNum": error.number.0, "errorMessage": error.message,
        });
        self.out.body_mut().extend_from_slice(value.to_string().as_bytes());
        Ok(())
    }

    /// Adds the number of items that were written to the error of a call that ends early.
    fn cut(&self, mut error: DocumentError) -> DocumentError {
        if self.done > 0 {
            error.message += &format!(" (the first {} items were written)", self.done);
        }
        error
    }
}

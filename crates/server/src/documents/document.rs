//! Handlers of `/_api/document` for one document. They run on event loops; a write that has to wait
//! for the disk is finished later.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_budget::Share;
use pellucid_document::{
    Collection, CollectionSchema, Commit, CommitSequences, DocumentError, Documents, ErrorNumber,
    StoredRevision, attempt, document_of, is_document_key, revision_text, sequence_of,
};
use pellucid_store::{Acknowledgement, Answer, Object, Value as StoreValue};
use pellucid_value::{Ref, json};

use super::call::{Call, open};
use super::completion::{CommitReply, Completion};
use super::encoding::Encoding;
use super::memory::RequestMemory;
use super::reply::{empty, revision_error};
use super::write_request::{WriteRequest, WriteResult};
use crate::reply::{Body, Reply};
use crate::routes::Method;

/// The most bytes of a packed document that is copied or written as JSON on an event loop. Those of
/// a larger one are only read and checked there, if the store has them in memory. Copies and the
/// JSON of a larger one take memory from the budget.
const LIGHT_DOCUMENT_BYTES_MAX: usize = 64 << 10;

/// The first capacity of the body of a reply to a write without a large document.
const LIGHT_REPLY_BYTES: usize = 128;

/// Answers a call to one document, or the insertion of one; `None` if it would have to wait and the
/// call may not.
pub(super) fn answer(
    documents: &Arc<Documents>,
    acknowledgement: Acknowledgement,
    memory: &RequestMemory,
    call: &Call<'_>,
    collection: &Arc<Collection>,
    timeline: &mut Timeline,
) -> Result<Option<Completion>, DocumentError> {
    let key = call.part("{key}");
    if key.is_some_and(|key| !is_document_key(key.as_bytes())) {
        return Err(match call.method {
            Method::Get | Method::Head | Method::Delete => ErrorNumber::DOCUMENT_NOT_FOUND.into(),
            _ => ErrorNumber::DOCUMENT_KEY_BAD.into(),
        });
    }
    match (call.method, key) {
        (Method::Get | Method::Head, Some(key)) => {
            let reply = read(documents, memory, call, collection, key, timeline)?;
            Ok(reply.map(Completion::Reply))
        }
        (Method::Post, None) | (Method::Put | Method::Patch | Method::Delete, Some(_)) => {
            if !call.may_wait && collection.is_changing() {
                return Ok(None);
            }
            write(documents, acknowledgement, memory, call, collection, key, timeline)
        }
        _ => Err(ErrorNumber::HTTP_METHOD_NOT_ALLOWED.into()),
    }
}

/// True if a write has to read an old document that is too large for an event loop. `key` is that
/// of the path.
fn rewrites_large(
    documents: &Documents,
    request: &WriteRequest,
    collection: &Collection,
    key: Option<&str>,
    body: Ref<'_>,
    timeline: &mut Timeline,
) -> bool {
    let shape = collection.shape();
    let key = match key {
        Some(key) => request.reads_old(&shape).then_some(key),
        None if request.overwrites() => given_key(body),
        None => None,
    };
    let Some(key) = key else { return false };
    match documents.head_and_length(&shape, key.as_bytes(), timeline) {
        Answer::Now(Ok(Some((head, _)))) => head.value_length > LIGHT_DOCUMENT_BYTES_MAX as u64,
        // The write itself tells what is wrong, or waits.
        _ => false,
    }
}

/// The key of a document that a body gives.
fn given_key(body: Ref<'_>) -> Option<&str> {
    let key = body.as_object()?.get("_key")?.as_str()?;
    is_document_key(key.as_bytes()).then_some(key)
}

/// Reads a document; `None` if it would have to wait and the call may not.
fn read(
    documents: &Documents,
    memory: &RequestMemory,
    call: &Call<'_>,
    collection: &Collection,
    key: &str,
    timeline: &mut Timeline,
) -> Result<Option<Reply>, DocumentError> {
    let shape = collection.shape();
    let is_head = call.method == Method::Head;
    if is_head || call.if_match.is_some() || call.if_none_match.is_some() {
        // The ledger has the revision, and the length of the body that a GET returns.
        let found = documents.head_and_length(&shape, key.as_bytes(), timeline);
        let Some(found) = available(found, call, timeline)? else { return Ok(None) };
        let (head, length) = found.ok_or(ErrorNumber::DOCUMENT_NOT_FOUND)?;
        if let Some(reply) = unmet(call, &shape, key, head.sequence) {
            return Ok(Some(reply));
        }
        if let (true, Some(length_bytes)) = (is_head, length) {
            let revision = revision_text(head.sequence);
            let reply = Reply { body: Body::Length(length_bytes), ..Reply::json(200, vec![]) };
            return Ok(Some(reply.with_header("ETag", format!("\"{revision}\""))));
        }
    }
    let found = documents.get(&shape, key.as_bytes(), timeline);
    let Some(object) = available(found, call, timeline)? else { return Ok(None) };
    let object = object.ok_or(ErrorNumber::DOCUMENT_NOT_FOUND)?;
    // Another writer may have changed the document since its head was read.
    if let Some(reply) = unmet(call, &shape, key, object.head.sequence) {
        return Ok(Some(reply));
    }
    if !call.may_wait && object.value.len() > LIGHT_DOCUMENT_BYTES_MAX {
        return Ok(None);
    }
    let (body, memory) = json_of(memory, call, &shape, &object)?;
    let (body, memory) = match is_head {
        // The store has no note of the length.
        true => (Body::Length(body.len() as u64), None),
        false => (Body::Value(StoreValue::Owned(body)), memory),
    };
    let revision = revision_text(object.head.sequence);
    let reply = Reply { body, memory, ..Reply::json(200, vec![]) };
    Ok(Some(reply.with_header("ETag", format!("\"{revision}\""))))
}

/// The JSON of a document, with its memory if the document is large.
fn json_of(
    memory: &RequestMemory,
    call: &Call<'_>,
    shape: &CollectionSchema,
    object: &Object,
) -> Result<(Vec<u8>, Option<Share>), DocumentError> {
    if object.value.len() <= LIGHT_DOCUMENT_BYTES_MAX {
        let document = document_of(shape, object)?;
        let mut body = Vec::with_capacity(2 * document.len());
        json::write(open(&document), &mut body);
        return Ok((body, None));
    }
    let mut copies = None;
    memory.hold(&mut copies, object.value.held_bytes() + object.value.len())?;
    let document = document_of(shape, object)?;
    let share = memory.budget().share(usize::MAX);
    let mut body = Encoding::new(share, call.control.as_ref());
    body.packed(open(&document), document.len())?;
    let (body, share) = body.finish();
    Ok((body, Some(share)))
}

/// The reply to a read whose conditions the revision `sequence` does not meet.
fn unmet(call: &Call<'_>, shape: &CollectionSchema, key: &str, sequence: u64) -> Option<Reply> {
    let is_it = |tag: &[u8]| sequence_of(tag) == Some(sequence);
    if call.if_none_match.as_deref().is_some_and(is_it) {
        let revision = revision_text(sequence);
        return Some(empty(304).with_header("ETag", format!("\"{revision}\"")));
    }
    if call.if_match.as_deref().is_some_and(|tag| !is_it(tag)) {
        let stored = StoredRevision { key: key.to_owned(), revision: revision_text(sequence) };
        return Some(error_reply(shape, DocumentError::revision_differs(stored)));
    }
    None
}

/// Writes a document; `None` if it would have to wait and the call may not.
fn write(
    documents: &Arc<Documents>,
    acknowledgement: Acknowledgement,
    memory: &RequestMemory,
    call: &Call<'_>,
    collection: &Arc<Collection>,
    key: Option<&str>,
    timeline: &mut Timeline,
) -> Result<Option<Completion>, DocumentError> {
    let request = WriteRequest::of(call, collection, acknowledgement)?;
    let body = if call.method == Method::Delete { Vec::new() } else { call.packed()? };
    let body = open(&body);
    if !call.may_wait && rewrites_large(documents, &request, collection, key, body, timeline) {
        return Ok(None);
    }
    let (mut held, mut reply_bytes) = (None, LIGHT_REPLY_BYTES);
    let revision = body.as_object().and_then(|body| request.revision_in(body));
    // An insertion checks the revision only if it overwrites an existing document.
    let expected = call.if_match.as_deref().or(revision);
    let attempt =
        attempt(documents, request.acknowledgement, false, timeline, |transaction, timeline| {
            if !call.may_wait {
                transaction.never_wait();
            }
            let written = request.apply(collection, key, body, expected, transaction, timeline)?;
            // The store copies what is written.
            let copied_bytes = 2 * transaction.value_bytes() + written.document_bytes();
            if copied_bytes > LIGHT_DOCUMENT_BYTES_MAX {
                // After the commit, it would be too late to refuse the reply.
                reply_bytes = written.json_bytes_max();
                memory.hold(&mut held, copied_bytes + reply_bytes)?;
            }
            Ok(written)
        });
    let (database, shape) = (call.database().to_owned(), collection.shape());
    let replying = WriteReply { database, shape, request, reply_bytes, memory: held };
    Ok(Some(match attempt {
        // A worker waits for a definition that changes.
        Ok((_, Commit::Done(Err(error)))) if error.number == ErrorNumber::LOCKED => {
            return Ok(None);
        }
        Err(error) => Completion::Reply(replying.reply(Err(error))),
        Ok((written, Commit::Done(result))) => {
            Completion::Reply(replying.reply(result.map(|committed| (written, committed))))
        }
        Ok((written, Commit::Later(pending, unfinished))) => {
            let finish = move |result| {
                let finished = unfinished.finish(result);
                let is_conflict = matches!(&finished, Err(error) if error.is_conflict());
                let reply = replying.reply(finished.map(|committed| (written, committed)));
                CommitReply { reply, is_conflict }
            };
            Completion::OnCommit(pending, Box::new(finish))
        }
    }))
}

/// The answer of the store; `None` if it is not ready and the call may not wait for it.
fn available<T: Send + 'static>(
    answer: Answer<T>,
    call: &Call<'_>,
    timeline: &mut Timeline,
) -> Result<Option<T>, DocumentError> {
    match answer {
        // A pending answer that is dropped is never begun.
        Answer::Later(_) if !call.may_wait => Ok(None),
        answer => Ok(Some(answer.wait_for(timeline)?)),
    }
}

/// The data for the reply to a write.
struct WriteReply {
    database: String,
    shape: Arc<CollectionSchema>,
    request: WriteRequest,
    /// The first capacity of the body.
    reply_bytes: usize,
    /// The memory of large documents and of their JSON.
    memory: Option<Share>,
}

impl WriteReply {
    fn reply(self, result: Result<(WriteResult, CommitSequences), DocumentError>) -> Reply {
        let (written, committed) = match result {
            Ok(written) => written,
            Err(error) => return error_reply(&self.shape, error),
        };
        let mut body = Vec::with_capacity(self.reply_bytes);
        if self.request.is_silent {
            body.extend_from_slice(b"{}");
        } else {
            written.write(&self.shape, &committed, &mut body);
        }
        let (database, name) = (encode(&self.database), &self.shape.definition.name);
        let key = encode(&written.outcome.key);
        let revision = written.outcome.version.revision(&committed);
        let memory = self.memory.map(|mut memory| {
            memory.give_back(memory.held_bytes().saturating_sub(body.capacity()));
            memory
        });
        Reply { memory, ..Reply::json(self.request.status(), body) }
            .with_header("ETag", format!("\"{revision}\""))
            .with_header("Location", format!("/_db/{database}/_api/document/{name}/{key}"))
    }
}

/// The reply to an error. An error about a revision has the status 412 and names the document.
fn error_reply(shape: &CollectionSchema, error: DocumentError) -> Reply {
    match &error.stored {
        None => error.into(),
        Some(stored) => {
            let id = format!("{}/{}", shape.definition.name, stored.key);
            revision_error(412, &error, &id)
        }
    }
}

/// Percent-encodes bytes that are not plain characters of a path segment.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'%' | b'/' | b'?' | b'#' | b'"') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

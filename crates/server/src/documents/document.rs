//! `/_api/document`: one document at a time. Runs on event loops; what has to wait for the medium
//! is finished later.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_document::{
    Attempt, Collection, Committed, DocumentError, ErrorNumber, Shape, Standing, document_of,
    revision_text, sequence_of,
};
use pellucid_store::Answer;
use pellucid_value::{ObjectRef, Ref, json, packed};

use super::api::{Answered, DocumentApi, Finished};
use super::call::{Call, Method};
use super::reply::{Body, Reply};
use super::writing::{Told, Writing};

impl DocumentApi {
    /// Answers a call to one document.
    pub(crate) fn one_document(
        self: &Arc<Self>,
        call: &Call<'_>,
        collection: &Arc<Collection>,
        key: Option<&str>,
        timeline: &mut Timeline,
    ) -> Result<Answered, DocumentError> {
        match (call.method, key) {
            (Method::Get | Method::Head, Some(key)) => {
                self.read_document(call, collection, key, timeline).map(Answered::Now)
            }
            (Method::Post, None) => self.insert_document(call, collection, timeline),
            (Method::Put | Method::Patch, Some(key)) => {
                self.change_document(call, collection, key, timeline)
            }
            (Method::Delete, Some(key)) => self.remove_document(call, collection, key, timeline),
            _ => Err(ErrorNumber::HTTP_METHOD_NOT_ALLOWED.into()),
        }
    }

    /// Reads a document, or fails with [`ErrorNumber::NOT_IN_MEMORY`] where that would have to wait
    /// and the call may not.
    fn read_document(
        &self,
        call: &Call<'_>,
        collection: &Collection,
        key: &str,
        timeline: &mut Timeline,
    ) -> Result<Reply, DocumentError> {
        let shape = collection.shape();
        let documents = &self.documents;
        let is_head = call.method == Method::Head;
        if is_head || call.if_match.is_some() || call.if_none_match.is_some() {
            // The ledger knows the revision, and how long the body is that a GET would have.
            let found = documents.head_and_length(&shape, key.as_bytes(), timeline);
            let found = answered(found, call, timeline)?;
            let (head, length) = found.ok_or(ErrorNumber::DOCUMENT_NOT_FOUND)?;
            let revision = revision_text(head.sequence);
            let is_it = |tag: &[u8]| sequence_of(tag) == Some(head.sequence);
            if call.if_none_match.as_deref().is_some_and(is_it) {
                return Ok(Reply::empty(304).with_header("ETag", format!("\"{revision}\"")));
            }
            if call.if_match.as_deref().is_some_and(|tag| !is_it(tag)) {
                let standing = Standing { key: key.to_owned(), revision };
                return Ok(differs(&shape, &DocumentError::revision_differs(standing)));
            }
            if let (true, Some(length_bytes)) = (is_head, length) {
                let reply = Reply { body: Body::Length(length_bytes), ..Reply::json(200, vec![]) };
                return Ok(reply.with_header("ETag", format!("\"{revision}\"")));
            }
        }
        let object = documents.get(&shape, key.as_bytes(), timeline);
        let object = answered(object, call, timeline)?;
        let object = object.ok_or(ErrorNumber::DOCUMENT_NOT_FOUND)?;
        let document = document_of(&shape, &object)?;
        let mut body = Vec::with_capacity(2 * document.len());
        json::write(packed::open(&document).unwrap_or(Ref::Null), &mut body);
        let revision = revision_text(object.head.sequence);
        let mut reply = Reply::json(200, body).with_header("ETag", format!("\"{revision}\""));
        // A document from before lengths were noted.
        if let (true, Body::Bytes(body)) = (is_head, &reply.body) {
            reply.body = Body::Length(body.len() as u64);
        }
        Ok(reply)
    }

    fn insert_document(
        self: &Arc<Self>,
        call: &Call<'_>,
        collection: &Arc<Collection>,
        timeline: &mut Timeline,
    ) -> Result<Answered, DocumentError> {
        let writing = Writing::of(call, collection, self.acknowledgement)?;
        let parsed = parse_body(&call.body)?;
        let body = object_in(&parsed)?;
        let attempt = self.documents.attempt(
            writing.acknowledgement,
            false,
            timeline,
            |transaction, timeline| {
                let options = writing.options(None);
                let outcome = transaction.insert(collection, body, &options, timeline)?;
                let new = transaction.stored(outcome.version).filter(|_| writing.wants_new);
                Ok(Told { new: new.map(<[u8]>::to_vec), outcome })
            },
        );
        let status = if writing.is_durable() { 201 } else { 202 };
        Ok(self.told(call, collection, writing, attempt, status))
    }

    fn change_document(
        self: &Arc<Self>,
        call: &Call<'_>,
        collection: &Arc<Collection>,
        key: &str,
        timeline: &mut Timeline,
    ) -> Result<Answered, DocumentError> {
        let writing = Writing::of(call, collection, self.acknowledgement)?;
        let parsed = parse_body(&call.body)?;
        let body = object_in(&parsed)?;
        let expected = call.if_match.as_deref().or_else(|| writing.revision_in(body));
        let is_update = call.method == Method::Patch;
        let attempt = self.documents.attempt(
            writing.acknowledgement,
            false,
            timeline,
            |transaction, timeline| {
                let options = writing.options(expected);
                let outcome = if is_update {
                    transaction.update(collection, key, body, &options, timeline)?
                } else {
                    transaction.replace(collection, key, body, &options, timeline)?
                };
                let new = transaction.stored(outcome.version).filter(|_| writing.wants_new);
                Ok(Told { new: new.map(<[u8]>::to_vec), outcome })
            },
        );
        let status = if writing.is_durable() { 201 } else { 202 };
        Ok(self.told(call, collection, writing, attempt, status))
    }

    fn remove_document(
        self: &Arc<Self>,
        call: &Call<'_>,
        collection: &Arc<Collection>,
        key: &str,
        timeline: &mut Timeline,
    ) -> Result<Answered, DocumentError> {
        let writing = Writing::of(call, collection, self.acknowledgement)?;
        let expected = call.if_match.as_deref();
        let attempt = self.documents.attempt(
            writing.acknowledgement,
            false,
            timeline,
            |transaction, timeline| {
                let options = writing.options(expected);
                let outcome = transaction.remove(collection, key, &options, timeline)?;
                Ok(Told { new: None, outcome })
            },
        );
        let status = if writing.is_durable() { 200 } else { 202 };
        Ok(self.told(call, collection, writing, attempt, status))
    }

    /// The answer to a write of one document.
    fn told(
        self: &Arc<Self>,
        call: &Call<'_>,
        collection: &Collection,
        writing: Writing,
        attempt: Attempt<Told>,
        status: u16,
    ) -> Answered {
        let shape = collection.shape();
        let telling = Telling {
            database: call.database().to_owned(),
            shape,
            is_removal: call.method == Method::Delete,
            writing,
            status,
        };
        match attempt {
            Attempt::Done(result) => Answered::Now(telling.reply(result)),
            Attempt::Later(told, pending, unfinished) => {
                let api = Arc::clone(self);
                let finish = move |result| {
                    let finished = unfinished.finish(&api.documents, result);
                    let refused = finished.as_ref().err().map(|error| error.number);
                    let reply = telling.reply(finished.map(|committed| (told, committed)));
                    match refused {
                        Some(ErrorNumber::CONFLICT) => Finished::Conflict(reply),
                        _ => Finished::Reply(reply),
                    }
                };
                Answered::Later(pending, Box::new(finish))
            }
        }
    }
}

/// What the store answers, if it is there or the call may wait for it.
fn answered<T: Send + 'static>(
    answer: Answer<T>,
    call: &Call<'_>,
    timeline: &mut Timeline,
) -> Result<T, DocumentError> {
    match answer {
        // Nobody has begun with it yet, and nobody does.
        Answer::Later(_) if !call.may_wait => Err(ErrorNumber::NOT_IN_MEMORY.into()),
        answer => Ok(answer.wait_for(timeline)?),
    }
}

/// What has to be known to tell of a write.
struct Telling {
    database: String,
    shape: Arc<Shape>,
    is_removal: bool,
    writing: Writing,
    status: u16,
}

impl Telling {
    fn reply(&self, result: Result<(Told, Committed), DocumentError>) -> Reply {
        let (told, committed) = match result {
            Ok(written) => written,
            Err(error) => return differs(&self.shape, &error),
        };
        let mut body = Vec::with_capacity(128);
        if self.writing.is_silent {
            body.extend_from_slice(b"{}");
        } else {
            told.write(&self.shape, &committed, self.is_removal, &mut body);
        }
        let (database, name) = (encode(&self.database), &self.shape.definition.name);
        let key = encode(&told.outcome.key);
        let revision = told.outcome.version.revision(&committed);
        Reply::json(self.status, body)
            .with_header("ETag", format!("\"{revision}\""))
            .with_header("Location", format!("/_db/{database}/_api/document/{name}/{key}"))
    }
}

/// The answer to an error; one about a revision names the document, and is 412.
fn differs(shape: &Shape, error: &DocumentError) -> Reply {
    let Some(standing) = &error.standing else { return Reply::error(error) };
    let mut reply = Reply::error_as(412, error);
    if let Body::Bytes(body) = &mut reply.body {
        // The identity belongs to the envelope, whose last byte is its brace.
        body.pop();
        body.extend_from_slice(b",\"_id\":");
        let id = format!("{}/{}", shape.definition.name, standing.key);
        json::write_string(&id, body);
        body.push(b'}');
    }
    reply
}

/// Percent-encodes what could be mistaken in a header.
fn encode(text: &str) -> String {
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

/// The packed form of a body.
///
/// # Errors
/// 600 if it is no JSON.
pub(crate) fn parse_body(body: &[u8]) -> Result<Vec<u8>, DocumentError> {
    json::parse_packed(body, json::Limits::default()).map_err(|error| bad_json(&error))
}

/// The error for text that is no JSON.
pub(crate) fn bad_json(error: &json::JsonError) -> DocumentError {
    DocumentError::new(ErrorNumber::CORRUPTED_JSON, format!("VPackError error: {error}"))
}

/// The object that a body is.
///
/// # Errors
/// 1227 if it is something else.
pub(crate) fn object_in(parsed: &[u8]) -> Result<ObjectRef<'_>, DocumentError> {
    let object = packed::open(parsed).ok().and_then(Ref::as_object);
    object.ok_or_else(|| ErrorNumber::DOCUMENT_TYPE_INVALID.into())
}

//! `/_api/document` with arrays: each item succeeds or fails on its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_document::{
    Collection, DocumentError, ErrorNumber, Shape, document_of, is_document_key,
};
use pellucid_value::{Ref, json, packed};

use super::api::DocumentApi;
use super::call::{Call, Method};
use super::document::bad_json;
use super::encoding::Encoding;
use super::memory::over_budget;
use super::reply::Reply;
use super::writing::{Told, Writing, write_item_error};

/// Items that are written in one batch.
const ITEMS_AT_ONCE: usize = 1_000;

/// Bytes of items that are written in one batch.
const BYTES_AT_ONCE: usize = 4 << 20;

/// Bytes of an item's error beside its message.
const ITEM_ERROR_BYTES: usize = 64;

/// How often each error occurred.
type ErrorCounts = BTreeMap<u16, u64>;

impl DocumentApi {
    /// Answers a call with an array. For threads that may block.
    pub(crate) fn many_documents(
        self: &Arc<Self>,
        call: &Call<'_>,
        collection: &Arc<Collection>,
        timeline: &mut Timeline,
    ) -> Result<Reply, DocumentError> {
        let reads = call.route.reads();
        let writing = Writing::of(call, collection, self.acknowledgement)?;
        let mut memory = self.memory_of_call();
        let out = Encoding::new(self.memory_of_call(), call.control.as_ref());
        let mut answers = Answers { out, counts: ErrorCounts::new(), is_first: true, done: 0 };
        answers.out.bytes(b"[")?;
        let mut parser =
            json::Parser::new(&call.body, json::Limits::default()).map_err(|e| bad_json(&e))?;
        parser.skip_space();
        if !parser.take(b'[') {
            return Err(ErrorNumber::DOCUMENT_TYPE_INVALID.into());
        }
        // The whole body is looked at before anything is written.
        check_array(call)?;
        let mut items = Vec::new();
        let mut bytes = 0;
        parser.skip_space();
        let mut goes_on = parser.peek() != Some(b']');
        while goes_on {
            parser.skip_space();
            let item = parser.value().map_err(|error| bad_json(&error))?;
            memory.take(item.len()).map_err(over_budget).map_err(|e| answers.cut(e))?;
            let item = item.to_vec();
            parser.skip_space();
            goes_on = parser.take(b',');
            bytes += item.len();
            items.push(item);
            if !goes_on || items.len() >= ITEMS_AT_ONCE || bytes >= BYTES_AT_ONCE {
                let made = if reads {
                    self.read_items(call, collection, &items, &mut answers, timeline)
                } else {
                    self.write_items(call, collection, &writing, &items, &mut answers, timeline)
                };
                made.map_err(|error| if reads { error } else { answers.cut(error) })?;
                answers.done += items.len();
                items.clear();
                memory.give_back(bytes);
                bytes = 0;
            }
        }
        answers.out.bytes(b"]")?;
        let status = match (call.method, writing.is_durable()) {
            _ if reads => 200,
            (Method::Delete, true) => 200,
            (_, true) => 201,
            (_, false) => 202,
        };
        let reply = match writing.is_silent && !reads && answers.counts.is_empty() {
            true => Reply::json(status, b"{}".to_vec()),
            false => Reply::encoded(status, answers.out),
        };
        if answers.counts.is_empty() {
            return Ok(reply);
        }
        let codes = answers.counts.iter().map(|(number, count)| format!("\"{number}\":{count}"));
        let codes = codes.collect::<Vec<_>>().join(",");
        Ok(reply.with_header("X-Arango-Error-Codes", format!("{{{codes}}}")))
    }

    fn read_items(
        &self,
        call: &Call<'_>,
        collection: &Collection,
        items: &[Vec<u8>],
        answers: &mut Answers<'_>,
        timeline: &mut Timeline,
    ) -> Result<(), DocumentError> {
        let shape = collection.shape();
        for item in items {
            call.check()?;
            let key = key_of(&shape, packed::open(item).unwrap_or(Ref::Null));
            let found = key.and_then(|key| {
                let object = self.documents.get(&shape, key.as_bytes(), timeline);
                let object = object.wait_for(timeline)?;
                object.ok_or_else(|| ErrorNumber::DOCUMENT_NOT_FOUND.into())
            });
            match found.and_then(|object| document_of(&shape, &object)) {
                Ok(document) => {
                    answers.begin_item()?;
                    let value = packed::open(&document).unwrap_or(Ref::Null);
                    answers.out.packed(value, document.len())?;
                }
                Err(error) => answers.error(&error)?,
            }
        }
        Ok(())
    }

    fn write_items(
        self: &Arc<Self>,
        call: &Call<'_>,
        collection: &Arc<Collection>,
        writing: &Writing,
        items: &[Vec<u8>],
        answers: &mut Answers<'_>,
        timeline: &mut Timeline,
    ) -> Result<(), DocumentError> {
        let shape = collection.shape();
        let attempt = self.documents.attempt_to_end(
            writing.acknowledgement,
            call.method == Method::Post,
            timeline,
            |transaction, timeline| {
                let mut told = Vec::with_capacity(items.len());
                for item in items {
                    call.check()?;
                    let item = packed::open(item).unwrap_or(Ref::Null);
                    let outcome = self.write_item(
                        call.method,
                        collection,
                        writing,
                        item,
                        transaction,
                        timeline,
                    );
                    told.push(outcome.map(|outcome| {
                        let new = transaction.stored(outcome.version);
                        let new = new.filter(|_| writing.wants_new).map(<[u8]>::to_vec);
                        Told { new, outcome }
                    }));
                }
                Ok(told)
            },
        );
        let (told, committed) = attempt?;
        let is_removal = call.method == Method::Delete;
        for told in told {
            match told {
                Ok(_) if writing.is_silent => {}
                Ok(told) => {
                    answers.begin_item()?;
                    answers.out.reserve(told.json_bytes_max())?;
                    told.write(&shape, &committed, is_removal, answers.out.body_mut());
                }
                Err(error) => answers.error(&error)?,
            }
        }
        Ok(())
    }

    fn write_item(
        &self,
        method: Method,
        collection: &Arc<Collection>,
        writing: &Writing,
        item: Ref<'_>,
        transaction: &mut pellucid_document::Transaction,
        timeline: &mut Timeline,
    ) -> Result<pellucid_document::Outcome, DocumentError> {
        let object = || {
            let object = item.as_object();
            object.ok_or_else(|| DocumentError::from(ErrorNumber::DOCUMENT_TYPE_INVALID))
        };
        if method == Method::Post {
            let options = writing.options(None);
            return transaction.insert(collection, object()?, &options, timeline);
        }
        let shape = collection.shape();
        let expected = item.as_object().and_then(|object| writing.revision_in(object));
        let options = writing.options(expected);
        match method {
            Method::Delete => {
                let key = key_of(&shape, item)?;
                transaction.remove(collection, key, &options, timeline)
            }
            Method::Patch => {
                let body = object()?;
                let key = key_of(&shape, item)?;
                transaction.update(collection, key, body, &options, timeline)
            }
            _ => {
                let body = object()?;
                let key = key_of(&shape, item)?;
                transaction.replace(collection, key, body, &options, timeline)
            }
        }
    }
}

/// Refuses a body that is no array, or no JSON further on. Its items are looked at one by one, so
/// that the memory of one of them is enough.
fn check_array(call: &Call<'_>) -> Result<(), DocumentError> {
    let bad = |error| bad_json(&error);
    let mut parser = json::Parser::new(&call.body, json::Limits::default()).map_err(bad)?;
    parser.skip_space();
    // The caller has seen the bracket.
    parser.take(b'[');
    parser.skip_space();
    let mut goes_on = !parser.take(b']');
    let mut items = 0_usize;
    while goes_on {
        parser.skip_space();
        parser.value().map_err(bad)?;
        items += 1;
        if items.is_multiple_of(ITEMS_AT_ONCE) {
            call.check()?;
        }
        parser.skip_space();
        goes_on = parser.take(b',');
        if !goes_on && !parser.take(b']') {
            // What stands there is no JSON, which the parser says best.
            parser.expect_end().map_err(bad)?;
            let message = "VPackError error: expecting comma or ']'";
            return Err(DocumentError::new(ErrorNumber::CORRUPTED_JSON, message));
        }
    }
    parser.skip_space();
    parser.expect_end().map_err(bad)
}

/// The key of the document that an item names: by its key or id, or in an object with one of them.
fn key_of<'a>(shape: &Shape, item: Ref<'a>) -> Result<&'a str, DocumentError> {
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

/// The answer as it grows.
struct Answers<'a> {
    out: Encoding<'a>,
    counts: ErrorCounts,
    is_first: bool,
    /// Items whose batches are through.
    done: usize,
}

impl Answers<'_> {
    fn begin_item(&mut self) -> Result<(), DocumentError> {
        if std::mem::take(&mut self.is_first) {
            return Ok(());
        }
        self.out.bytes(b",")
    }

    fn error(&mut self, error: &DocumentError) -> Result<(), DocumentError> {
        *self.counts.entry(error.number.0).or_default() += 1;
        self.begin_item()?;
        self.out.reserve(error.message.len() * 6 + ITEM_ERROR_BYTES)?;
        write_item_error(error, self.out.body_mut());
        Ok(())
    }

    /// The error that cuts a call short, which says how far it came.
    fn cut(&self, mut error: DocumentError) -> DocumentError {
        if self.done > 0 {
            error.message += &format!(" (the first {} items were written)", self.done);
        }
        error
    }
}

//! The entity API: `/v0/entity`, `/v0/entities` and `/v0/batch`.

use std::borrow::Cow;
use std::sync::Arc;

use pellucid_account::{Stamp, Timeline};
use pellucid_clock::WallTime;
use pellucid_http::{
    BodySource, Filled, Handled, READ_BYTES_MAX, Request, Response, write_decimal,
};
use pellucid_store::{
    Acknowledgement, Answer, Arrival, Copies, Head, KEY_LENGTH_MAX, Object,
    Operation as StoreOperation, ReadMode, Result as StoreResult, Store, Value, Workers, Written,
};

use crate::batch;
use crate::cluster::AskedWrite;
use crate::conditions::{ReadConditions, Verdict, condition_of_write};
use crate::lifetime::lifetime_ms;
use crate::names::{Operation, Outcome};
use crate::query::{number_parameter, only_parameter, parameter, text_parameter};
use crate::service::{Api, Later, Loop, Reading, WriteReply, busy, respond_text, route};
use crate::timing::add_server_timing;
use crate::{ranges, ranges_elsewhere};

/// A value up to this size is copied behind its headers; a larger one is streamed from where it
/// lies, so that a connection never holds it.
pub(crate) const INLINE_VALUE_BYTES_MAX: usize = READ_BYTES_MAX;

/// A batch up to this size is parsed on its event loop, in less than a millisecond; a larger one is
/// handed over.
const BATCH_PARSED_AT_ONCE_BYTES_MAX: usize = 256 * 1024;

impl Api {
    pub(crate) fn entity(
        &mut self,
        operation: Operation,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let checked = key_of(request).and_then(|key| Ok((key, self.store_of(request)?)));
        let (key, other) = match checked {
            Ok(checked) => checked,
            Err(what) => {
                route(exchange, operation);
                return respond_text(response, exchange, 400, &what);
            }
        };
        exchange.facts.key_hash = self.shared.keys.note(&key);
        if let Some(owner) = self.elsewhere(&key) {
            return self.forward(operation, owner, &key, request, response, exchange);
        }
        let asked = (other.as_deref().unwrap_or(&*self.shared.store), &key[..]);
        match operation {
            Operation::EntityGet => self.get(request, asked, response, exchange),
            Operation::EntityHead => self.head(request, asked, response, exchange),
            _ => self.write_entity(operation, request, asked, response, exchange),
        }
    }

    fn get(
        &self,
        request: &Request<'_>,
        (store, key): (&dyn Store, &[u8]),
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        route(exchange, Operation::EntityGet);
        match store.get(self.shared.entities, key, exchange.timeline) {
            Answer::Now(found) => {
                exchange.timeline.stamp_after_lap(Stamp::Executed);
                let head = found.as_ref().ok().and_then(Option::as_ref).map(|object| &object.head);
                let verdict = ReadConditions::of(request).judge(head);
                self.found(found, verdict, response, exchange)
            }
            Answer::Later(pending) => {
                let (completer, reading) = (exchange.completer(), Reading::of(request));
                pending.when_ready(move |arrival| {
                    completer.complete(Later::Found { arrival, reading });
                });
                Handled::Later
            }
        }
    }

    pub(crate) fn found(
        &self,
        found: StoreResult<Option<Object>>,
        verdict: Verdict,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let object = match found {
            Ok(object) => object,
            Err(error) => return self.store_error(&error, response, exchange),
        };
        let head = object.as_ref().map(|object| &object.head);
        if !begin_read(verdict, head, response, exchange) {
            return Handled::Done;
        }
        match object {
            Some(object) if object.value.len() > INLINE_VALUE_BYTES_MAX => {
                response.finish_streamed(Some(object.value.len() as u64));
                Handled::Stream(Box::new(ValueBody { value: object.value, sent: 0 }))
            }
            Some(object) => {
                response.finish(&object.value);
                Handled::Done
            }
            None => Handled::Done,
        }
    }

    fn head(
        &self,
        request: &Request<'_>,
        (store, key): (&dyn Store, &[u8]),
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        route(exchange, Operation::EntityHead);
        match store.head(self.shared.entities, key, exchange.timeline) {
            Answer::Now(found) => {
                exchange.timeline.stamp_after_lap(Stamp::Executed);
                let head = found.as_ref().ok().and_then(Option::as_ref);
                let verdict = ReadConditions::of(request).judge(head);
                self.found_head(found, verdict, response, exchange)
            }
            Answer::Later(pending) => {
                let (completer, reading) = (exchange.completer(), Reading::of(request));
                pending.when_ready(move |arrival| {
                    completer.complete(Later::Head { arrival, reading });
                });
                Handled::Later
            }
        }
    }

    pub(crate) fn found_head(
        &self,
        found: StoreResult<Option<Head>>,
        verdict: Verdict,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let head = match found {
            Ok(head) => head,
            Err(error) => return self.store_error(&error, response, exchange),
        };
        if begin_read(verdict, head.as_ref(), response, exchange) {
            response.finish_length(head.map_or(0, |head| head.value_length));
        }
        Handled::Done
    }

    fn write_entity(
        &self,
        operation: Operation,
        request: &Request<'_>,
        (store, key): (&dyn Store, &[u8]),
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        route(exchange, operation);
        let is_put = operation == Operation::EntityPut;
        let AskedWrite { condition, lifetime_ms, acknowledgement } =
            match self.asked_write(request, is_put) {
                Ok(asked) => asked,
                Err(what) => return respond_text(response, exchange, 400, &what),
            };
        let value = is_put.then_some(request.body);
        let operations = [StoreOperation { key, value, condition, lifetime_ms }];
        let reply = if is_put { WriteReply::Put } else { WriteReply::Delete };
        self.write(store, &operations, (acknowledgement, reply), response, exchange)
    }

    /// What a write asks for beside key and value.
    pub(crate) fn asked_write(
        &self,
        request: &Request<'_>,
        is_put: bool,
    ) -> Result<AskedWrite, String> {
        let condition = condition_of_write(request)?;
        let lifetime_ms = if is_put { lifetime_ms(request)? } else { None };
        let acknowledgement = self.acknowledgement(request)?;
        Ok(AskedWrite { condition, lifetime_ms, acknowledgement })
    }

    fn write(
        &self,
        store: &dyn Store,
        operations: &[StoreOperation<'_>],
        (acknowledgement, reply): (Acknowledgement, WriteReply),
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let table = self.shared.entities;
        match store.write(table, operations, acknowledgement, exchange.timeline) {
            Answer::Now(result) => {
                exchange.timeline.stamp_after_lap(Stamp::Executed);
                self.written(result, reply, response, exchange);
                Handled::Done
            }
            Answer::Later(pending) => {
                let completer = exchange.completer();
                pending.when_ready(move |arrival| {
                    completer.complete(Later::Written { arrival, reply });
                });
                Handled::Later
            }
        }
    }

    pub(crate) fn written(
        &self,
        result: StoreResult<Written>,
        reply: WriteReply,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) {
        let written = match result {
            Ok(written) => written,
            Err(error) => {
                self.store_error(&error, response, exchange);
                return;
            }
        };
        match reply {
            WriteReply::Put => {
                response.status(201);
                add_etag(response, written.sequence);
            }
            WriteReply::Delete => {
                response.status(202);
            }
            WriteReply::Batch { .. } => {
                response.status(200).header("Content-Type", b"application/json");
            }
        }
        add_server_timing(response, exchange.timeline);
        match reply {
            WriteReply::Put | WriteReply::Delete => response.finish(b""),
            WriteReply::Batch { entries } => {
                let last = written.sequence;
                let body = serde_json::json!({ "entries": entries, "last_sequence": last });
                response.finish(body.to_string().as_bytes());
            }
        }
    }

    pub(crate) fn range(
        &mut self,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let asked =
            ranges::parse(request.query).and_then(|query| Ok((query, self.store_of(request)?)));
        let (query, other) = match asked {
            Ok(asked) => asked,
            Err(what) => return respond_text(response, exchange, 400, &what),
        };
        if query.is_of_cluster && self.shared.cluster.is_some() {
            // A node keeps one copy of its keys, so that there is no other number to wait for.
            return self.merged_range(request, query, response, exchange);
        }
        let form = ranges::form_of(request);
        let shared = &self.shared;
        if let Some(workers) = shared.store.workers() {
            let asked = ranges_elsewhere::Asked { query, form, other };
            return self.range_by_need(workers, asked, response, exchange);
        }
        let store = other.as_deref().unwrap_or(&*shared.store);
        let entities = (shared.entities, ReadMode::MayBlock);
        let begun = ranges::begin(&query, form, store, entities, &shared.log);
        exchange.timeline.stamp(Stamp::Executed);
        match begun {
            Err(error) => self.store_error(&error, response, exchange),
            Ok(body) => {
                response.status(200).header("Content-Type", form.content_type());
                add_server_timing(response, exchange.timeline);
                response.finish_streamed(None);
                Handled::Stream(Box::new(body))
            }
        }
    }

    pub(crate) fn batch(
        &mut self,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        if request.body.len() > BATCH_PARSED_AT_ONCE_BYTES_MAX
            && self.shared.cluster.is_none()
            && let Some(workers) = self.shared.store.workers()
        {
            return self.large_batch(workers, request, response, exchange);
        }
        let parsed = self.store_of(request).and_then(|other| {
            Ok((other, batch::parse(request.body)?, self.acknowledgement(request)?))
        });
        let (other, entries, acknowledgement) = match parsed {
            Ok(parsed) => parsed,
            Err(what) => return respond_text(response, exchange, 400, &what),
        };
        let forwarded = self.forward_batch(&entries, acknowledgement, request, response, exchange);
        if let Some(handled) = forwarded {
            return handled;
        }
        let operations: Vec<_> = entries.iter().map(batch::Entry::operation).collect();
        let reply = WriteReply::Batch { entries: operations.len() };
        let store = other.as_deref().unwrap_or(&*self.shared.store);
        self.write(store, &operations, (acknowledgement, reply), response, exchange)
    }

    /// Has another thread parse and write a batch that would hold up the event loop.
    fn large_batch(
        &self,
        workers: &Workers,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let asked =
            self.store_of(request).and_then(|other| Ok((other, self.acknowledgement(request)?)));
        let (other, acknowledgement) = match asked {
            Ok(asked) => asked,
            Err(what) => return respond_text(response, exchange, 400, &what),
        };
        let Some(place) = workers.reserve() else {
            return busy(response, exchange, "too many large batches wait: try again in a moment");
        };
        let (shared, completer) = (Arc::clone(&self.shared), exchange.completer());
        let (body, clock) = (request.body.to_vec(), exchange.timeline.clock());
        place.run(move || {
            let started = clock.now();
            let entries = match batch::parse(&body) {
                Ok(entries) => entries,
                Err(what) => return completer.complete(Later::Rejected { started, what }),
            };
            drop(body);
            let operations: Vec<_> = entries.iter().map(batch::Entry::operation).collect();
            let reply = WriteReply::Batch { entries: operations.len() };
            let (table, mut timeline) = (shared.entities, Timeline::off());
            let done = move |arrival: Arrival<Written>| {
                let arrival = Arrival { started: Some(started), ..arrival };
                completer.complete(Later::Written { arrival, reply });
            };
            let store = other.as_deref().unwrap_or(&*shared.store);
            match store.write(table, &operations, acknowledgement, &mut timeline) {
                Answer::Now(result) => done(Arrival::new(result, Vec::new())),
                Answer::Later(pending) => pending.when_ready(done),
            }
        });
        Handled::Later
    }

    fn acknowledgement(&self, request: &Request<'_>) -> Result<Acknowledgement, String> {
        match text_parameter(request.query, "sync")?.as_deref() {
            None => Ok(self.shared.acknowledgement),
            Some("memory") => Ok(Acknowledgement::Memory),
            Some("os") => Ok(Acknowledgement::Os),
            Some("disk") => Ok(Acknowledgement::Disk),
            Some(_) => Err("`sync` is one of memory, os and disk".to_owned()),
        }
    }

    /// The store that waits for as many copies as the request's `ack` and `from` say; nothing for
    /// the server's own.
    fn store_of(&self, request: &Request<'_>) -> Result<Option<Arc<dyn Store>>, String> {
        // Nearly every request has the key as its only parameter.
        if request.query.is_none() || only_parameter(request.query, "id").is_some() {
            return Ok(None);
        }
        let acknowledged = number_parameter(request.query, "ack")?;
        let from = number_parameter(request.query, "from")?;
        let copies = u64::from(self.shared.store.properties().copies);
        match (acknowledged, from) {
            (None, None) => Ok(None),
            (Some(_), None) | (None, Some(_)) => {
                Err("`ack` and `from` are given both or neither".to_owned())
            }
            (Some(ack), Some(from)) if 1 <= ack && ack <= from && from <= copies => {
                let asked = Copies { ack: ack as u32, from: from as u32 };
                let Some(store) = self.shared.store.replicated() else { return Ok(None) };
                store.waiting_for(asked).map_err(|error| error.to_string())
            }
            (Some(_), Some(_)) if copies == 1 => Err("this store keeps one copy of each entry: \
                                                      `ack` and `from` can only be 1"
                .to_owned()),
            (Some(_), Some(_)) => Err(format!("1 ≤ `ack` ≤ `from` ≤ {copies} has to hold")),
        }
    }
}

/// The key that the request names.
fn key_of<'q>(request: &Request<'q>) -> Result<Cow<'q, [u8]>, String> {
    match parameter(request.query, "id")? {
        None => Err("`id` is missing: name the key as `?id=…`".to_owned()),
        Some(id) if id.is_empty() => Err("`id` is empty: a key has at least one byte".to_owned()),
        Some(id) if id.len() > KEY_LENGTH_MAX => {
            Err(format!("the key has {} bytes; it may have up to {KEY_LENGTH_MAX}", id.len()))
        }
        Some(id) => Ok(id),
    }
}

/// Writes the answer to a read up to its body. Returns false if that was all of it.
pub(crate) fn begin_read(
    verdict: Verdict,
    head: Option<&Head>,
    response: &mut Response<'_>,
    exchange: &mut Loop<'_>,
) -> bool {
    let status = match (verdict, head) {
        (Verdict::PreconditionFailed, _) => 412,
        (Verdict::NotModified, _) => 304,
        (Verdict::Proceed, None) => 404,
        (Verdict::Proceed, Some(_)) => 200,
    };
    exchange.facts.outcome = Outcome::of_status(status) as u8;
    response.status(status);
    if let Some(head) = head {
        add_etag(response, head.sequence);
        let modified = WallTime::from_unix_ms(head.written_at_ms).http_date();
        response.header("Last-Modified", modified.as_bytes());
    }
    add_server_timing(response, exchange.timeline);
    match status {
        200 => {
            response.header("Content-Type", b"application/octet-stream");
        }
        304 => response.finish_without_body(),
        _ => response.finish(b""),
    }
    status == 200
}

fn add_etag(response: &mut Response<'_>, sequence: u64) {
    response.header_with("ETag", |out| {
        out.push(b'"');
        write_decimal(out, sequence);
        out.push(b'"');
    });
}

/// A large value, sent from where it lies.
struct ValueBody {
    value: Value,
    sent: usize,
}

impl BodySource for ValueBody {
    fn held_bytes(&self) -> usize {
        self.value.held_bytes()
    }

    fn fill(&mut self, out: &mut Vec<u8>) -> Filled {
        let end = (self.sent + READ_BYTES_MAX).min(self.value.len());
        out.extend_from_slice(&self.value[self.sent..end]);
        self.sent = end;
        if !self.value.is_readable() {
            return Filled::Broken;
        }
        if end == self.value.len() { Filled::Last } else { Filled::More }
    }
}

//! Reads and writes of entities in this server's own store.

use std::borrow::Cow;
use std::sync::Arc;

use pellucid_account::{Stamp, Timeline};
use pellucid_budget::{Budget, LEASE_BYTES, Share};
use pellucid_http::{READ_BYTES_MAX, Request};
use pellucid_store::{
    Acknowledgement, Answer as StoreAnswer, Condition, DeliveredAnswer, Head, KEY_LENGTH_MAX,
    Object, Operation as StoreOperation, ReadMode, ReplicaQuorum, Store, StoreError, Table,
    Workers, WriteOutcome,
};

use super::batch;
use super::conditions::EntityHeaders;
use super::lifetime::lifetime_ms;
use super::pieces::{EntitySelection, RangeWalk};
use super::ranges::Form;
use super::tables::EntityTables;
use crate::answer::{Answer, DeferredReply, HandlerResult, LoopExchange, LoopMessage};
use crate::keys::Keys;
use crate::log::Log;
use crate::names::Operation;
use crate::query::{number_parameter, parameter, text_parameter};
use crate::reply::{Failure, Reply, WriteReply};

/// The largest batch that is parsed on its event loop, which takes less than a millisecond. Larger
/// ones are handed over to a worker, except on a cluster.
const BATCH_PARSED_AT_ONCE_BYTES_MAX: usize = 256 * 1024;

/// The entity API of a server, shared by all event loops.
pub(crate) struct EntityApi {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tables: EntityTables,
    pub(crate) acknowledgement: Acknowledgement,
    pub(crate) keys: Arc<Keys>,
    /// The budget of the memory of all requests together.
    pub(crate) memory: Budget,
    pub(crate) log: Log,
}

/// The entity that a request names.
pub(crate) struct EntityReference<'q> {
    pub(crate) key: Cow<'q, [u8]>,
    place: EntityPlace,
}

/// A table, and the store to use if it is not the server's default one.
type EntityPlace = (Table, Option<Arc<dyn Store>>);

/// The parameters of a write beside key and value.
pub(crate) struct WriteParameters {
    pub(crate) condition: Condition,
    pub(crate) lifetime_ms: Option<u64>,
    pub(crate) acknowledgement: Acknowledgement,
}

impl EntityApi {
    /// Finds the key, table and store that the request names. `check` refuses parameters that its
    /// route does not know.
    pub(crate) fn named<'q>(
        &self,
        request: &Request<'q>,
        check: impl FnOnce() -> Result<(), String>,
    ) -> Result<EntityReference<'q>, Failure> {
        // Fast path: in nearly every request, the key is the only parameter.
        let is_only_key =
            |query: &str| query.starts_with("id=") && !query.as_bytes().contains(&b'&');
        if request.query.is_some_and(is_only_key) {
            let place = (self.tables.usual(), None);
            return Ok(EntityReference { key: key_of(request)?, place });
        }
        check()?;
        Ok(EntityReference { key: key_of(request)?, place: self.place_of(request)? })
    }

    /// The table that the request names, and the store that it chooses by `ack` and `from`.
    pub(crate) fn place_of(&self, request: &Request<'_>) -> Result<EntityPlace, Failure> {
        Ok((self.tables.named_in(request.query)?, self.store_of(request)?))
    }

    /// Checks the headers and parameters of a batch, without its body.
    pub(crate) fn check_batch(&self, request: &Request<'_>) -> Result<(), Failure> {
        let headers = EntityHeaders::of(request);
        headers.check_body()?;
        headers.refuse_conditions()?;
        self.acknowledgement(request)?;
        self.place_of(request)?;
        Ok(())
    }

    /// Answers a request for one entity; `operation` is a get, head, put or delete.
    pub(crate) fn call(
        &self,
        operation: Operation,
        named: &EntityReference<'_>,
        request: &Request<'_>,
        timeline: &mut Timeline,
    ) -> HandlerResult {
        let ((table, other), key) = (&named.place, &*named.key);
        let (table, store) = (*table, other.as_deref().unwrap_or(&*self.store));
        match operation {
            Operation::EntityGet => {
                let headers = EntityHeaders::of(request);
                let found = store.get(table, key, timeline);
                reply_to(found, timeline, move |object: Option<Object>| {
                    let verdict = headers.judge(object.as_ref().map(|object| &object.head));
                    Reply::to_get(object, verdict)
                })
            }
            Operation::EntityHead => {
                let headers = EntityHeaders::of(request);
                let found = store.head(table, key, timeline);
                reply_to(found, timeline, move |head: Option<Head>| {
                    let verdict = headers.judge(head.as_ref());
                    Reply::to_head(head, verdict)
                })
            }
            _ => {
                let is_put = operation == Operation::EntityPut;
                let WriteParameters { condition, lifetime_ms, acknowledgement } =
                    self.asked_write(request, is_put)?;
                let value = is_put.then_some(request.body);
                let operations = [StoreOperation { key, value, condition, lifetime_ms }];
                let memory = self.memory_of_copy(store, &operations, request.body.len())?;
                let reply = if is_put { WriteReply::Put } else { WriteReply::Delete };
                let written = store.write(table, &operations, acknowledgement, timeline);
                reply_to(written, timeline, move |written| {
                    let _memory = memory;
                    reply.of(written)
                })
            }
        }
    }

    /// Reads the parameters and headers of a write of one entity.
    pub(crate) fn asked_write(
        &self,
        request: &Request<'_>,
        is_put: bool,
    ) -> Result<WriteParameters, Failure> {
        let headers = EntityHeaders::of(request);
        if is_put {
            headers.check_body()?;
        }
        let condition = headers.condition()?;
        let lifetime_ms = if is_put { lifetime_ms(request)? } else { None };
        let acknowledgement = self.acknowledgement(request)?;
        Ok(WriteParameters { condition, lifetime_ms, acknowledgement })
    }

    /// Answers with the entities that are asked for, from this server's own store.
    pub(crate) fn walk(
        &self,
        asked: EntitySelection<'_>,
        form: Form,
        (table, store): EntityPlace,
        exchange: &mut LoopExchange<'_>,
    ) -> HandlerResult {
        let store = store.unwrap_or_else(|| Arc::clone(&self.store));
        let walk = RangeWalk { asked, form, store, table, memory: self.memory.clone() };
        if self.store.workers().is_some() {
            return walk.by_need(&self.store, &self.log, exchange);
        }
        let begun = walk.begin(&self.log, ReadMode::MayBlock);
        exchange.timeline.stamp(Stamp::Executed);
        Ok(Reply::streamed(walk.form.content_type(), begun?).into())
    }

    /// Returns true if a worker should parse and write the batch.
    pub(crate) fn is_large_batch(&self, request: &Request<'_>) -> bool {
        request.body.len() > BATCH_PARSED_AT_ONCE_BYTES_MAX && self.store.workers().is_some()
    }

    /// Writes a batch whose entries have been parsed.
    pub(crate) fn batch(
        &self,
        entries: &[batch::Entry],
        request: &Request<'_>,
        timeline: &mut Timeline,
    ) -> HandlerResult {
        let acknowledgement = self.acknowledgement(request)?;
        let (table, other) = self.place_of(request)?;
        let operations: Vec<_> = entries.iter().map(batch::Entry::operation).collect();
        let reply = WriteReply::Batch { entries: operations.len() };
        let store = other.as_deref().unwrap_or(&*self.store);
        let memory = self.memory_of_copy(store, &operations, request.body.len())?;
        let written = store.write(table, &operations, acknowledgement, timeline);
        reply_to(written, timeline, move |written| {
            let _memory = memory;
            reply.of(written)
        })
    }

    /// Takes the memory of the copy of a large body that another thread may have to write. The
    /// maker of the reply holds it until then.
    fn memory_of_copy(
        &self,
        store: &dyn Store,
        operations: &[StoreOperation<'_>],
        bytes: usize,
    ) -> Result<Option<Share>, Failure> {
        let is_counted = bytes > READ_BYTES_MAX && store.may_copy(operations);
        is_counted.then(|| self.take_copy(bytes)).transpose()
    }

    /// As [`Self::memory_of_copy`], for a write that another node has forwarded: no connection
    /// holds its body.
    pub(crate) fn memory_of_forwarded(
        &self,
        operations: &[StoreOperation<'_>],
        bytes: usize,
    ) -> Result<Option<Share>, StoreError> {
        if bytes <= READ_BYTES_MAX || !self.store.may_copy(operations) {
            return Ok(None);
        }
        let mut memory = self.memory.share(usize::MAX);
        memory.take(bytes).map_err(|over| StoreError::Busy(over.to_string()))?;
        Ok(Some(memory))
    }

    /// Takes the memory of a copy of a body of `bytes`. The connection's memory for the body ends
    /// with the connection, the copy may not.
    fn take_copy(&self, bytes: usize) -> Result<Share, Failure> {
        let bytes_max = self.memory.bytes_max();
        // The connection holds the body while it is copied.
        if bytes.saturating_mul(2).saturating_add(LEASE_BYTES) > bytes_max {
            let line = format!(
                "the body has {bytes} bytes and takes twice as many of `request-memory`, which is \
                 {bytes_max} bytes: send less at once, or raise the setting"
            );
            return Err(Failure::Refused(413, line.into()));
        }
        let mut memory = self.memory.share(usize::MAX);
        memory.take(bytes).map_err(|over| Failure::Busy(over.to_string().into()))?;
        Ok(memory)
    }

    /// Hands a batch to a worker, which parses and writes it: parsing it here would block the event
    /// loop for too long.
    pub(crate) fn large_batch(&self, request: &Request<'_>, timeline: &Timeline) -> HandlerResult {
        let (table, store) = self.place_of(request)?;
        let store = store.unwrap_or_else(|| Arc::clone(&self.store));
        let acknowledgement = self.acknowledgement(request)?;
        let memory = self.take_copy(request.body.len())?;
        let Some(place) = self.store.workers().and_then(Workers::reserve) else {
            let line = "too many large batches wait: try again in a moment";
            return Err(Failure::Busy(line.into()));
        };
        let (body, clock) = (request.body.to_vec(), timeline.clock());
        Ok(Answer::pending(move |completer| {
            place.run(move || {
                let started = clock.now();
                let complete = move |made: DeferredReply| {
                    completer.complete(LoopMessage::Made(Box::new(made.started_at(started))));
                };
                let entries = match batch::parse(&body) {
                    Ok(entries) => entries,
                    Err(line) => return complete(DeferredReply::of(Err(line.into()))),
                };
                drop(body);
                let operations: Vec<_> = entries.iter().map(batch::Entry::operation).collect();
                let reply = WriteReply::Batch { entries: operations.len() };
                let done = move |arrival: DeliveredAnswer<WriteOutcome>| {
                    // Held until the entries, which the body has become, are written: the store
                    // may have a copy of them.
                    let _memory = memory;
                    complete(DeferredReply::by(arrival, |written| reply.of(written)));
                };
                match store.write(table, &operations, acknowledgement, &mut Timeline::off()) {
                    StoreAnswer::Now(result) => done(DeliveredAnswer::new(result, Vec::new())),
                    StoreAnswer::Later(pending) => pending.begin_here(done),
                }
            });
        }))
    }

    /// The acknowledgement that the parameter `sync` asks for; the server's default without it.
    pub(crate) fn acknowledgement(&self, request: &Request<'_>) -> Result<Acknowledgement, String> {
        match text_parameter(request.query, "sync")?.as_deref() {
            None => Ok(self.acknowledgement),
            Some("memory") => Ok(Acknowledgement::Memory),
            Some("os") => Ok(Acknowledgement::Os),
            Some("disk") => Ok(Acknowledgement::Disk),
            Some(_) => Err("`sync` is one of memory, os and disk".to_owned()),
        }
    }

    /// The store that waits for as many copies as the request's `ack` and `from` say; `None` for
    /// the server's default store.
    fn store_of(&self, request: &Request<'_>) -> Result<Option<Arc<dyn Store>>, String> {
        if request.query.is_none() {
            return Ok(None);
        }
        let acknowledged = number_parameter(request.query, "ack")?;
        let from = number_parameter(request.query, "from")?;
        let copies = u64::from(self.store.properties().copies);
        match (acknowledged, from) {
            (None, None) => Ok(None),
            (Some(_), None) | (None, Some(_)) => {
                Err("`ack` and `from` are given both or neither".to_owned())
            }
            (Some(ack), Some(from)) if 1 <= ack && ack <= from && from <= copies => {
                let asked = ReplicaQuorum { ack: ack as u32, from: from as u32 };
                let Some(store) = self.store.replicated() else { return Ok(None) };
                store.waiting_for(asked).map_err(|error| error.to_string())
            }
            (Some(_), Some(_)) if copies == 1 => Err("this store keeps one copy of each entry: \
                                                      `ack` and `from` can only be 1"
                .to_owned()),
            (Some(_), Some(_)) => Err(format!("1 ≤ `ack` ≤ `from` ≤ {copies} has to hold")),
        }
    }
}

/// Makes a reply from the store's answer with `make`, now or when the answer arrives.
#[inline]
fn reply_to<T: 'static>(
    answer: StoreAnswer<T>,
    timeline: &mut Timeline,
    make: impl FnOnce(T) -> Reply + Send + 'static,
) -> HandlerResult {
    match answer {
        StoreAnswer::Now(result) => {
            timeline.stamp_after_lap(Stamp::Executed);
            Ok(Answer::Reply(make(result?)))
        }
        StoreAnswer::Later(pending) => Ok(Answer::pending(|completer| {
            pending.when_ready(|arrival| {
                completer.complete(LoopMessage::Made(Box::new(DeferredReply::by(arrival, make))))
            });
        })),
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

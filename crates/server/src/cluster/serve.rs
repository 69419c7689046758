//! The owner's side of the peer protocol: serves requests of peers ("asks") on the event loop that
//! reads them.

use std::sync::Arc;

use pellucid_account::{PARTS_MAX, Part, Phase, Record, Recorder, RequestFacts, Stamp, Timeline};
use pellucid_clock::{Clock, Ticks};
use pellucid_cluster::{
    ANSWER_BYTES, Answer, AnswerStatus, Ask, AskKind, Callers, Cluster, OwnerTimes, PAGE_BYTES,
    PageEntry, PartOperation, RangeAsk, Reply, clipped_ns,
};
use pellucid_http::{LinkContext, Messenger};
use pellucid_io::{Random, SeededRandom};
use pellucid_store::{
    Answer as StoreAnswer, DeferredAnswer, DeliveredAnswer, Head, Operation as StoreOperation,
    Range, Result as StoreResult, Store, StoreError, Table,
};
use pellucid_thread::set_operation;

use super::OwnerParts;
use super::served_request::{AskResult, ResultCallback, ServedRequest};
use crate::answer::LoopMessage;
use crate::entities::{EntityApi, batch};
use crate::names::{Operation, Outcome};
use crate::observer::Observer;

/// The account's record of an ask, which is finished when the answer is sent.
pub(super) type PendingRecord = Option<Record>;

/// The state with which an event loop serves peers.
pub(crate) struct Owner {
    entities: Arc<EntityApi>,
    observer: Arc<Observer>,
    parts: OwnerParts,
    random: SeededRandom,
}

impl Owner {
    pub(crate) fn new(
        entities: Arc<EntityApi>,
        observer: Arc<Observer>,
        random: SeededRandom,
    ) -> Owner {
        let parts = OwnerParts::of(entities.store.properties().part_names);
        Owner { entities, observer, parts, random }
    }

    pub(super) fn entities(&self) -> &EntityApi {
        &self.entities
    }

    pub(super) fn observer(&self) -> &Observer {
        &self.observer
    }

    /// Serves one ask, now or later on another thread. Returns a clock reading from about the end
    /// of its work here, which saves the caller another one.
    pub(super) fn serve(
        &mut self,
        cluster: &Cluster,
        messenger: &Messenger<LoopMessage>,
        turn: &mut LinkContext<'_, LoopMessage>,
        reply: &mut Reply<'_, PendingRecord>,
        ask: &Ask<'_>,
    ) -> Ticks {
        let (mut timeline, mut facts) =
            turn.begin(reply.received, reply.waited_until, reply.ask_bytes);
        let operation = operation_of(ask.kind);
        facts.operation = operation as u8;
        facts.key_hash = if ask.key.is_empty() { 0 } else { self.entities.keys.note(ask.key) };
        if let Some(trace) = ask.trace {
            let random = &mut self.random;
            self.observer.traced.begin_below(trace, facts.request, || random.next_u64());
        }
        timeline.set_operation(operation as u8);
        set_operation(operation as u8 + 1);
        let began = timeline.clock().now();
        for stamp in [Stamp::Parsed, Stamp::Routed, Stamp::Started] {
            timeline.stamp_at(stamp, began);
        }
        let waited_ns = timeline.clock().nanoseconds(began.since(reply.received));
        let answered = match is_late(waited_ns, ask.wait_ms) {
            true => StoreAnswer::Now(Ok(late(cluster, ask.wait_ms))),
            false => execute(&self.entities, cluster, ask, reply, &mut timeline),
        };
        match answered {
            StoreAnswer::Now(result) => {
                timeline.stamp_after_lap(Stamp::Executed);
                answer(self.parts, reply, turn.recorder(), ask.id, &mut timeline, facts, result)
            }
            StoreAnswer::Later(pending) => {
                let flight = turn.recorder().send_away(&timeline);
                let (id, ask, messenger) = (ask.id, reply.later(), messenger.clone());
                let callback = ResultCallback::new(move |arrival| {
                    let served = ServedRequest { ask, id, timeline, facts, flight, arrival };
                    messenger.tell(LoopMessage::Served(Box::new(served)));
                });
                pending.when_ready(move |arrival| callback.call(arrival));
                began
            }
        }
    }

    /// Answers an ask that another thread has served, if the connection to the caller still exists.
    pub(super) fn finish(
        &self,
        served: ServedRequest,
        callers: &mut Callers<PendingRecord>,
        turn: &LinkContext<'_, LoopMessage>,
    ) {
        let ServedRequest { ask, id, mut timeline, mut facts, flight, arrival } = served;
        let recorder = turn.recorder();
        recorder.take_back(&timeline, flight);
        arrival.add_to(&mut timeline);
        timeline.stamp(Stamp::Executed);
        let answered = callers.reply(ask, |reply| {
            let result = match arrival.result {
                Ok(AskResult::Object(Some(_)) | AskResult::Page(..)) if reply.is_full => {
                    let what = "too many bytes wait for the network: ask again in a moment";
                    Err(StoreError::Busy(what.to_owned()))
                }
                result => result,
            };
            answer(self.parts, reply, recorder, id, &mut timeline, facts, result);
        });
        if answered.is_none() {
            facts.outcome = Outcome::ClientGone as u8;
            recorder.record(&timeline, facts);
        }
    }
}

fn operation_of(kind: AskKind) -> Operation {
    match kind {
        AskKind::Get => Operation::PeerGet,
        AskKind::Head => Operation::PeerHead,
        AskKind::Put => Operation::PeerPut,
        AskKind::Delete => Operation::PeerDelete,
        AskKind::Batch | AskKind::Write => Operation::PeerBatch,
        AskKind::Range | AskKind::Ping => Operation::PeerRange,
    }
}

/// Returns true if the asker has stopped waiting: the ask must not be executed then, because the
/// client is told that it failed. An asker that sends no `wait_ms` (zero) waits without a limit.
fn is_late(waited_ns: u64, wait_ms: u32) -> bool {
    wait_ms > 0 && waited_ns > u64::from(wait_ms) * 1_000_000
}

fn late(cluster: &Cluster, wait_ms: u32) -> AskResult {
    let own = cluster.url(cluster.own());
    let what = format!(
        "the key's owner {own} came to this after more than the {wait_ms} ms that were given: it \
         has not happened"
    );
    AskResult::Refused(AnswerStatus::Late, what)
}

/// Executes an ask if this node owns the key; an ask is never forwarded again.
fn execute(
    entities: &EntityApi,
    cluster: &Cluster,
    ask: &Ask<'_>,
    reply: &Reply<'_, PendingRecord>,
    timeline: &mut Timeline,
) -> StoreAnswer<AskResult> {
    let now = |found: AskResult| StoreAnswer::Now(Ok(found));
    if reply.is_full {
        let what = "too many asks wait for the medium".to_owned();
        return StoreAnswer::Now(Err(StoreError::Busy(what)));
    }
    let is_keyed = !matches!(ask.kind, AskKind::Batch | AskKind::Write | AskKind::Range);
    if is_keyed && !is_own(cluster, ask.owned_by()) {
        return now(not_owner(cluster, ask.owned_by()));
    }
    let store = &entities.store;
    let table = match ask.table {
        None => entities.tables.usual(),
        Some(table) => match store.table(table.name) {
            Ok(table) => table,
            Err(error) => return StoreAnswer::Now(Err(error)),
        },
    };
    match ask.kind {
        AskKind::Get => store.get(table, ask.key, timeline).map(AskResult::Object),
        AskKind::Head => store.head(table, ask.key, timeline).map(AskResult::Head),
        AskKind::Put | AskKind::Delete => {
            let operation = StoreOperation {
                key: ask.key,
                value: (ask.kind == AskKind::Put).then_some(ask.value),
                condition: ask.condition,
                lifetime_ms: ask.lifetime_ms,
            };
            write(entities, table, &[operation], ask, timeline)
        }
        AskKind::Batch => {
            let entries = match batch::parse(ask.value) {
                Ok(entries) => entries,
                Err(what) => return now(AskResult::Refused(AnswerStatus::Unacceptable, what)),
            };
            let operations: Vec<_> = entries.iter().map(batch::Entry::operation).collect();
            let strange = operations.iter().find(|o| !is_own(cluster, Some(o.key)));
            if let Some(strange) = strange {
                return now(not_owner(cluster, Some(strange.key)));
            }
            write(entities, table, &operations, ask, timeline)
        }
        AskKind::Write => {
            let parts = match PartOperation::decode_all(ask.value) {
                Ok(parts) => parts,
                Err(error) => {
                    return now(AskResult::Refused(AnswerStatus::Unacceptable, error.to_string()));
                }
            };
            let strange = parts.iter().find(|part| !is_own(cluster, part.owned_by()));
            if let Some(strange) = strange {
                return now(not_owner(cluster, strange.owned_by()));
            }
            let operations: Vec<_> = parts.iter().map(|part| part.operation).collect();
            write(entities, table, &operations, ask, timeline)
        }
        AskKind::Range | AskKind::Ping => {
            let (clock, received, wait_ms) = (timeline.clock(), reply.received, ask.wait_ms);
            let late = late(cluster, wait_ms);
            page_by_worker(store, table, ask, clock, move |started| {
                let waited_ns = clock.nanoseconds(started.since(received));
                is_late(waited_ns, wait_ms).then_some(late)
            })
        }
    }
}

/// Writes the operations of an ask. If another thread may have to do it, the memory of its copy of
/// a large value counts until then.
fn write(
    entities: &EntityApi,
    table: Table,
    operations: &[StoreOperation<'_>],
    ask: &Ask<'_>,
    timeline: &mut Timeline,
) -> StoreAnswer<AskResult> {
    let memory = match entities.memory_of_forwarded(operations, ask.value.len()) {
        Ok(memory) => memory,
        Err(error) => return StoreAnswer::Now(Err(error)),
    };
    entities.store.write(table, operations, ask.acknowledgement, timeline).map(move |written| {
        let _memory = memory;
        AskResult::Written(written)
    })
}

/// Returns true if this node owns the keys with these bytes. `owned_by` is the part of a key that
/// decides about its owner; `None` if the ask was malformed.
fn is_own(cluster: &Cluster, owned_by: Option<&[u8]>) -> bool {
    owned_by.is_some_and(|bytes| cluster.owner(bytes) == cluster.own())
}

fn not_owner(cluster: &Cluster, owned_by: Option<&[u8]>) -> AskResult {
    let Some(owned_by) = owned_by else {
        let what = "a part that is longer than its key".to_owned();
        return AskResult::Refused(AnswerStatus::Unacceptable, what);
    };
    let (own, owner) = (cluster.url(cluster.own()), cluster.url(cluster.owner(owned_by)));
    let what = format!("{own} was asked for a key of {owner} as if it were its own");
    AskResult::Refused(AnswerStatus::NotOwner, what)
}

/// Reads one page of a range of this node's entries on a worker, because that may take long or wait
/// for the disk. `late` gives the result instead if the asker no longer waits when the read starts.
fn page_by_worker(
    store: &Arc<dyn Store>,
    table: Table,
    ask: &Ask<'_>,
    clock: Clock,
    late: impl FnOnce(Ticks) -> Option<AskResult> + Send + 'static,
) -> StoreAnswer<AskResult> {
    let Some(workers) = store.workers() else {
        return StoreAnswer::Now(page(&**store, table, ask.key, ask.value));
    };
    let Some(place) = workers.reserve() else {
        let what = "too many ranges are read: try again in a moment".to_owned();
        return StoreAnswer::Now(Err(StoreError::Busy(what)));
    };
    let (store, key, value) = (Arc::clone(store), ask.key.to_vec(), ask.value.to_vec());
    StoreAnswer::Later(DeferredAnswer::new(move |callback| {
        place.run(move || {
            let started = clock.now();
            let result = late(started).map_or_else(|| page(&*store, table, &key, &value), Ok);
            let arrival = DeliveredAnswer::new(result, Vec::new());
            callback(DeliveredAnswer { started: Some(started), ..arrival });
        });
    }))
}

/// Reads the page of a range of this node's entries that an ask with this key and value asks for.
pub(super) fn page(
    store: &dyn Store,
    table: Table,
    key: &[u8],
    value: &[u8],
) -> StoreResult<AskResult> {
    let range = match RangeAsk::decode(value) {
        Ok(range) => range,
        Err(error) => return Ok(AskResult::Refused(AnswerStatus::Unacceptable, error.to_string())),
    };
    let RangeAsk { reverse, behind, end, entries_max, first } = range;
    // The next page lies behind the last key that the asker has. Forwards it starts with that key,
    // which is then skipped; backwards it ends before it.
    let (start, end) = if reverse && behind { (first, Some(key)) } else { (key, end) };
    let mut scan = store.scan(table, Range { start, end, reverse })?;
    let (mut bytes, mut entries) = (Vec::new(), 0);
    let mut skipped = (behind && !reverse).then_some(key);
    while entries < entries_max && bytes.len() < PAGE_BYTES {
        let Some((key, object)) = scan.next()? else { return Ok(AskResult::Page(bytes, true)) };
        if skipped.take() == Some(key) {
            continue;
        }
        let Head { sequence, written_at_ms, .. } = object.head;
        let at = bytes.len();
        object.value.read(|value| {
            let expires_at_ms = 0;
            PageEntry { sequence, written_at_ms, expires_at_ms, key, value }.encode(&mut bytes);
        })?;
        if let Some(expires_at_ms) = scan.expires_at_ms() {
            PageEntry::set_expires_at_ms(&mut bytes[at..], expires_at_ms);
        }
        entries += 1;
    }
    Ok(AskResult::Page(bytes, entries >= entries_max))
}

/// Sends the answer to an ask and seals its record. Returns a clock reading from the end.
fn answer(
    parts: OwnerParts,
    reply: &mut Reply<'_, PendingRecord>,
    recorder: &Recorder,
    id: u64,
    timeline: &mut Timeline,
    mut facts: RequestFacts,
    result: StoreResult<AskResult>,
) -> Ticks {
    let mut page = Vec::new();
    let (mut text, mut object) = (String::new(), None);
    let mut answer = Answer::plain(id, AnswerStatus::Missing);
    let of_head = |answer: &mut Answer<'_>, head: Head| {
        answer.status = AnswerStatus::Found;
        (answer.sequence, answer.written_at_ms) = (head.sequence, head.written_at_ms);
        answer.value_length = head.value_length;
    };
    match result {
        Ok(AskResult::Object(found)) => {
            if let Some(found) = &found {
                of_head(&mut answer, found.head);
            }
            object = found;
        }
        Ok(AskResult::Head(Some(head))) => of_head(&mut answer, head),
        Ok(AskResult::Head(None)) => {}
        Ok(AskResult::Written(written)) => {
            (answer.status, answer.sequence) = (AnswerStatus::Written, written.sequence);
        }
        Ok(AskResult::Page(bytes, is_last)) => {
            (answer.status, answer.detail) = (AnswerStatus::Page, u32::from(is_last));
            page = bytes;
        }
        Ok(AskResult::Refused(status, what)) => (answer.status, text) = (status, what),
        Err(error) => {
            (answer.status, text) = (status_of(&error), error.to_string());
            if let StoreError::ConditionFailed { index, current } = error {
                answer.detail = u32::try_from(index).unwrap_or(u32::MAX);
                answer.sequence = current.unwrap_or(0);
            }
        }
    }
    answer.times = times_of(timeline, parts);
    let mut send = |payload: &[u8]| {
        let clock = timeline.clock();
        let executed = timeline.taken(Stamp::Executed).unwrap_or_else(|| clock.now());
        facts.status = http_status_of(answer.status);
        facts.outcome = Outcome::of_status(facts.status) as u8;
        let length = ANSWER_BYTES + payload.len();
        facts.response_bytes = u32::try_from(length).unwrap_or(u32::MAX);
        let encoded = clock.now();
        timeline.stamp_at(Stamp::Encoded, encoded);
        let record = recorder.seal(timeline, facts);
        reply.answer(&Answer { payload, ..answer }, executed, record);
        encoded
    };
    let sent = match &object {
        Some(object) => object.value.read(send),
        None if page.is_empty() => Ok(send(text.as_bytes())),
        None => Ok(send(&page)),
    };
    sent.unwrap_or_else(|error| {
        reply.take_back();
        self::answer(parts, reply, recorder, id, timeline, facts, Err(error))
    })
}

/// The times of the owner that are sent to the asker.
fn times_of(timeline: &Timeline, parts: OwnerParts) -> OwnerTimes {
    if !timeline.is_on() {
        return OwnerTimes::default();
    }
    let clock = timeline.clock();
    let ns = |ticks: u64| clipped_ns(clock.nanoseconds(ticks));
    let mut times = OwnerTimes {
        receive_ns: ns(timeline.phase_ticks(Phase::Receive)),
        queue_ns: ns(timeline.between(Stamp::Received, Stamp::Started)),
        execute_ns: ns(timeline.phase_ticks(Phase::Execute)),
        ..OwnerTimes::default()
    };
    for slot in 0..PARTS_MAX {
        let ticks = timeline.part_ticks(Part::new(slot as u8));
        if let Some(told) = parts.slot(slot)
            && ticks > 0
        {
            let part = &mut times.parts_ns[told];
            *part = part.saturating_add(ns(ticks));
        }
    }
    times
}

fn status_of(error: &StoreError) -> AnswerStatus {
    match error {
        StoreError::Unacceptable(_) => AnswerStatus::Unacceptable,
        StoreError::ConditionFailed { .. } => AnswerStatus::ConditionFailed,
        StoreError::Full(_) => AnswerStatus::Full,
        StoreError::Corruption(_) => AnswerStatus::Corruption,
        StoreError::ReadOnly(_) => AnswerStatus::ReadOnly,
        StoreError::Busy(_) => AnswerStatus::Busy,
        // `Unreachable` and `ChangesLost` cannot happen here: a node of a cluster keeps its keys
        // itself, and peers do not ask for changes.
        StoreError::Unreachable(_)
        | StoreError::ChangesLost { .. }
        | StoreError::NotInMemory
        | StoreError::Failed(_) => AnswerStatus::Failed,
    }
}

/// The HTTP status under which the account records such an answer.
fn http_status_of(status: AnswerStatus) -> u16 {
    match status {
        AnswerStatus::Found | AnswerStatus::Page => 200,
        AnswerStatus::Written => 201,
        AnswerStatus::Missing => 404,
        AnswerStatus::ConditionFailed => 412,
        AnswerStatus::Unacceptable | AnswerStatus::NotOwner => 400,
        AnswerStatus::Full => 507,
        AnswerStatus::ReadOnly | AnswerStatus::Busy => 503,
        AnswerStatus::Late => 504,
        AnswerStatus::Corruption | AnswerStatus::Failed => 500,
    }
}

#[cfg(test)]
mod tests {
    use pellucid_embedded::{EmbeddedOptions, EmbeddedStore};

    use super::*;

    #[test]
    fn an_ask_is_late_after_its_wait_and_never_without_one() {
        assert!(!is_late(1_000_000, 1) && is_late(1_000_001, 1));
        assert!(!is_late(u64::MAX, 0) && !is_late(u64::MAX >> 20, u32::MAX));
    }

    /// Regression: a page was read for an asker that had given up while the ask was queued.
    #[test]
    fn no_page_is_read_for_an_asker_that_has_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let table = store.table("entities").unwrap();
        let mut value = Vec::new();
        let (end, first) = (None, &b""[..]);
        RangeAsk { reverse: false, behind: false, end, entries_max: 1, first }.encode(&mut value);
        let ask = Ask { value: &value, ..Ask::plain(AskKind::Range) };
        for is_late in [false, true] {
            let refusal = || AskResult::Refused(AnswerStatus::Late, String::new());
            let late = move |_| is_late.then(refusal);
            let result = page_by_worker(&store, table, &ask, Clock::monotonic(), late).wait();
            assert_eq!(matches!(result, Ok(AskResult::Page(..))), !is_late);
            assert_eq!(matches!(result, Ok(AskResult::Refused(..))), is_late);
        }
    }

    /// Parts of another engine are sent as their equivalents, and unknown parts as the rest.
    #[test]
    fn times_are_translated_by_the_names_of_the_parts() {
        let clock = pellucid_clock::Clock::monotonic();
        let mut timeline = Timeline::begin(clock, clock.now());
        let names = [
            "write_ahead_log", "files", "odd", "ledger", "stall", "sync", "memtable", "block_read",
        ];
        for slot in 0..PARTS_MAX {
            timeline.add_part(Part::new(slot as u8), clock.ticks(1_000 << slot), clock.now());
        }
        let times = times_of(&timeline, OwnerParts::of(&names));
        let near = |slot: usize, ns: u32| times.parts_ns[slot].abs_diff(ns) < 100;
        // `files` is an equivalent of `ledger`, so both are sent as one.
        assert!(near(2, (1_000 << 1) + (1_000 << 3)) && near(4, 1_000), "{times:?}");
        assert!(near(0, 1_000 << 4) && near(7, 1_000 << 5) && near(5, 1_000 << 6), "{times:?}");
        assert!(near(3, 1_000 << 7) && near(1, 0) && near(6, 0), "{times:?}");
    }
}

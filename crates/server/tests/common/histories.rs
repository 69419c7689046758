//! Histories of concurrent clients, and a check that they are linearizable: every operation seems
//! to take effect at one moment between its call and its answer (Herlihy and Wing,
//! "Linearizability", 1990; the search is that of Wing and Gong, 1993). An operation on several
//! keys does so for all of them at the same moment.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pellucid_io::{Random, SeededRandom};
use serde_json::json;

use super::{Answer, Client, entity, wait_for};

/// Number of keys of one history: few, so that clients conflict.
const KEYS: usize = 4;
/// The most events of one history, the size of a [`Set`].
const EVENTS_MAX: usize = 384;

/// The value of a key, as a number; `None` if the key does not exist.
pub(crate) type Value = Option<u64>;
/// The values of all keys.
type Values = [Value; KEYS];

/// The effect of an operation on one key, with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Effect {
    Read(Value),
    Write(Value),
    /// A write under the condition that the value is `from`.
    Swap {
        from: Value,
        to: Value,
        is_done: bool,
    },
}

impl Effect {
    /// The value after this effect on `value`, or `None` if its answer does not fit `value`.
    fn after(self, value: Value) -> Option<Value> {
        match self {
            Effect::Read(read) => (read == value).then_some(value),
            Effect::Write(written) => Some(written),
            Effect::Swap { from, to, is_done: true } => (from == value).then_some(to),
            Effect::Swap { from, is_done: false, .. } => (from != value).then_some(value),
        }
    }

    /// The value that the operation read, or that its condition names.
    fn seen(self) -> Value {
        match self {
            Effect::Read(value) | Effect::Swap { from: value, .. } => value,
            Effect::Write(_) => None,
        }
    }

    /// This effect with `change` applied to the value that it writes.
    fn writing(self, change: impl Fn(Value) -> Value) -> Effect {
        match self {
            Effect::Read(_) => self,
            Effect::Write(written) => Effect::Write(change(written)),
            Effect::Swap { from, to, is_done } => Effect::Swap { from, to: change(to), is_done },
        }
    }
}

/// An operation on one or several keys, with the times of its call and answer.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    called: u64,
    /// `None` if it is unknown whether and when the operation took effect.
    answered: Option<u64>,
    effects: Vec<(usize, Effect)>,
}

impl Event {
    pub(crate) fn new(called: u64, answered: Option<u64>, effects: &[(usize, Effect)]) -> Event {
        Event { called, answered, effects: effects.to_vec() }
    }

    fn after(&self, values: &Values) -> Option<Values> {
        let mut next = *values;
        for (key, effect) in &self.effects {
            next[*key] = effect.after(values[*key])?;
        }
        Some(next)
    }

    /// The part of this event on one key.
    fn on(&self, key: usize) -> Option<Event> {
        let effects = self.effects.iter().filter(|(other, _)| *other == key);
        let part = Event { effects: effects.copied().collect(), ..*self };
        (!part.effects.is_empty()).then_some(part)
    }
}

/// A set of events, by their indexes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Set([u64; EVENTS_MAX / 64]);

impl Set {
    fn with(mut self, index: usize) -> Set {
        self.0[index / 64] |= 1 << (index % 64);
        self
    }

    fn has(&self, index: usize) -> bool {
        self.0[index / 64] & 1 << (index % 64) != 0
    }

    fn has_all(&self, others: &Set) -> bool {
        std::iter::zip(self.0, others.0).all(|(own, other)| own & other == other)
    }
}

/// The representative of all values that no operation read: these are interchangeable.
const UNSEEN: u64 = u64::MAX;

/// The events, with all values that no operation read replaced by [`UNSEEN`].
fn without_unseen_values(events: &[Event]) -> Vec<Event> {
    let effects = || events.iter().flat_map(|event| &event.effects);
    let seen: HashSet<Value> = effects().map(|(_, effect)| effect.seen()).collect();
    let change = |value: Value| value.map(|_| if seen.contains(&value) { value } else { None });
    let change = |value: Value| change(value).map(|seen| seen.unwrap_or(UNSEEN));
    let changed = |event: &Event| {
        let effects = event.effects.iter().map(|(key, effect)| (*key, effect.writing(change)));
        Event { effects: effects.collect(), ..*event }
    };
    events.iter().map(changed).collect()
}

/// For each event without an answer, the last earlier call with the same effect. Two such events
/// may take effect at any later time, so the search need only try the earlier one first.
fn alike_before(events: &[Event]) -> Vec<Option<usize>> {
    let mut unanswered: Vec<usize> =
        (0..events.len()).filter(|index| events[*index].answered.is_none()).collect();
    unanswered.sort_by_key(|index| events[*index].called);
    let (mut last, mut before) = (HashMap::new(), vec![None; events.len()]);
    for index in unanswered {
        before[index] = last.insert(&events[index].effects, index);
    }
    before
}

/// True if there is an order of the events that fits their times and their answers. At first no key
/// exists.
pub(crate) fn is_linearizable(events: &[Event]) -> bool {
    assert!(events.len() <= EVENTS_MAX, "{} events", events.len());
    let events = &without_unseen_values(events);
    let alike_before = alike_before(events);
    let answered = (0..events.len()).filter(|index| events[*index].answered.is_some());
    let wanted = answered.fold(Set::default(), Set::with);
    let mut seen = HashSet::new();
    let mut open = vec![State::default()];
    while let Some(state) = open.pop() {
        let State { done, values, .. } = state;
        if done.has_all(&wanted) {
            return true;
        }
        if !seen.insert(state) {
            continue;
        }
        let left = || (0..events.len()).filter(|index| !done.has(*index));
        let is_next = |index: &usize| alike_before[*index].is_none_or(|other| done.has(other));
        // An event that was called after another one's answer comes after it.
        let first_answer = left().filter_map(|index| events[index].answered).min();
        let may_be_next = left().filter(is_next).filter(|index| {
            first_answer.is_none_or(|answer| events[*index].called < answer)
                && state.needs_its_last(*index, events)
        });
        // Events that have to take effect are tried first, so they are pushed last.
        let (unknown, known) =
            may_be_next.partition::<Vec<_>, _>(|index| events[*index].answered.is_none());
        for index in unknown.into_iter().chain(known) {
            if let Some(next) = events[index].after(&values) {
                let is_unknown = events[index].answered.is_none();
                let unknown = is_unknown.then_some((index, values));
                open.push(State { done: done.with(index), values: next, unknown });
            }
        }
    }
    false
}

/// A state of the search: the events that have taken effect so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct State {
    done: Set,
    values: Values,
    /// The last of these events, if it has no answer, and the values before it.
    unknown: Option<(usize, Values)>,
}

impl State {
    /// True unless the last event, which has no answer, can be left out before the event `index`,
    /// or come after it, with the same result. It may take effect at any later time, so the search
    /// tries those orders anyway.
    fn needs_its_last(&self, index: usize, events: &[Event]) -> bool {
        let Some((last, before)) = self.unknown else { return true };
        let event = &events[index];
        let (Some(with), Some(without)) = (event.after(&self.values), event.after(&before)) else {
            return true;
        };
        // Two events without answers that may be swapped are tried only in the list's order.
        let may_change = event.answered.is_some() || index < last;
        with != without && !(may_change && events[last].after(&without) == Some(with))
    }
}

/// The kinds of operations that clients make.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperationMix {
    /// Operations on one key.
    Single,
    /// Operations on one key, batches, ranges and reads of several keys.
    Several,
}

/// The events of all clients, and their common clock.
#[derive(Default)]
pub(crate) struct History {
    clock: AtomicU64,
    values: AtomicU64,
    events: Mutex<Vec<Event>>,
}

/// A client, with the last value that it read of each key, and that value's ETag.
struct HistoryClient<'a> {
    history: &'a History,
    prefix: &'a str,
    known: BTreeMap<usize, (u64, String)>,
}

impl History {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Makes `count` operations as one client, on keys that begin with `prefix`. If the connection
    /// ends, `connect` makes a new one, within `PATIENCE`.
    pub(crate) fn play(
        &self,
        (prefix, mix): (&str, OperationMix),
        count: u64,
        seed: u64,
        connect: impl Fn() -> Option<Client>,
    ) {
        let mut random = SeededRandom::new(seed);
        let mut client = None;
        let mut player = HistoryClient { history: self, prefix, known: BTreeMap::new() };
        for _ in 0..count {
            let mut connection = wait_for(|| client.take().or_else(&connect).ok_or("no server"));
            let key = random.next_u64() as usize % KEYS;
            let kind = random.next_u64() % if mix == OperationMix::Several { 12 } else { 8 };
            let is_there = match kind {
                0..6 => player.operate(&mut connection, key, kind),
                6 | 7 => player.swap(&mut connection, key),
                8 | 9 => player.write_batch(&mut connection, key),
                10 => player.read_several(&mut connection),
                _ => player.read_range(&mut connection),
            };
            client = is_there.then_some(connection);
        }
    }

    fn note(&self, called: u64, is_known: bool, effects: &[(usize, Effect)]) {
        let answered = is_known.then(|| self.now());
        self.events.lock().unwrap().push(Event::new(called, answered, effects));
    }

    /// The number of events so far.
    pub(crate) fn len(&self) -> usize {
        self.events.lock().unwrap().len()
    }

    /// Checks all keys together if some operations are on several keys and all outcomes are known,
    /// and otherwise each key separately. Returns the number of events, and the number of those
    /// with an unknown outcome.
    pub(crate) fn check(&self, name: &str) -> (usize, usize) {
        let events = self.events.lock().unwrap();
        let unknown = events.iter().filter(|event| event.answered.is_none()).count();
        let is_about_several = events.iter().any(|event| event.effects.len() > 1);
        // With unknown outcomes, all keys together have too many possible orders.
        if is_about_several && unknown == 0 {
            assert!(is_linearizable(&events), "{name}: no order of all: {events:#?}");
        }
        for key in 0..KEYS {
            let events: Vec<_> = events.iter().filter_map(|event| event.on(key)).collect();
            assert!(is_linearizable(&events), "{name}: key {key} is no register: {events:#?}");
        }
        (events.len(), unknown)
    }
}

/// The outcome of a write: `true` if done, `false` if its condition failed, `None` if unknown.
fn outcome(answer: &Answer) -> Option<bool> {
    match answer.status {
        200..=202 => Some(true),
        412 => Some(false),
        status => {
            assert!(status >= 500, "{}", answer.text());
            None
        }
    }
}

/// The operations. Each returns whether the connection still works.
impl HistoryClient<'_> {
    fn key(&self, key: usize) -> String {
        format!("{}{key}", self.prefix)
    }

    fn fresh(&self) -> u64 {
        self.history.values.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn operate(&mut self, client: &mut Client, key: usize, kind: u64) -> bool {
        let (target, fresh, called) = (entity(self.key(key)), self.fresh(), self.history.now());
        let body = fresh.to_string();
        let mut call = |method, headers: &[_], body: &str| {
            client.try_call(method, &target, headers, body.as_bytes()).ok()
        };
        let answer = match kind {
            0 => call("DELETE", &[], ""),
            1 => call("PUT", &[("If-None-Match", "*")], &body),
            2 | 3 => call("PUT", &[], &body),
            _ => call("GET", &[], ""),
        };
        let done = answer.as_ref().filter(|_| kind < 4).and_then(outcome);
        let effect = match kind {
            0 => Effect::Write(None),
            1 => Effect::Swap { from: None, to: Some(fresh), is_done: done.unwrap_or(true) },
            2 | 3 => Effect::Write(Some(fresh)),
            _ => {
                let Some(read) = answer.as_ref().filter(|read| [200, 404].contains(&read.status))
                else {
                    return answer.is_some();
                };
                let value = (read.status == 200).then(|| read.text().parse().unwrap());
                match value {
                    Some(value) => drop(self.known.insert(key, (value, read.etag()))),
                    None => drop(self.known.remove(&key)),
                }
                self.history.note(called, true, &[(key, Effect::Read(value))]);
                return true;
            }
        };
        self.history.note(called, done.is_some(), &[(key, effect)]);
        answer.is_some()
    }

    /// Writes a key on condition that it has the value that was read last.
    fn swap(&mut self, client: &mut Client, key: usize) -> bool {
        let Some((from, etag)) = self.known.get(&key) else {
            return self.operate(client, key, 7);
        };
        let (target, fresh, called) = (entity(self.key(key)), self.fresh(), self.history.now());
        let body = fresh.to_string();
        let answer = client.try_call("PUT", &target, &[("If-Match", etag)], body.as_bytes()).ok();
        let done = answer.as_ref().and_then(outcome);
        let (from, to, is_done) = (Some(*from), Some(fresh), done.unwrap_or(true));
        self.history.note(called, done.is_some(), &[(key, Effect::Swap { from, to, is_done })]);
        answer.is_some()
    }

    /// Writes all keys in a batch, on condition that `key` has the value that was read last.
    fn write_batch(&mut self, client: &mut Client, key: usize) -> bool {
        let known = self.known.get(&key);
        let (mut lines, mut effects) = (String::new(), Vec::new());
        for other in 0..KEYS {
            let (fresh, name) = (self.fresh(), STANDARD.encode(self.key(other)));
            let value = STANDARD.encode(fresh.to_string());
            let mut line = json!({ "op": "put", "key": name, "value": value });
            let mut effect = Effect::Write(Some(fresh));
            match known {
                Some((from, etag)) if other == key => {
                    line["if_match"] = etag.clone().into();
                    effect = Effect::Swap { from: Some(*from), to: Some(fresh), is_done: true };
                }
                _ if fresh.is_multiple_of(5) => {
                    line = json!({ "op": "delete", "key": name });
                    effect = Effect::Write(None);
                }
                _ => {}
            }
            lines += &format!("{line}\n");
            effects.push((other, effect));
        }
        let called = self.history.now();
        let answer = client.try_call("POST", "/v0/batch", &[], lines.as_bytes()).ok();
        let done = answer.as_ref().and_then(outcome);
        if done == Some(false) {
            // Nothing was written, because the condition failed.
            effects.retain(|(other, _)| *other == key);
            if let [(_, Effect::Swap { is_done, .. })] = &mut effects[..] {
                *is_done = false;
            }
        }
        self.history.note(called, done.is_some(), &effects);
        answer.is_some()
    }

    fn read_several(&self, client: &mut Client) -> bool {
        let line = |key| format!("{}\n", json!({ "key": STANDARD.encode(self.key(key)) }));
        let keys: String = (0..KEYS).map(line).collect();
        let called = self.history.now();
        let answer = client.try_call("POST", "/v0/entities/get", &[], keys.as_bytes()).ok();
        self.note_lines(called, answer)
    }

    fn read_range(&self, client: &mut Client) -> bool {
        let name = |key: &str| entity(format!("{}{key}", self.prefix)).replacen("id=", "start=", 1);
        let target = name("").replacen("/v0/entity?", "/v0/entities?", 1);
        let end = name("~").split_once("start=").map(|(_, end)| end.to_owned()).unwrap();
        let called = self.history.now();
        let accept = [("Accept", "application/x-ndjson")];
        let answer = client.try_call("GET", &format!("{target}&end={end}"), &accept, b"").ok();
        self.note_lines(called, answer)
    }

    /// Notes a read of all keys: a key without a line does not exist.
    fn note_lines(&self, called: u64, answer: Option<Answer>) -> bool {
        let Some(answer) = answer else { return false };
        if answer.status != 200 {
            assert_eq!(answer.status, 503, "{}", answer.text());
            return true;
        }
        let mut effects: Vec<_> = (0..KEYS).map(|key| (key, Effect::Read(None))).collect();
        for line in answer.text().lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| {
                let bytes = STANDARD.decode(line[name].as_str()?).unwrap();
                Some(String::from_utf8(bytes).unwrap())
            };
            let key = (0..KEYS).find(|key| text("key") == Some(self.key(*key))).unwrap();
            effects[key].1 = Effect::Read(text("value").map(|value| value.parse().unwrap()));
        }
        self.history.note(called, true, &effects);
        true
    }
}

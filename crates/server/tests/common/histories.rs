//! Histories of concurrent clients, and the check that the keys behave as registers: every
//! operation seems to take effect at one moment between its call and its answer (Herlihy and Wing,
//! "Linearizability", 1990; the search is that of Wing and Gong, 1993). One that is about several
//! keys does so for all of them at the same moment.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pellucid_io::{Random, SeededRandom};
use serde_json::json;

use super::{Answer, Client, entity};

/// Keys of one history: few, so that clients meet.
const KEYS: usize = 4;
/// Events of one history at most: a set of them is some numbers.
const EVENTS_MAX: usize = 384;

/// The value of a key, by its number; nothing where there is none.
pub(crate) type Value = Option<u64>;
/// The values of all keys.
type Values = [Value; KEYS];

/// An operation on one key, with its answer.
#[derive(Clone, Copy, Debug)]
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
    /// The value behind it, where the one before it allows for its answer.
    fn after(self, value: Value) -> Option<Value> {
        match self {
            Effect::Read(read) => (read == value).then_some(value),
            Effect::Write(written) => Some(written),
            Effect::Swap { from, to, is_done: true } => (from == value).then_some(to),
            Effect::Swap { from, is_done: false, .. } => (from != value).then_some(value),
        }
    }
}

/// An operation in time, on one key or several.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    called: u64,
    /// Nothing if nobody knows whether and when it took effect.
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

    /// The part of it on one key.
    fn on(&self, key: usize) -> Option<Event> {
        let effects = self.effects.iter().filter(|(other, _)| *other == key);
        let part = Event { effects: effects.copied().collect(), ..*self };
        (!part.effects.is_empty()).then_some(part)
    }
}

/// A set of events.
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

/// True if there is an order of the events that fits their times and their answers. No key is there
/// at first.
pub(crate) fn is_linearizable(events: &[Event]) -> bool {
    assert!(events.len() <= EVENTS_MAX, "{} events", events.len());
    let answered = (0..events.len()).filter(|index| events[*index].answered.is_some());
    let wanted = answered.fold(Set::default(), Set::with);
    let mut seen = HashSet::new();
    let mut open = vec![(Set::default(), Values::default())];
    while let Some((done, values)) = open.pop() {
        if done.has_all(&wanted) {
            return true;
        }
        if !seen.insert((done, values)) {
            continue;
        }
        let left = || (0..events.len()).filter(|index| !done.has(*index));
        // What was called after another one's answer comes after it.
        let first_answer = left().filter_map(|index| events[index].answered).min();
        for index in left() {
            let event = &events[index];
            if first_answer.is_none_or(|answer| event.called < answer)
                && let Some(next) = event.after(&values)
            {
                open.push((done.with(index), next));
            }
        }
    }
    false
}

/// The operations that clients make.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mix {
    /// On one key each.
    Single,
    /// Also batches, ranges and reads of several keys.
    Several,
}

/// The clients' common clock, and the events.
#[derive(Default)]
pub(crate) struct History {
    clock: AtomicU64,
    values: AtomicU64,
    events: Mutex<Vec<Event>>,
}

/// A client, with the value that it read last of each key, and its ETag.
struct Player<'a> {
    history: &'a History,
    prefix: &'a str,
    known: BTreeMap<usize, (u64, String)>,
}

impl History {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Has one client make `count` operations on keys that begin with `prefix`. A connection that
    /// ends is made anew by `connect`, as long as that takes.
    pub(crate) fn play(
        &self,
        (prefix, mix): (&str, Mix),
        count: u64,
        seed: u64,
        connect: impl Fn() -> Option<Client>,
    ) {
        let mut random = SeededRandom::new(seed);
        let mut client = None;
        let mut player = Player { history: self, prefix, known: BTreeMap::new() };
        for _ in 0..count {
            let mut connection = loop {
                match client.take().or_else(&connect) {
                    Some(connection) => break connection,
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            };
            let key = random.next_u64() as usize % KEYS;
            let kind = random.next_u64() % if mix == Mix::Several { 12 } else { 8 };
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

    /// Checks all keys together, if operations were about several and the outcome of each is known,
    /// and otherwise each key. Returns the number of events, and of those with an unknown outcome.
    pub(crate) fn check(&self, name: &str) -> (usize, usize) {
        let events = self.events.lock().unwrap();
        let unknown = events.iter().filter(|event| event.answered.is_none()).count();
        let is_about_several = events.iter().any(|event| event.effects.len() > 1);
        // Each event of which nobody knows whether it took effect doubles the orders there are.
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

/// The answer to a write: done, refused by its condition, or unknown.
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

/// Each makes an operation, and says whether the connection is still there.
impl Player<'_> {
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

    /// Writes a key if it has the value that was read last.
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

    /// Writes all keys; `key`, of which a value was read, if it has that value.
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
            // Then nothing is written, and the condition did not hold.
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

    /// Notes the values of all keys, of which those are there that have a value in a line.
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

//! Histories of concurrent clients, and the check that each key behaves as one register: every
//! operation seems to take effect at one moment between its call and its answer (Herlihy and Wing,
//! "Linearizability", 1990; the search is that of Wing and Gong, 1993).

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pellucid_io::{Random, SeededRandom};

use super::{Client, entity};

/// Keys of one history: few, so that clients meet.
const KEYS: u64 = 4;
/// Events of one key at most: a set of them is one number.
const EVENTS_MAX: usize = 128;

/// The value of a key, by its number; nothing where there is none.
pub(crate) type Value = Option<u64>;

/// An operation with its answer.
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

/// An operation in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    called: u64,
    /// Nothing if nobody knows whether and when it took effect.
    answered: Option<u64>,
    effect: Effect,
}

impl Event {
    pub(crate) fn new(called: u64, answered: Option<u64>, effect: Effect) -> Event {
        Event { called, answered, effect }
    }
}

/// True if there is an order of the events of one key, which is not there at first, that fits their
/// times and their answers.
pub(crate) fn is_linearizable(events: &[Event]) -> bool {
    assert!(events.len() <= EVENTS_MAX, "{} events", events.len());
    let answered = (0..events.len()).filter(|index| events[*index].answered.is_some());
    let wanted = answered.fold(0_u128, |set, index| set | 1 << index);
    let mut seen = HashSet::new();
    let mut open = vec![(0_u128, None)];
    while let Some((done, value)) = open.pop() {
        if done & wanted == wanted {
            return true;
        }
        if !seen.insert((done, value)) {
            continue;
        }
        let left = || (0..events.len()).filter(|index| done & (1 << index) == 0);
        // What was called after another one's answer comes after it.
        let first_answer = left().filter_map(|index| events[index].answered).min();
        for index in left() {
            let event = &events[index];
            if first_answer.is_none_or(|answer| event.called < answer)
                && let Some(next) = event.effect.after(value)
            {
                open.push((done | 1 << index, next));
            }
        }
    }
    false
}

/// The clients' common clock, and the events of each key.
#[derive(Default)]
pub(crate) struct History {
    clock: AtomicU64,
    values: AtomicU64,
    events: Mutex<BTreeMap<u64, Vec<Event>>>,
}

impl History {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Has one client make `count` operations on keys that begin with `prefix`. A connection that
    /// ends is made anew by `connect`, as long as that takes.
    pub(crate) fn play(
        &self,
        prefix: &str,
        count: u64,
        seed: u64,
        connect: impl Fn() -> Option<Client>,
    ) {
        let mut random = SeededRandom::new(seed);
        let mut client = None;
        // The value that was read last of each key, with its ETag.
        let mut known: BTreeMap<u64, (u64, String)> = BTreeMap::new();
        for _ in 0..count {
            let connection = loop {
                match client.take().or_else(&connect) {
                    Some(connection) => break connection,
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            };
            let key = random.next_u64() % KEYS;
            let kind = random.next_u64() % 8;
            client = self.operate(connection, (prefix, key), kind, &mut known);
        }
    }

    /// Makes one operation, and gives the connection back if it is still there.
    fn operate(
        &self,
        mut client: Client,
        (prefix, key): (&str, u64),
        kind: u64,
        known: &mut BTreeMap<u64, (u64, String)>,
    ) -> Option<Client> {
        let target = entity(format!("{prefix}{key}"));
        let fresh = self.values.fetch_add(1, Ordering::SeqCst) + 1;
        let body = fresh.to_string();
        let swap = known.get(&key).cloned().filter(|_| kind >= 6);
        let called = self.now();
        let answer = match (&swap, kind) {
            (Some((_, etag)), _) => {
                client.try_call("PUT", &target, &[("If-Match", etag)], body.as_bytes())
            }
            (None, 0) => client.try_call("DELETE", &target, &[], b""),
            (None, 1) => {
                client.try_call("PUT", &target, &[("If-None-Match", "*")], body.as_bytes())
            }
            (None, 2 | 3) => client.try_call("PUT", &target, &[], body.as_bytes()),
            _ => client.try_call("GET", &target, &[], b""),
        };
        let answered = self.now();
        let written = |status: u16| match status {
            201 | 202 => Some(true),
            412 => Some(false),
            _ => None,
        };
        let outcome = answer.as_ref().ok().and_then(|answer| written(answer.status));
        let swapped =
            |from| Effect::Swap { from, to: Some(fresh), is_done: outcome.unwrap_or(true) };
        let (effect, is_known) = match (swap, kind) {
            (Some((from, _)), _) => (swapped(Some(from)), outcome.is_some()),
            (None, 0) => (Effect::Write(None), outcome.is_some()),
            (None, 1) => (swapped(None), outcome.is_some()),
            (None, 2 | 3) => (Effect::Write(Some(fresh)), outcome.is_some()),
            _ => {
                let read =
                    answer.as_ref().ok().filter(|answer| [200, 404].contains(&answer.status));
                let Some(read) = read else { return answer.ok().map(|_| client) };
                let value = (read.status == 200).then(|| read.text().parse().unwrap());
                match value {
                    Some(value) => drop(known.insert(key, (value, read.etag()))),
                    None => drop(known.remove(&key)),
                }
                (Effect::Read(value), true)
            }
        };
        let event = Event::new(called, is_known.then_some(answered), effect);
        self.events.lock().unwrap().entry(key).or_default().push(event);
        answer.ok().map(|_| client)
    }

    /// Checks each key, and returns the number of events, and of those with an unknown outcome.
    pub(crate) fn check(&self, name: &str) -> (usize, usize) {
        let keys = self.events.lock().unwrap();
        for (key, events) in &*keys {
            assert!(is_linearizable(events), "{name}: key {key} is no register: {events:#?}");
        }
        let all = || keys.values().flatten();
        (all().count(), all().filter(|event| event.answered.is_none()).count())
    }
}

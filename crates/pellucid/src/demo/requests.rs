//! Generates the requests of the demo: PUT and GET of uniformly random keys from 1 to N.

use std::io::Write;

use pellucid_io::SeededRandom;
use pellucid_load::{RequestSource, RequestSources, ThreadShare};

/// The length of a value in bytes. With keys and record headers, 5,000,000 values are about 1.5 GB,
/// the size of the store in the study that the demo repeats.
pub(crate) const VALUE_BYTES: usize = 250;

/// The step between two keys of a fill. It is a prime above the largest number of keys, so the
/// steps visit every key once, in scattered order.
const STRIDE: u64 = 2_654_435_761;

/// The seed of the random keys, so that every demo uses the same keys.
const SEED: u64 = 1;

/// The kind of requests of a load.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// A PUT of every key once, in scattered order.
    Fill,
    /// A PUT of a random key.
    Put,
    /// A GET of a random key.
    Get,
}

/// A factory of request sources, one for each thread of a load.
pub(crate) struct DemoRequests {
    pub(crate) kind: Kind,
    pub(crate) keys: u64,
    pub(crate) host: String,
}

impl RequestSources for DemoRequests {
    fn source(&self, share: ThreadShare) -> Box<dyn RequestSource> {
        Box::new(Source {
            kind: self.kind.clone(),
            keys: self.keys,
            random: SeededRandom::of_stream(SEED, share.thread as u64),
            next: share.first_request,
            after_key: after_key(&self.kind, &self.host),
        })
    }
}

struct Source {
    kind: Kind,
    keys: u64,
    random: SeededRandom,
    next: u64,
    /// The text that follows the key in the request.
    after_key: Vec<u8>,
}

impl RequestSource for Source {
    fn next(&mut self, out: &mut Vec<u8>) {
        let key = match self.kind {
            Kind::Fill => {
                let key = scattered(self.next, self.keys);
                self.next += 1;
                key
            }
            Kind::Put | Kind::Get => self.random.below(self.keys) + 1,
        };
        let method: &[u8] = if matches!(self.kind, Kind::Get) { b"GET" } else { b"PUT" };
        out.extend_from_slice(method);
        out.extend_from_slice(b" /v0/entity?id=");
        // Writing to a vector cannot fail.
        let _ = write!(out, "{key}");
        out.extend_from_slice(&self.after_key);
    }
}

fn after_key(kind: &Kind, host: &str) -> Vec<u8> {
    if matches!(kind, Kind::Get) {
        return format!(" HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes();
    }
    let sentence = "A value that nobody reads, as long as those of the study behind this demo. ";
    let value: String = sentence.chars().cycle().take(VALUE_BYTES).collect();
    let head = format!(" HTTP/1.1\r\nHost: {host}\r\nContent-Length: {VALUE_BYTES}\r\n\r\n");
    [head, value].concat().into_bytes()
}

/// The key that comes at `index` when all of 1…`keys` are visited in scattered order.
fn scattered(index: u64, keys: u64) -> u64 {
    let product = u128::from(index % keys) * u128::from(STRIDE);
    (product % u128::from(keys)) as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_order_visits_every_key_once() {
        for keys in [1, 2, 10, 1_000, 4_096] {
            let mut visited: Vec<u64> = (0..keys).map(|index| scattered(index, keys)).collect();
            visited.sort_unstable();
            assert!(visited.into_iter().eq(1..=keys));
        }
    }

    /// Regression: each thread drew the keys of the previous thread, one request later.
    #[test]
    fn each_thread_draws_its_own_keys() {
        let drawn = |thread| {
            let share = ThreadShare { thread, threads: 2, first_request: 0, requests: None };
            let requests = DemoRequests { kind: Kind::Get, keys: 1 << 40, host: "h".to_owned() };
            let (mut source, mut out) = (requests.source(share), Vec::new());
            (0..20).for_each(|_| source.next(&mut out));
            String::from_utf8(out).unwrap()
        };
        let (one, other) = (drawn(0), drawn(1));
        let lines = other.lines().filter(|line| line.starts_with("GET "));
        assert_eq!(lines.inspect(|line| assert!(!one.contains(line), "{line}")).count(), 20);
    }

    #[test]
    fn requests_are_complete() {
        let share = ThreadShare { thread: 0, threads: 1, first_request: 0, requests: None };
        for (kind, body) in [(Kind::Put, VALUE_BYTES), (Kind::Get, 0), (Kind::Fill, VALUE_BYTES)] {
            let requests = DemoRequests { kind, keys: 10, host: "h:1".to_owned() };
            let mut out = Vec::new();
            requests.source(share).next(&mut out);
            let text = String::from_utf8(out).unwrap();
            let (head, rest) = text.split_once("\r\n\r\n").unwrap();
            assert_eq!(rest.len(), body);
            assert!(head.contains(" /v0/entity?id=") && head.contains("Host: h:1"));
        }
    }
}

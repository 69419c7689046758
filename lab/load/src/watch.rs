//! Watched requests: a sample of all, whose way is noted step by step and which ask the server for
//! its own account of them.
//!
//! Watching a request costs a reading of the clock, some memory and a header, so at most about a
//! thousand a second are watched on each thread, evenly picked by count. A trace identifier (W3C
//! Trace Context) goes with each, so that it can be found again wherever else it was seen.

use pellucid_clock::Ticks;

use pellucid_io::{Random, SeededRandom};

/// The number of requests that a thread watches in a second, about.
const WATCHED_PER_SECOND: u64 = 1_000;
/// Of how many one is watched before it is known how many there are, without a rate.
const FIRST_STRIDE: u64 = 16;
/// Answers without a word of the server after which it is not asked any more.
const SILENT_ANSWERS_MAX: u32 = 64;
/// The headers with the trace identifier, which is put in its place for each request.
const HEADERS: &[u8] = b"Prefer: timing\r\ntraceparent: \
    00-00000000000000000000000000000000-0000000000000000-01\r\n";
/// The place of the identifiers in it.
const TRACE_AT: usize = 16 + 13 + 3;
const SPAN_AT: usize = TRACE_AT + 32 + 1;

/// The notes on one request.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Names it to whoever sees it.
    pub(crate) trace_id: u128,
    /// The time at which its connection could take it.
    pub(crate) free_since: Ticks,
    /// With a connection of its own: when opening it began, when it was open, and when it was
    /// secure.
    pub(crate) opened: Option<[Ticks; 3]>,
    /// The time at which the last of its bytes was written.
    pub(crate) written: Option<Ticks>,
    /// The time at which the first byte of its answer was there.
    pub(crate) first_byte: Option<Ticks>,
}

/// Picks the requests that are watched.
#[derive(Debug)]
pub(crate) struct Watcher {
    random: SeededRandom,
    stride: u64,
    left: u64,
    asks: bool,
    silent_answers: u32,
    seen: u64,
}

impl Watcher {
    /// The watcher of a thread that sends `rate_per_second`, if that is known.
    pub(crate) fn new(seed: u64, asks: bool, rate_per_second: Option<u64>) -> Watcher {
        let stride = rate_per_second.map_or(FIRST_STRIDE, |rate| rate / WATCHED_PER_SECOND).max(1);
        Watcher {
            random: SeededRandom::of_stream(seed, 0x7ace),
            stride,
            left: 1,
            asks,
            silent_answers: 0,
            seen: 0,
        }
    }

    /// True if the next request is watched.
    #[inline]
    pub(crate) fn picks(&mut self) -> bool {
        self.left -= 1;
        if self.left > 0 {
            return false;
        }
        self.left = self.stride;
        true
    }

    /// True if it asks the server for its account.
    pub(crate) fn asks(&self) -> bool {
        self.asks
    }

    /// The notes on a request that was just picked.
    #[cold]
    pub(crate) fn watch(&mut self, free_since: Ticks, opened: Option<[Ticks; 3]>) -> Box<Watch> {
        let trace_id =
            u128::from(self.random.next_u64()) << 64 | u128::from(self.random.next_u64() | 1);
        Box::new(Watch { trace_id, free_since, opened, written: None, first_byte: None })
    }

    /// Learns whether the server tells anything, so that one that does not is left in peace.
    pub(crate) fn heard(&mut self, told: bool) {
        self.silent_answers = if told { 0 } else { self.silent_answers + 1 };
        self.asks &= self.silent_answers < SILENT_ANSWERS_MAX;
    }

    /// Adapts the share of watched requests to how many there were in `ns`.
    pub(crate) fn adapt(&mut self, requests: u64, ns: u64) {
        let more = requests.saturating_sub(self.seen);
        self.seen = requests;
        let per_second = u128::from(more) * 1_000_000_000 / u128::from(ns.max(1));
        let stride = u64::try_from(per_second).unwrap_or(u64::MAX) / WATCHED_PER_SECOND;
        self.stride = stride.max(1);
        self.left = self.left.clamp(1, self.stride);
    }
}

/// True if a request of HTTP/1.1 says itself what ours would: then it is left as it is.
pub(crate) fn has_own_headers(request: &[u8]) -> bool {
    let lines = request.split(|byte| *byte == b'\n').skip(1);
    let mut head = lines.take_while(|line| !matches!(*line, b"\r" | b""));
    let is_own = |line: &[u8], name: &[u8]| {
        line.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name))
    };
    head.any(|line| is_own(line, b"traceparent:") || is_own(line, b"prefer:"))
}

/// Adds the headers to a request of HTTP/1.1 that begins at `begin` and was made for this.
pub(crate) fn insert_headers(trace_id: u128, request: &mut Vec<u8>, begin: usize) {
    if has_own_headers(&request[begin..]) {
        return;
    }
    let line = request[begin..].iter().position(|byte| *byte == b'\n');
    let Some(at) = line.map(|line| begin + line + 1) else { return };
    let old_length = request.len();
    request.resize(old_length + HEADERS.len(), 0);
    request.copy_within(at..old_length, at + HEADERS.len());
    request[at..at + HEADERS.len()].copy_from_slice(&headers(trace_id));
}

/// The value of `traceparent`.
pub(crate) fn traceparent(trace_id: u128) -> Vec<u8> {
    headers(trace_id)[TRACE_AT - 3..HEADERS.len() - 2].to_vec()
}

fn headers(trace_id: u128) -> [u8; HEADERS.len()] {
    let mut bytes = [0; HEADERS.len()];
    bytes.copy_from_slice(HEADERS);
    write_hex(trace_id, &mut bytes[TRACE_AT..TRACE_AT + 32]);
    write_hex(trace_id, &mut bytes[SPAN_AT..SPAN_AT + 16]);
    bytes
}

fn write_hex(mut number: u128, out: &mut [u8]) {
    for place in out.iter_mut().rev() {
        *place = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_stand_after_the_request_line() {
        let mut request = b"before GET / HTTP/1.1\r\nHost: x\r\n\r\nbody".to_vec();
        insert_headers(0xabc, &mut request, 7);
        let id = "00000000000000000000000000000abc";
        let expected = format!(
            "before GET / HTTP/1.1\r\nPrefer: timing\r\ntraceparent: 00-{id}-{}-01\r\n\
             Host: x\r\n\r\nbody",
            &id[16..]
        );
        assert_eq!(String::from_utf8(request).unwrap(), expected);
        assert_eq!(traceparent(0xabc), format!("00-{id}-{}-01", &id[16..]).as_bytes());
        let mut broken = b"GET".to_vec();
        insert_headers(1, &mut broken, 0);
        assert_eq!(broken, b"GET");
    }

    /// A script's own trace was sent beside a second one, and a server takes the first or neither.
    #[test]
    fn a_request_with_a_trace_of_its_own_is_left_as_it_is() {
        for own in ["traceparent: 00-1-2-01", "TraceParent:x", "Prefer: return=minimal"] {
            let request = format!("GET / HTTP/1.1\r\nHost: x\r\n{own}\r\n\r\nprefer: body");
            let mut watched = request.clone().into_bytes();
            insert_headers(1, &mut watched, 0);
            assert_eq!(String::from_utf8(watched).unwrap(), request);
        }
        assert!(!has_own_headers(b"PUT /prefer: HTTP/1.1\r\nX-Prefer: a\r\n\r\nprefer: body"));
    }

    #[test]
    fn about_a_thousand_a_second_are_picked() {
        let picked = |watcher: &mut Watcher, count| (0..count).filter(|_| watcher.picks()).count();
        let mut paced = Watcher::new(1, true, Some(10_000));
        assert_eq!(picked(&mut paced, 10_000), 1_000);
        let mut slow = Watcher::new(1, true, Some(100));
        assert_eq!(picked(&mut slow, 100), 100);
        let mut closed = Watcher::new(1, true, None);
        assert_eq!(picked(&mut closed, 160), 10);
        closed.adapt(10_000, 100_000_000);
        assert_eq!(picked(&mut closed, 100_000).div_ceil(10), 100);
    }

    #[test]
    fn a_server_that_tells_nothing_is_not_asked_on_and_on() {
        let mut watcher = Watcher::new(1, true, None);
        (0..SILENT_ANSWERS_MAX - 1).for_each(|_| watcher.heard(false));
        watcher.heard(true);
        assert!(watcher.asks());
        (0..SILENT_ANSWERS_MAX).for_each(|_| watcher.heard(false));
        assert!(!watcher.asks());
    }
}

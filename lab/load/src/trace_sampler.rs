//! Watched requests: an even sample of all, whose steps are traced and which ask the server to
//! report its own time.
//!
//! Watching a request costs a reading of the clock, some memory and two headers, so at most about a
//! thousand per second are watched on each thread, picked evenly by count. Each carries a trace
//! identifier (W3C Trace Context), so that it can be found in other tools.

use pellucid_clock::Ticks;

use pellucid_io::{Random, SeededRandom};

/// The approximate number of requests that a thread watches per second.
const WATCHED_PER_SECOND: u64 = 1_000;
/// In a closed loop, one request in this many is watched until the rate is known.
const FIRST_STRIDE: u64 = 16;
/// The number of answers in a row without a report of the server after which it is not asked any
/// more.
const SILENT_ANSWERS_MAX: u32 = 64;
/// The headers of a watched request; the identifiers are filled in for each request.
const HEADERS: &[u8] = b"Prefer: timing\r\ntraceparent: \
    00-00000000000000000000000000000000-0000000000000000-01\r\n";
/// The offset of the trace identifier in [`HEADERS`].
const TRACE_AT: usize = 16 + 13 + 3;
/// The offset of the span identifier in [`HEADERS`].
const SPAN_AT: usize = TRACE_AT + 32 + 1;

/// The trace of one request while it is in flight.
#[derive(Debug)]
pub(crate) struct PendingTrace {
    /// The trace identifier that the request carries.
    pub(crate) trace_id: u128,
    /// The time since which its connection was free to take it.
    pub(crate) free_since: Ticks,
    /// If the request has its own connection: the times at which opening it began, the socket was
    /// open, and TLS was established.
    pub(crate) opened: Option<[Ticks; 3]>,
    /// The time at which the last of its bytes was written.
    pub(crate) written: Option<Ticks>,
    /// The time at which the first byte of its answer was received.
    pub(crate) first_byte: Option<Ticks>,
}

/// Picks the requests that are watched.
#[derive(Debug)]
pub(crate) struct TraceSampler {
    random: SeededRandom,
    stride: u64,
    left: u64,
    asks: bool,
    silent_answers: u32,
    seen: u64,
}

impl TraceSampler {
    /// The watcher of a thread that sends `rate_per_second`, if that is known.
    pub(crate) fn new(seed: u64, asks: bool, rate_per_second: Option<u64>) -> TraceSampler {
        let stride = rate_per_second.map_or(FIRST_STRIDE, |rate| rate / WATCHED_PER_SECOND).max(1);
        TraceSampler {
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

    /// True if watched requests ask the server for its timing.
    pub(crate) fn asks(&self) -> bool {
        self.asks
    }

    /// Begins the trace of a request that was just picked.
    #[cold]
    pub(crate) fn watch(
        &mut self,
        free_since: Ticks,
        opened: Option<[Ticks; 3]>,
    ) -> Box<PendingTrace> {
        let trace_id =
            u128::from(self.random.next_u64()) << 64 | u128::from(self.random.next_u64() | 1);
        Box::new(PendingTrace { trace_id, free_since, opened, written: None, first_byte: None })
    }

    /// Notes if the server reported its timing. A server that does not is soon not asked any more.
    pub(crate) fn heard(&mut self, told: bool) {
        self.silent_answers = if told { 0 } else { self.silent_answers + 1 };
        self.asks &= self.silent_answers < SILENT_ANSWERS_MAX;
    }

    /// Adapts the share of watched requests to the rate. `requests` is the number of all answers so
    /// far, `ns` the time since the last call.
    pub(crate) fn adapt(&mut self, requests: u64, ns: u64) {
        let more = requests.saturating_sub(self.seen);
        self.seen = requests;
        let per_second = u128::from(more) * 1_000_000_000 / u128::from(ns.max(1));
        let stride = u64::try_from(per_second).unwrap_or(u64::MAX) / WATCHED_PER_SECOND;
        self.stride = stride.max(1);
        self.left = self.left.clamp(1, self.stride);
    }
}

/// True if an HTTP/1.1 request has one of the headers itself; such a request is not changed.
pub(crate) fn has_own_headers(request: &[u8]) -> bool {
    let lines = request.split(|byte| *byte == b'\n').skip(1);
    let mut head = lines.take_while(|line| !matches!(*line, b"\r" | b""));
    let is_own = |line: &[u8], name: &[u8]| {
        line.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name))
    };
    head.any(|line| is_own(line, b"traceparent:") || is_own(line, b"prefer:"))
}

/// Inserts the headers into the HTTP/1.1 request that begins at `begin` in `request`.
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

    /// Regression: a script's own trace was sent beside a second one, of which a server takes the
    /// first or neither.
    #[test]
    fn a_request_with_its_own_trace_is_not_changed() {
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
        let picked =
            |watcher: &mut TraceSampler, count| (0..count).filter(|_| watcher.picks()).count();
        let mut paced = TraceSampler::new(1, true, Some(10_000));
        assert_eq!(picked(&mut paced, 10_000), 1_000);
        let mut slow = TraceSampler::new(1, true, Some(100));
        assert_eq!(picked(&mut slow, 100), 100);
        let mut closed = TraceSampler::new(1, true, None);
        assert_eq!(picked(&mut closed, 160), 10);
        closed.adapt(10_000, 100_000_000);
        assert_eq!(picked(&mut closed, 100_000).div_ceil(10), 100);
    }

    #[test]
    fn a_server_without_timing_is_not_asked_forever() {
        let mut watcher = TraceSampler::new(1, true, None);
        (0..SILENT_ANSWERS_MAX - 1).for_each(|_| watcher.heard(false));
        watcher.heard(true);
        assert!(watcher.asks());
        (0..SILENT_ANSWERS_MAX).for_each(|_| watcher.heard(false));
        assert!(!watcher.asks());
    }
}

//! The traces of watched requests, a bounded number: an even sample of all, and the slowest.
//!
//! The server reports its time for a request with the answer (`Server-Timing`, W3C), so client and
//! server are joined request by request. Only durations are compared, which needs no common clock.
//! If both read the same clock, on one machine, the server also reports when the request arrived.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pellucid_clock::{Clock, SharedReading, Ticks};

use crate::connection::PendingRequest;
use crate::samples::keep_every_other;
use crate::trace_sampler::PendingTrace;
use pellucid_client::http::ServerTiming;

/// The largest number of traces in the sample of all requests. When it is full, every other one is
/// dropped.
pub const MAX_TRACES: usize = 8_192;
/// The number of slowest requests that are kept besides the sample.
pub const MAX_SLOWEST: usize = 32;
/// The largest number of distinct metrics of the server.
const METRICS_MAX: usize = 64;

/// The trace of one request. The times from `wait_ns` to `receive_ns` follow one another and add up
/// to `response_ns`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trace {
    /// The response time: from the intended start to the end of the answer.
    pub response_ns: u64,
    /// The intended start, since the start of the run.
    pub start_ns: u64,
    /// The trace identifier of the request, as in `traceparent`.
    pub trace_id: u128,
    /// The wait for a connection.
    pub wait_ns: u64,
    /// The generator's own delay.
    pub generator_ns: u64,
    /// The time to open a connection for this request.
    pub connect_ns: u64,
    /// The time of the TLS handshake on that connection.
    pub tls_ns: u64,
    /// The time to hand the request to the kernel.
    pub send_ns: u64,
    /// The time from the last byte sent to the first byte of the answer: network, kernel and
    /// server.
    pub away_ns: u64,
    /// The time from the first byte of the answer to the last one.
    pub receive_ns: u64,
    /// The metrics of the server: the index of each in [`Traces::metrics`], and its time in
    /// nanoseconds.
    pub server: Vec<(u16, u64)>,
    /// The time from the actual send to the arrival at the server, if both read the same clock.
    pub arrival_ns: Option<u64>,
}

/// The traces of some requests of a run.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    /// The names of the server's metrics, as the server sends them.
    pub metrics: Vec<String>,
    /// An even sample of all watched requests.
    pub some: Vec<Trace>,
    /// The slowest watched requests, the slowest first.
    pub slowest: Vec<Trace>,
    /// The number of watched requests.
    pub watched: u64,
    /// The number of watched requests for which the server reported its time.
    pub told: u64,
}

/// The traces of one thread while the run lasts.
#[derive(Debug)]
pub(crate) struct TraceRecorder {
    clock: Clock,
    metrics: Vec<String>,
    some: Vec<Trace>,
    stride: u64,
    slowest: BinaryHeap<Reverse<Trace>>,
    watched: u64,
    told: u64,
}

impl TraceRecorder {
    pub(crate) fn new(clock: Clock) -> TraceRecorder {
        TraceRecorder {
            clock,
            metrics: Vec::new(),
            some: Vec::new(),
            stride: 1,
            slowest: BinaryHeap::new(),
            watched: 0,
            told: 0,
        }
    }

    /// Records the trace of a request whose answer was complete at `end`. Returns true if the
    /// server reported anything about its time.
    #[cold]
    pub(crate) fn add(
        &mut self,
        request: &PendingRequest,
        watch: &PendingTrace,
        start: Ticks,
        end: Ticks,
        headers: Option<&ServerTiming>,
    ) -> bool {
        let server = headers.map(|told| self.read_metrics(&told.timing)).unwrap_or_default();
        let told = !server.is_empty();
        let mut trace = self.way(request, watch, start, end);
        trace.server = server;
        trace.arrival_ns = headers.and_then(|told| self.arrival_ns(&told.clock, request.sent));
        self.told += u64::from(told);
        if self.watched.is_multiple_of(self.stride) {
            self.keep(trace.clone());
        }
        self.watched += 1;
        self.keep_slow(trace);
        told
    }

    fn way(
        &self,
        request: &PendingRequest,
        watch: &PendingTrace,
        start: Ticks,
        end: Ticks,
    ) -> Trace {
        // Each step begins where the last one ended, so that they add up whatever is missing.
        let mut at = request.intended;
        let mut step = |to: Ticks| {
            let to = to.max(at).min(end);
            let ns = self.clock.nanoseconds(to.since(at));
            at = to;
            ns
        };
        let wait_ns = step(watch.free_since);
        let (generator_ns, connect_ns, tls_ns) = match watch.opened {
            Some([began, open, secure]) => (step(began), step(open), step(secure)),
            None => (step(request.sent), 0, 0),
        };
        // The time between an open connection and the send is the generator's, too.
        let generator_ns = generator_ns + step(request.sent);
        let send_ns = step(watch.written.unwrap_or(request.sent));
        let away_ns = step(watch.first_byte.unwrap_or(end));
        let receive_ns = step(end);
        let parts = [wait_ns, generator_ns, connect_ns, tls_ns, send_ns, away_ns, receive_ns];
        Trace {
            response_ns: parts.iter().sum(),
            start_ns: self.clock.nanoseconds(request.intended.since(start)),
            trace_id: watch.trace_id,
            wait_ns,
            generator_ns,
            connect_ns,
            tls_ns,
            send_ns,
            away_ns,
            receive_ns,
            server: Vec::new(),
            arrival_ns: None,
        }
    }

    /// The time from `sent` to the arrival at the server, if the server reports it on this clock. A
    /// reading from before `sent` is ignored: the request was read together with an earlier one, or
    /// the clocks differ.
    fn arrival_ns(&self, header: &[u8], sent: Ticks) -> Option<u64> {
        let reading = SharedReading::parse(std::str::from_utf8(header).ok()?)?;
        let arrived = reading.on(&self.clock).filter(|arrived| *arrived >= sent)?;
        Some(self.clock.nanoseconds(arrived.since(sent)))
    }

    fn read_metrics(&mut self, header: &[u8]) -> Vec<(u16, u64)> {
        let text = String::from_utf8_lossy(header);
        let metrics =
            split_outside_quotes(&text, ',').filter_map(metric).filter_map(|(name, ns)| {
                let known = self.metrics.iter().position(|known| known == name);
                let place = known.or_else(|| {
                    let has_room = self.metrics.len() < METRICS_MAX;
                    has_room.then(|| self.metrics.push(name.to_owned()))?;
                    Some(self.metrics.len() - 1)
                })?;
                Some((place as u16, ns))
            });
        metrics.take(METRICS_MAX).collect()
    }

    fn keep(&mut self, trace: Trace) {
        if self.some.len() >= MAX_TRACES {
            self.thin_out();
            if !self.watched.is_multiple_of(self.stride) {
                return;
            }
        }
        self.some.push(trace);
    }

    fn thin_out(&mut self) {
        keep_every_other(&mut self.some);
        self.stride *= 2;
    }

    fn keep_slow(&mut self, trace: Trace) {
        let full = self.slowest.len() >= MAX_SLOWEST;
        if full && self.slowest.peek().is_some_and(|least| least.0 >= trace) {
            return;
        }
        if full {
            self.slowest.pop();
        }
        self.slowest.push(Reverse(trace));
    }

    /// Merges the traces of another thread.
    pub(crate) fn merge(&mut self, mut other: TraceRecorder) {
        let places: Vec<u16> = other.metrics.iter().map(|name| self.place_of(name)).collect();
        let renamed = |mut trace: Trace| {
            for (place, _) in &mut trace.server {
                *place = places[usize::from(*place)];
            }
            trace
        };
        while self.stride < other.stride {
            self.thin_out();
        }
        while other.stride < self.stride {
            other.thin_out();
        }
        self.some.extend(other.some.into_iter().map(renamed));
        while self.some.len() > MAX_TRACES {
            self.thin_out();
        }
        other.slowest.into_iter().for_each(|trace| self.keep_slow(renamed(trace.0)));
        self.watched += other.watched;
        self.told += other.told;
    }

    /// The index of a metric's name in the list of this thread; names beyond the limit share the
    /// last index.
    fn place_of(&mut self, name: &str) -> u16 {
        let known = self.metrics.iter().position(|known| known == name);
        let place = known.unwrap_or_else(|| {
            if self.metrics.len() < METRICS_MAX {
                self.metrics.push(name.to_owned());
            }
            self.metrics.len() - 1
        });
        place as u16
    }

    pub(crate) fn finish(self) -> Traces {
        let mut slowest: Vec<Trace> = self.slowest.into_iter().map(|trace| trace.0).collect();
        slowest.sort_unstable_by(|a, b| b.cmp(a));
        let TraceRecorder { metrics, some, watched, told, .. } = self;
        Traces { metrics, some, slowest, watched, told }
    }
}

/// The longest time of a metric, in milliseconds: a month. Longer ones are no times of a request.
const DURATION_MS_MAX: f64 = 31.0 * 86_400.0 * 1e3;

/// Parses the name and the time of a metric such as `db;desc="a b";dur=1.5`, where `dur` is in
/// milliseconds; the time is returned in nanoseconds.
fn metric(text: &str) -> Option<(&str, u64)> {
    let mut parts = split_outside_quotes(text, ';').map(str::trim);
    let name = parts.next().filter(|name| !name.is_empty())?;
    let duration_of = |part: &str| part.strip_prefix("dur=")?.trim_matches('"').parse::<f64>().ok();
    let duration_ms = parts.find_map(duration_of)?;
    let known = (0.0..=DURATION_MS_MAX).contains(&duration_ms);
    known.then_some((name, (duration_ms * 1e6).round() as u64))
}

/// Splits a header at a separator, except in quoted strings, where `\` escapes a quote.
fn split_outside_quotes(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |letter| {
        let was_escaped = std::mem::replace(&mut is_escaped, false);
        match letter {
            '"' if !was_escaped => is_quoted = !is_quoted,
            '\\' if is_quoted => is_escaped = !was_escaped,
            _ => {}
        }
        letter == separator && !is_quoted
    })
}

#[cfg(test)]
mod tests {
    use pellucid_clock::SimulatedClock;

    use super::*;

    fn notes() -> TraceRecorder {
        TraceRecorder::new(Clock::simulated(SimulatedClock::leaked(0)))
    }

    fn request(intended: u64, sent: u64) -> PendingRequest {
        PendingRequest { intended: Ticks(intended), sent: Ticks(sent), ..PendingRequest::default() }
    }

    fn watch(free_since: u64, times: [u64; 2]) -> PendingTrace {
        PendingTrace {
            trace_id: 7,
            free_since: Ticks(free_since),
            opened: None,
            written: Some(Ticks(times[0])),
            first_byte: Some(Ticks(times[1])),
        }
    }

    fn timing(value: &[u8]) -> ServerTiming {
        ServerTiming { timing: value.to_vec(), ..ServerTiming::default() }
    }

    #[test]
    fn an_arrival_counts_only_on_the_same_clock() {
        let clock = Clock::monotonic();
        let notes = TraceRecorder::new(clock);
        let Some(reading) = SharedReading::of(&clock, Ticks(1_500)) else { return };
        let header = reading.to_string().into_bytes();
        assert_eq!(notes.arrival_ns(&header, Ticks(1_000)), Some(500));
        assert_eq!(notes.arrival_ns(&header, Ticks(1_501)), None, "before it was sent");
        assert_eq!(notes.arrival_ns(b"boot=x;clock=monotonic;arrived=1500", Ticks(0)), None);
        assert_eq!(notes.arrival_ns(b"", Ticks(0)), None);
    }

    #[test]
    fn the_steps_of_a_request_add_up() {
        let mut notes = notes();
        // Regression: sums of endless times overflowed.
        let told =
            timing(b"db;desc=\"x\";dur=0.02, total;dur=0.05, broken;dur=x, ;dur=1, a;dur=1e13");
        let kept = watch(1_030, [1_060, 1_160]);
        assert!(notes.add(&request(1_000, 1_050), &kept, Ticks(900), Ticks(1_200), Some(&told)));
        let traces = notes.finish();
        let trace = &traces.some[0];
        assert_eq!((trace.response_ns, trace.start_ns), (200, 100));
        assert_eq!((trace.wait_ns, trace.generator_ns, trace.send_ns), (30, 20, 10));
        assert_eq!((trace.away_ns, trace.receive_ns), (100, 40));
        assert_eq!(traces.metrics, ["db", "total"]);
        assert_eq!(trace.server, [(0, 20_000), (1, 50_000)]);
        assert_eq!((traces.watched, traces.told), (1, 1));
    }

    /// Regression: a comma or semicolon in a description was taken for the end of it.
    #[test]
    fn separators_in_quotes_are_part_of_a_description() {
        let mut notes = notes();
        let header = br#"a;desc="x, y;dur=9;q";dur=1, b;desc="\",\\";dur="2", c;dur=3"#;
        let read = notes.read_metrics(header);
        assert_eq!(notes.metrics, ["a", "b", "c"]);
        assert_eq!(read, [(0, 1_000_000), (1, 2_000_000), (2, 3_000_000)]);
    }

    #[test]
    fn opening_a_connection_is_a_part_of_the_trace() {
        let mut notes = notes();
        let opened = Some([Ticks(10), Ticks(30), Ticks(70)]);
        let kept = PendingTrace { opened, ..watch(0, [90, 95]) };
        notes.add(&request(5, 80), &kept, Ticks(0), Ticks(100), None);
        let trace = &notes.finish().some[0];
        assert_eq!((trace.generator_ns, trace.connect_ns, trace.tls_ns), (15, 20, 40));
        assert_eq!((trace.send_ns, trace.away_ns, trace.receive_ns), (10, 5, 5));
        assert_eq!(trace.response_ns, 95);
    }

    #[test]
    fn the_slowest_are_kept_and_memory_is_bounded() {
        let (mut one, mut two) = (notes(), notes());
        for number in 0..50_000_u64 {
            let slow = if number == 33_333 { 1_000_000 } else { number % 97 };
            let end = Ticks(number + slow + 10);
            one.add(&request(number, number), &watch(0, [number, number]), Ticks(0), end, None);
        }
        let told = timing(b"b;dur=1");
        two.add(&request(5, 5), &watch(0, [5, 5]), Ticks(0), Ticks(2_000_005), Some(&told));
        one.merge(two);
        let traces = one.finish();
        assert!(traces.some.len() <= MAX_TRACES && traces.some.len() > MAX_TRACES / 4);
        assert_eq!(traces.slowest.len(), MAX_SLOWEST);
        let slowest: Vec<u64> = traces.slowest.iter().map(|trace| trace.response_ns).collect();
        assert_eq!(slowest[..2], [2_000_000, 1_000_010]);
        assert_eq!(traces.slowest[0].server, [(0, 1_000_000)]);
        assert_eq!(traces.watched, 50_001);
    }
}

//! The traced requests in progress. An event loop adds a request when it begins, and the thread
//! that drains the account removes it when it finds the record.
//!
//! A record has no room for a trace, and few requests are traced. So traces are kept here by the
//! number of the request, and a request without a trace costs only a check of its headers.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pellucid_cluster::AskTrace;
use pellucid_http::Request;
use pellucid_thread::Mutex;

use crate::reporter::context::{TraceContext, TraceParent, trace_state};

/// The limit of traced requests in progress. Beyond it, the trace of the oldest is dropped: most
/// likely its record was lost.
const TRACED_MAX: usize = 4_096;

/// The context of a traced request, and the data that its span needs beside the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) context: TraceContext,
    /// The caller's `tracestate`, which is passed on unchanged.
    pub(crate) state: Option<Box<str>>,
    /// The HTTP method, as OpenTelemetry names it; `None` for a request from another node.
    pub(crate) method: Option<&'static str>,
}

/// The methods that OpenTelemetry has names for.
const METHODS: [&str; 9] =
    ["GET", "PUT", "POST", "DELETE", "HEAD", "PATCH", "OPTIONS", "CONNECT", "TRACE"];
/// OpenTelemetry's name for all other methods.
const OTHER_METHOD: &str = "_OTHER";

/// Chooses the requests that are traced, and keeps the traces of those in progress.
pub(crate) struct TraceRegistry {
    /// A request without a caller's trace begins one if a random number is not above this; zero
    /// means that none does.
    threshold: u64,
    is_on: bool,
    under_way: Mutex<ActiveTraces>,
    /// The number of traced requests in progress, which can be read without the lock.
    count: AtomicUsize,
    /// The number of traces that were dropped because of [`TRACED_MAX`].
    forgotten: AtomicU64,
}

/// The traced requests in progress.
#[derive(Default)]
struct ActiveTraces {
    /// The age number and the trace of each request, by its number.
    by_request: HashMap<u64, (u64, Trace)>,
    /// The numbers of the requests, by age number.
    by_age: BTreeMap<u64, u64>,
    /// The number of traces begun so far, from which age numbers are taken.
    begun: u64,
}

impl TraceRegistry {
    /// Traces the requests that callers trace, and `share` (0 to 1) of the rest. Nothing is traced
    /// unless `is_on`.
    pub(crate) fn new(is_on: bool, share: f64) -> TraceRegistry {
        TraceRegistry {
            // A share of 1 gives the highest number, so every random number is within it.
            threshold: (share.clamp(0.0, 1.0) * u64::MAX as f64) as u64,
            is_on,
            under_way: Mutex::default(),
            count: AtomicUsize::new(0),
            forgotten: AtomicU64::new(0),
        }
    }

    /// Decides whether a request is traced, and returns its context if it is. `random` must give
    /// numbers that are uniformly distributed over all of `u64`.
    #[inline]
    pub(crate) fn begin(
        &self,
        request: &Request<'_>,
        number: u64,
        random: impl FnMut() -> u64,
    ) -> Option<TraceContext> {
        if !self.is_on {
            return None;
        }
        let named = |header: &&pellucid_http::Header<'_>| {
            header.name.len() == 11 && header.name.eq_ignore_ascii_case("traceparent")
        };
        let header = request.headers.iter().find(named);
        let parent = header.and_then(|header| TraceParent::parse(header.value));
        let is_ours = parent.is_some_and(|parent| parent.is_sampled);
        let state = if is_ours { trace_state(request.headers) } else { None };
        let method = METHODS.iter().find(|name| **name == request.method).unwrap_or(&OTHER_METHOD);
        let context = self.decide(parent, random)?;
        self.keep(number, Trace { context, state, method: Some(method) });
        Some(context)
    }

    /// Decides by the caller's trace, if there is one.
    fn decide(
        &self,
        parent: Option<TraceParent>,
        mut random: impl FnMut() -> u64,
    ) -> Option<TraceContext> {
        match parent {
            Some(parent) if !parent.is_sampled => None,
            Some(parent) => Some(TraceContext {
                trace: parent.trace,
                parent: parent.span,
                span: random().max(1),
            }),
            None if self.threshold == 0 || random() > self.threshold => None,
            None => {
                let trace = u128::from(random()) << 64 | u128::from(random());
                Some(TraceContext { trace: trace.max(1), parent: 0, span: random().max(1) })
            }
        }
    }

    fn keep(&self, number: u64, trace: Trace) {
        let mut under_way = self.under_way.lock();
        under_way.begun += 1;
        let age = under_way.begun;
        under_way.by_age.insert(age, number);
        under_way.by_request.insert(number, (age, trace));
        if under_way.by_request.len() > TRACED_MAX
            && let Some((_, oldest)) = under_way.by_age.pop_first()
        {
            under_way.by_request.remove(&oldest);
            self.forgotten.fetch_add(1, Ordering::Relaxed);
        }
        self.count.store(under_way.by_request.len(), Ordering::Release);
    }

    /// Traces a request from another node, as a child of the span there.
    pub(crate) fn begin_below(&self, of: AskTrace<'_>, number: u64, random: impl FnMut() -> u64) {
        if self.is_on {
            let parent = TraceParent { trace: of.trace, span: of.span, is_sampled: true };
            let state = (!of.state.is_empty()).then(|| Box::from(of.state));
            if let Some(context) = self.decide(Some(parent), random) {
                self.keep(number, Trace { context, state, method: None });
            }
        }
    }

    /// The trace of a traced request in progress.
    #[inline]
    pub(crate) fn of(&self, number: u64) -> Option<Trace> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.under_way.lock().by_request.get(&number).map(|(_, trace)| trace.clone())
    }

    /// Removes and returns the trace of a request that has ended.
    #[inline]
    pub(crate) fn end(&self, number: u64) -> Option<Trace> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut under_way = self.under_way.lock();
        let (age, trace) = under_way.by_request.remove(&number)?;
        under_way.by_age.remove(&age);
        self.count.store(under_way.by_request.len(), Ordering::Release);
        Some(trace)
    }

    /// The number of traced requests whose traces were dropped because there were too many.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter() -> impl FnMut() -> u64 {
        let mut next = 0;
        move || {
            next += 1;
            next
        }
    }

    #[test]
    fn the_caller_decides_about_its_own_trace() {
        let traced = TraceRegistry::new(true, 1.0);
        let parent = |is_sampled| Some(TraceParent { trace: 5, span: 6, is_sampled });
        assert_eq!(traced.decide(parent(false), counter()), None);
        let context = traced.decide(parent(true), counter()).unwrap();
        assert_eq!((context.trace, context.parent), (5, 6));
        let trace = Trace { context, state: Some(Box::from("a=1")), method: Some("PUT") };
        traced.keep(2, trace.clone());
        assert_eq!(traced.of(2), Some(trace.clone()));
        assert_eq!((traced.end(2), traced.end(2)), (Some(trace), None));
    }

    #[test]
    fn a_share_of_requests_without_a_trace_begins_one() {
        let none = TraceRegistry::new(true, 0.0);
        let all = TraceRegistry::new(true, 1.0);
        let half = TraceRegistry::new(true, 0.5);
        assert!(none.decide(None, || 0).is_none());
        let begun = all.decide(None, || u64::MAX - 1);
        assert!(begun.is_some_and(|context| context.parent == 0));
        assert!(half.decide(None, || u64::MAX / 4).is_some());
        assert!(half.decide(None, || u64::MAX / 4 * 3).is_none());
    }

    #[test]
    fn traces_without_a_record_are_bounded() {
        let traced = TraceRegistry::new(true, 1.0);
        let mut random = counter();
        for number in 0..TRACED_MAX as u64 + 10 {
            let context = traced.decide(None, &mut random).unwrap();
            traced.keep(number, Trace { context, state: None, method: None });
        }
        assert_eq!((traced.forgotten(), traced.count.load(Ordering::Relaxed)), (10, TRACED_MAX));
        assert!(traced.of(9).is_none() && traced.of(10).is_some());
    }
}

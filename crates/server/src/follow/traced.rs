//! The traced requests that are under way: from the event loop that meets one to the thread that
//! finds its record.
//!
//! A record has no room for a trace, and few requests have one. So the traces are kept here, by the
//! number of the request, and a request that is not traced costs a look at its headers.

use std::collections::{BTreeMap, HashMap};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pellucid_cluster::TraceOfAsk;
use pellucid_http::Request;
use pellucid_thread::{Mutex, MutexGuard};

use crate::follow::context::{TraceContext, TraceParent, trace_state};

/// Traced requests under way at a time. Beyond it, the oldest is no longer traced: most likely its
/// record was lost.
const TRACED_MAX: usize = 4_096;

/// The place of a request in a trace, and the notes of others on that trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) context: TraceContext,
    /// The caller's `tracestate`, which is passed on as it came.
    pub(crate) state: Option<Box<str>>,
    /// The method of HTTP, in the words of OpenTelemetry; none of a request from another node.
    pub(crate) method: Option<&'static str>,
}

/// The methods that OpenTelemetry names, and the name that it has for all others.
const METHODS: [&str; 9] =
    ["GET", "PUT", "POST", "DELETE", "HEAD", "PATCH", "OPTIONS", "CONNECT", "TRACE"];
const OTHER_METHOD: &str = "_OTHER";

/// What a request asks to be traced: the caller's trace with its notes, and the method.
#[derive(Default)]
struct Wish {
    parent: Option<TraceParent>,
    state: Option<Box<str>>,
    method: Option<&'static str>,
}

/// The choice of requests that are traced, and those under way.
pub(crate) struct Traced {
    /// Of 2^64 requests without a trace of their own, how many begin one; zero if nothing is
    /// exported.
    threshold: u64,
    is_on: bool,
    under_way: Mutex<UnderWay>,
    /// The number of those under way, to be looked at without the lock.
    count: AtomicUsize,
    forgotten: AtomicU64,
}

#[derive(Default)]
struct UnderWay {
    by_request: HashMap<u64, (u64, Trace)>,
    /// The requests in the order in which they began.
    by_age: BTreeMap<u64, u64>,
    begun: u64,
}

impl Traced {
    /// Traces the requests that callers trace, and `share` of the rest; nothing if not `is_on`.
    pub(crate) fn new(is_on: bool, share: f64) -> Traced {
        Traced {
            // A share of 1 is every number there is but the last.
            threshold: (share.clamp(0.0, 1.0) * u64::MAX as f64) as u64,
            is_on,
            under_way: Mutex::default(),
            count: AtomicUsize::new(0),
            forgotten: AtomicU64::new(0),
        }
    }

    /// Decides about a request; `random` has to give numbers that are uniform over all of them.
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
        self.decide(Wish { parent, state, method: Some(method) }, number, random)
    }

    fn decide(
        &self,
        Wish { parent, state, method }: Wish,
        number: u64,
        mut random: impl FnMut() -> u64,
    ) -> Option<TraceContext> {
        let context = match parent {
            Some(parent) if !parent.is_sampled => return None,
            Some(parent) => {
                TraceContext { trace: parent.trace, parent: parent.span, span: random().max(1) }
            }
            None if self.threshold == 0 || random() > self.threshold => return None,
            None => {
                let trace = u128::from(random()) << 64 | u128::from(random());
                TraceContext { trace: trace.max(1), parent: 0, span: random().max(1) }
            }
        };
        let mut under_way = self.lock();
        under_way.begun += 1;
        let age = under_way.begun;
        under_way.by_age.insert(age, number);
        under_way.by_request.insert(number, (age, Trace { context, state, method }));
        if under_way.by_request.len() > TRACED_MAX
            && let Some((_, oldest)) = under_way.by_age.pop_first()
        {
            under_way.by_request.remove(&oldest);
            self.forgotten.fetch_add(1, Ordering::Relaxed);
        }
        self.count.store(under_way.by_request.len(), Ordering::Release);
        Some(context)
    }

    /// Traces a request that came from another node, under the span there.
    pub(crate) fn begin_below(&self, of: TraceOfAsk<'_>, number: u64, random: impl FnMut() -> u64) {
        if self.is_on {
            let parent = TraceParent { trace: of.trace, span: of.span, is_sampled: true };
            let state = (!of.state.is_empty()).then(|| Box::from(of.state));
            self.decide(Wish { parent: Some(parent), state, method: None }, number, random);
        }
    }

    /// The trace of a request that is under way.
    #[inline]
    pub(crate) fn of(&self, number: u64) -> Option<TraceContext> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.lock().by_request.get(&number).map(|(_, trace)| trace.context)
    }

    /// The same with the notes of others on the trace.
    #[inline]
    pub(crate) fn whole_of(&self, number: u64) -> Option<Trace> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.lock().by_request.get(&number).map(|(_, trace)| trace.clone())
    }

    /// Ends the trace of a request, and gives it.
    #[inline]
    pub(crate) fn end(&self, number: u64) -> Option<Trace> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut under_way = self.lock();
        let (age, trace) = under_way.by_request.remove(&number)?;
        under_way.by_age.remove(&age);
        self.count.store(under_way.by_request.len(), Ordering::Release);
        Some(trace)
    }

    /// Traced requests whose record did not come.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn the_callers_decision_stands() {
        let traced = Traced::new(true, 1.0);
        let state = Some(Box::from("a=1"));
        let parent = |is_sampled| Wish {
            parent: Some(TraceParent { trace: 5, span: 6, is_sampled }),
            state: state.clone(),
            method: Some("PUT"),
        };
        assert_eq!(traced.decide(parent(false), 1, counter()), None);
        let context = traced.decide(parent(true), 2, counter()).unwrap();
        assert_eq!((context.trace, context.parent), (5, 6));
        assert_eq!(traced.of(2), Some(context));
        let trace = Trace { context, state: state.clone(), method: Some("PUT") };
        assert_eq!((traced.end(2), traced.end(2)), (Some(trace), None));
    }

    #[test]
    fn a_share_of_the_others_begin_a_trace() {
        let none = Traced::new(true, 0.0);
        let all = Traced::new(true, 1.0);
        let half = Traced::new(true, 0.5);
        assert!(none.decide(Wish::default(), 1, || 0).is_none());
        let begun = all.decide(Wish::default(), 1, || u64::MAX - 1);
        assert!(begun.is_some_and(|context| context.parent == 0));
        assert!(half.decide(Wish::default(), 1, || u64::MAX / 4).is_some());
        assert!(half.decide(Wish::default(), 2, || u64::MAX / 4 * 3).is_none());
    }

    #[test]
    fn traces_whose_records_never_come_do_not_pile_up() {
        let traced = Traced::new(true, 1.0);
        let mut random = counter();
        for number in 0..TRACED_MAX as u64 + 10 {
            traced.decide(Wish::default(), number, &mut random);
        }
        assert_eq!((traced.forgotten(), traced.count.load(Ordering::Relaxed)), (10, TRACED_MAX));
        assert!(traced.of(9).is_none() && traced.of(10).is_some());
    }
}

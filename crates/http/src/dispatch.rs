//! Passes requests to the service and takes its replies, independent of the protocol version.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mio::Registry;
use pellucid_account::{InFlightGuard, Phase, RequestFacts, Stamp, Timeline};
use pellucid_budget::{Budget, BudgetError, Share};
use pellucid_clock::Ticks;
use pellucid_thread::{ContainedPanic, contain, set_operation, set_phase};

use crate::abort_reason::AbortReason;
use crate::accounts::{Accounts, Trace};
use crate::body_source::{BodySource, FillResult, ServiceResult};
use crate::caller::Caller;
use crate::client_watch::ClientWatch;
use crate::compression::Compressor;
use crate::h1::parse::Head;
use crate::limits::{Limits, RESPONSE_BYTES_FREE};
use crate::links::LinkContext;
use crate::mailbox::{Admission, ConnectionId, Mailbox, Message};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::response::{DateLine, Outcome, Response, ResponseBuffers, ResponseOptions};
use crate::service::{AdmissionContext, Exchange, Service};

/// Parking places that a loop keeps for reuse.
const SPARE_PLACES_MAX: usize = 64;

/// A request that was handed over to another thread, and waits to be completed.
pub(crate) struct ParkedRequest {
    pub(crate) trace: Trace,
    pub(crate) manner: ResponseOptions,
    /// Shows the request among those under way, until it is dropped.
    flight: InFlightGuard,
    /// The watch that is told when the client is gone; none if nobody asked for one.
    pub(crate) watch: Option<ClientWatch>,
}

/// The place of a parked request: memory that its loop reuses for the next one.
pub(crate) type ParkingSlot = Box<Option<ParkedRequest>>;

/// The result of a call of the service.
pub(crate) enum DispatchResult {
    /// The response is finished, except for a body that is streamed.
    Answered(ServiceResult, Outcome),
    /// The request was handed over.
    Later(Option<ClientWatch>),
}

/// The input of a call of the service.
pub(crate) enum ServiceInput<'a, L> {
    /// A complete request.
    Request(&'a Request<'a>),
    /// The value that a hand-over brought back.
    Later(L),
}

/// The context of one call of the service.
pub(crate) struct Call<'a> {
    pub(crate) id: ConnectionId,
    pub(crate) caller: &'a Caller,
    pub(crate) may_upgrade: bool,
    pub(crate) manner: ResponseOptions,
    pub(crate) watch: Option<ClientWatch>,
}

/// The service of one event loop, with the resources that its replies need.
pub(crate) struct Dispatcher<S: Service> {
    pub(crate) accounts: Accounts,
    service: S,
    mailbox: Arc<Mailbox<S::LoopMessage>>,
    compressor: Compressor,
    date_line: DateLine,
    date_until: Ticks,
    spare_places: Vec<ParkingSlot>,
    /// True if the server stops: a connection is closed once its requests are answered.
    is_stopping: bool,
}

impl<S: Service> Dispatcher<S> {
    pub(crate) fn new(
        accounts: Accounts,
        service: S,
        mailbox: Arc<Mailbox<S::LoopMessage>>,
    ) -> Dispatcher<S> {
        let clock = *accounts.clock();
        let meter = Arc::clone(&accounts.shared().compression);
        Dispatcher {
            service,
            mailbox,
            compressor: Compressor::new(meter, accounts.index()),
            accounts,
            date_line: DateLine::at(clock.wall()),
            date_until: clock.now(),
            spare_places: Vec::with_capacity(SPARE_PLACES_MAX),
            is_stopping: false,
        }
    }

    #[inline]
    pub(crate) fn limits(&self) -> &Limits {
        &self.accounts.shared().limits
    }

    pub(crate) fn mailbox(&self) -> &Mailbox<S::LoopMessage> {
        &self.mailbox
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    pub(crate) fn stop(&mut self) {
        self.is_stopping = true;
    }

    #[inline]
    pub(crate) fn refresh_date(&mut self, now: Ticks) {
        if now >= self.date_until {
            let clock = self.accounts.clock();
            let wall = clock.wall();
            let left_ms = 1_000 - wall.unix_ms() % 1_000;
            self.date_until = Ticks(now.0 + clock.ticks(left_ms * 1_000_000));
            self.date_line = DateLine::at(wall);
        }
    }

    /// The most bytes that the body of a request with this target may have.
    #[inline]
    pub(crate) fn body_bytes_max(&self, method: &str, path: &str, query: Option<&str>) -> usize {
        self.service.body_bytes_max(method, path, query)
    }

    /// Asks the service whether the body behind this head may come.
    pub(crate) fn admit(
        &mut self,
        id: ConnectionId,
        caller: &Caller,
        head: &Head<'_, '_>,
    ) -> Admission {
        let (mailbox, address) = (&self.mailbox, caller.address());
        self.service.admit(head, &AdmissionContext { mailbox, connection: id, address })
    }

    /// True if the limit of requests in flight is reached.
    #[inline]
    pub(crate) fn is_overloaded(&self) -> bool {
        let shared = self.accounts.shared();
        let in_flight = shared.requests_in_flight.load(Ordering::Relaxed);
        in_flight >= shared.limits.requests_in_flight
    }

    /// Calls the service for a request, whose response goes to `target`. A panic is answered with
    /// 500. `matter` is none if the code panicked that the request was handed over to: that is
    /// answered with 500 too.
    #[inline]
    pub(crate) fn serve(
        &mut self,
        matter: Option<ServiceInput<'_, S::LoopMessage>>,
        call: Call<'_>,
        trace: &mut Trace,
        mut target: ResponseBuffers<'_>,
    ) -> DispatchResult {
        let Some(matter) = matter else { return self.fail(None, call.manner, trace, target) };
        let begin = target.out.len();
        let is_taken = Cell::new(false);
        let (called, watch) = {
            let mut response = Response::new(target.reborrow(), &self.date_line, call.manner);
            response.code_by(&mut self.compressor);
            let mut exchange = Exchange {
                timeline: &mut trace.timeline,
                facts: &mut trace.facts,
                mailbox: &self.mailbox,
                connection: call.id,
                address: call.caller.address(),
                may_upgrade: call.may_upgrade,
                is_taken: &is_taken,
                watch: call.watch,
            };
            let service = &mut self.service;
            // Each closure holds references alone: what it owns is copied for each request.
            let called = match matter {
                ServiceInput::Request(request) => contain(|| {
                    let handled = service.handle(request, &mut response, &mut exchange);
                    response.conclude(handled)
                }),
                ServiceInput::Later(later) => contain(|| {
                    let handled = service.resume(later, &mut response, &mut exchange);
                    response.conclude(handled)
                }),
            };
            (called, exchange.watch)
        };
        match called {
            Ok((ServiceResult::Later, outcome)) => {
                assert!(outcome.is_none(), "a request is either answered or handed over");
                DispatchResult::Later(watch)
            }
            Ok((handled, outcome)) => {
                if watch.is_some_and(|watch| watch.is_gone()) {
                    trace.facts.outcome = self.outcome_of(AbortReason::ClientGone);
                }
                let outcome = outcome.expect("a service that is done has finished its response");
                DispatchResult::Answered(handled, outcome)
            }
            Err(panicked) => {
                if is_taken.get() {
                    // The completer will still send its message, which is counted as in flight.
                    self.accounts.count_in_flight();
                }
                target.reset(begin);
                self.fail(Some(&panicked), call.manner, trace, target)
            }
        }
    }

    /// Answers a request whose code panicked.
    #[cold]
    fn fail(
        &mut self,
        panicked: Option<&ContainedPanic>,
        manner: ResponseOptions,
        trace: &mut Trace,
        target: ResponseBuffers<'_>,
    ) -> DispatchResult {
        let kind = self.service.facts_of_refusal(&Refusal::Failed);
        let Trace { timeline, facts } = trace;
        facts.outcome = kind.outcome;
        if timeline.taken(Stamp::Routed).is_none() {
            facts.operation = kind.operation;
        }
        end_execution(timeline);
        self.service.panicked(panicked, timeline, facts);
        let manner = ResponseOptions { keep_alive: false, coding: None, ..manner };
        let outcome = self.write_refusal(&Refusal::Failed, manner, target);
        DispatchResult::Answered(ServiceResult::Done, outcome)
    }

    /// Answers a request that the transport refuses.
    pub(crate) fn refuse(
        &mut self,
        refusal: &Refusal,
        manner: ResponseOptions,
        trace: &mut Trace,
        target: ResponseBuffers<'_>,
    ) -> Outcome {
        let RequestFacts { operation, outcome, .. } = self.service.facts_of_refusal(refusal);
        (trace.facts.operation, trace.facts.outcome) = (operation, outcome);
        end_execution(&mut trace.timeline);
        self.write_refusal(refusal, manner, target)
    }

    fn write_refusal(
        &self,
        refusal: &Refusal,
        manner: ResponseOptions,
        target: ResponseBuffers<'_>,
    ) -> Outcome {
        let mut response = Response::new(target, &self.date_line, manner);
        response.refuse(refusal);
        response.outcome().expect("a refusal is a finished response")
    }

    /// Keeps a request that was handed over, until it is taken back.
    pub(crate) fn park(
        &mut self,
        trace: &Trace,
        manner: ResponseOptions,
        watch: Option<ClientWatch>,
    ) -> ParkingSlot {
        self.accounts.count_in_flight();
        let flight = self.send_away(trace);
        let mut place = self.spare_places.pop().unwrap_or_default();
        *place = Some(ParkedRequest { trace: trace.clone(), manner, flight, watch });
        place
    }

    /// Shows a request among those under way, until the flight is dropped.
    pub(crate) fn send_away(&self, trace: &Trace) -> InFlightGuard {
        self.accounts.recorder().send_away(&trace.timeline)
    }

    /// Shows a request whose hand-over ended as the one at which the loop works. Returns its watch.
    pub(crate) fn take_back(&self, parked: &mut ParkedRequest) -> Option<ClientWatch> {
        let ParkedRequest { trace, flight, watch, .. } = parked;
        self.accounts.recorder().take_back(&trace.timeline, std::mem::take(flight));
        set_operation(trace.facts.operation + 1);
        set_phase(Phase::Execute.label());
        watch.take()
    }

    /// Keeps the place of a request that was taken back for another one.
    pub(crate) fn reuse(&mut self, mut place: ParkingSlot) {
        if self.spare_places.len() < SPARE_PLACES_MAX {
            *place = None;
            self.spare_places.push(place);
        }
    }

    /// The outcome of a request that ends before its response is out.
    pub(crate) fn outcome_of(&self, ending: AbortReason) -> u8 {
        self.service.outcome_of(ending)
    }

    /// Ends a request that is handed over, and leaves its place empty.
    pub(crate) fn end_parked(&self, place: &mut ParkingSlot, ending: AbortReason) {
        if let Some(ParkedRequest { mut trace, watch, .. }) = place.take() {
            watch.iter().for_each(ClientWatch::tell);
            self.accounts.end(&mut trace, self.outcome_of(ending));
        }
    }

    /// True if the service's links have something to send.
    #[inline]
    pub(crate) fn has_to_settle(&self) -> bool {
        self.service.has_to_settle()
    }

    /// Gives the service a turn with its links; the messages that it leads to go to `due`.
    pub(crate) fn turn_links<T>(
        &mut self,
        registry: &Registry,
        due: &mut Vec<Message<S::LoopMessage>>,
        woke: Ticks,
        turn: impl FnOnce(&mut S, &mut LinkContext<'_, S::LoopMessage>) -> T,
    ) -> T {
        let (accounts, mailbox) = (&mut self.accounts, &self.mailbox);
        turn(&mut self.service, &mut LinkContext { registry, accounts, mailbox, due, woke })
    }
}

/// Takes the stamps up to `executed` that a request does not have yet, all with one reading.
fn end_execution(timeline: &mut Timeline) {
    let mut now = None;
    for stamp in [Stamp::Routed, Stamp::Started, Stamp::Executed] {
        if timeline.taken(stamp).is_none() {
            match now {
                None => now = Some(timeline.stamp(stamp)),
                Some(now) => timeline.stamp_at(stamp, now),
            }
        }
    }
}

/// Calls `source` for its next piece. A panic of it is caught and ends the body as broken, without
/// the piece.
pub(crate) fn fill_contained(source: &mut dyn BodySource, out: &mut Vec<u8>) -> FillResult {
    let begin = out.len();
    contain(|| source.fill(out)).unwrap_or_else(|panicked| {
        panicked.tell();
        out.truncate(begin);
        FillResult::Broken
    })
}

/// Takes memory from the budget for the bytes that the source of a streamed response holds.
pub(crate) fn hold_source(
    memory: &Budget,
    handled: &ServiceResult,
) -> Result<Option<Share>, BudgetError> {
    match handled {
        ServiceResult::Stream(source) if source.held_bytes() > RESPONSE_BYTES_FREE => {
            let mut share = memory.share(usize::MAX);
            share.take(source.held_bytes())?;
            Ok(Some(share))
        }
        _ => Ok(None),
    }
}

//! The recorder of one thread: begins timelines and records finished ones.

use std::sync::Arc;

use pellucid_clock::{Clock, Ticks};

use crate::in_flight::{CurrentRequest, DetachedRequests, InFlightGuard, InFlightRequest};
use crate::phase::{Phase, STAMPS, Stamp};
use crate::probe;
use crate::record::{Record, RequestFacts};
use crate::ring::{RING_RECORDS, Ring};
use crate::state::{Accounting, SharedAccount};
use crate::timeline::Timeline;
use crate::transport::TransportPart;

/// Makes timelines for one thread and records them when their requests are done.
pub struct Recorder {
    clock: Clock,
    ring: Option<Arc<Ring>>,
    present: &'static CurrentRequest,
    away: Arc<DetachedRequests>,
    shared: Arc<SharedAccount>,
}

impl Recorder {
    /// A recorder for the calling thread's requests.
    pub(crate) fn new(shared: &Arc<SharedAccount>) -> Recorder {
        let (present, away) = (CurrentRequest::take(), Arc::new(DetachedRequests::default()));
        let ring = (shared.accounting != Accounting::Off).then(|| {
            let ring = Arc::new(Ring::new(RING_RECORDS));
            shared.state().read_also(Arc::clone(&ring), present, Arc::clone(&away));
            ring
        });
        Recorder { clock: shared.clock, ring, present, away, shared: Arc::clone(shared) }
    }

    /// True if readings are taken.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.ring.is_some()
    }

    /// A reading of the clock; zero ticks if accounting is off.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Ticks {
        if self.ring.is_some() { self.clock.now() } else { Ticks(0) }
    }

    /// A timeline for a request whose first byte was readable at `arrived`.
    #[inline]
    #[must_use]
    pub fn begin(&self, arrived: Ticks) -> Timeline {
        if self.ring.is_none() {
            return Timeline::off();
        }
        let mut timeline = Timeline::begin(self.clock, arrived);
        timeline.show_in(self.present);
        timeline.name_parts(self.shared.names.parts);
        timeline
    }

    /// Notes that this thread works at no request. Call it before the thread waits for the next
    /// one.
    #[inline]
    pub fn rest(&self) {
        self.present.rest();
    }

    /// Shows a request as away from this thread (handed over or streamed) until the returned flight
    /// is dropped.
    pub fn send_away(&self, timeline: &Timeline) -> InFlightGuard {
        if !timeline.is_on() {
            return InFlightGuard::default();
        }
        self.present.rest();
        let taken = STAMPS.iter().rev().find(|stamp| timeline.taken(**stamp).is_some());
        self.away.put(InFlightRequest {
            request: timeline.request(),
            operation: timeline.operation(),
            received: timeline.taken(Stamp::Received).unwrap_or_default(),
            phase: taken.map_or(Phase::Receive, |stamp| stamp.phase()),
            is_on_loop: false,
        })
    }

    /// Shows a request that was away as the one at which this thread works.
    pub fn take_back(&self, timeline: &Timeline, flight: InFlightGuard) {
        drop(flight);
        if timeline.is_on() {
            let received = timeline.taken(Stamp::Received).unwrap_or_default();
            self.present.begin(timeline.request(), received);
            let taken = STAMPS.iter().rev().find(|stamp| timeline.taken(**stamp).is_some());
            self.present.note(timeline.operation(), taken.copied().unwrap_or(Stamp::Received));
        }
    }

    /// Records a finished request.
    #[inline]
    pub fn record(&self, timeline: &Timeline, facts: RequestFacts) {
        if let Some(record) = self.seal(timeline, facts) {
            self.push(&record);
        }
    }

    /// Makes the record of a request that lacks only its last stamp; it is half as large as the
    /// timeline that it replaces. None if accounting is off.
    #[inline]
    #[must_use]
    pub fn seal(&self, timeline: &Timeline, facts: RequestFacts) -> Option<Record> {
        (self.ring.is_some() && timeline.is_on()).then(|| Record::of(timeline, facts))
    }

    /// Records like [`Recorder::record_sealed`]; `encrypt_ticks` of the request's `write` were
    /// spent on encryption.
    #[inline]
    pub fn record_encrypted(&self, record: &mut Record, written: Ticks, encrypt_ticks: u64) {
        record.set_transport_part(TransportPart::Encrypt, encrypt_ticks);
        self.record_sealed(record, written);
    }

    /// Records a request that was sealed before. Its last byte was written at `written`, or it
    /// ended then without a complete response.
    #[inline]
    pub fn record_sealed(&self, record: &mut Record, written: Ticks) {
        record.stamp_written(written);
        if probe::wants_stamps() {
            let (facts, at_ns) = (&record.facts, self.clock.nanoseconds(written.0));
            let operation = u64::from(facts.operation);
            probe::stamp(facts.request, operation, Stamp::Written as u64, at_ns, 0);
        }
        self.push(record);
    }

    /// Counts some of this thread's records now, if accounting is full. This takes some ten
    /// microseconds, and is for a thread that pauses. Otherwise the draining thread does it later,
    /// on the same processor if there is no other.
    pub fn count_some(&self) {
        if let Some(ring) = &self.ring {
            self.shared.count_some(ring);
        }
    }

    #[inline]
    fn push(&self, record: &Record) {
        if let Some(ring) = &self.ring {
            ring.push(record);
            if probe::wants_ends() {
                self.fire_end(record);
            }
        }
    }

    #[cold]
    fn fire_end(&self, record: &Record) {
        let facts = &record.facts;
        let (operation, outcome) = (u64::from(facts.operation), u64::from(facts.outcome));
        let ns = |ticks: u64| self.clock.nanoseconds(ticks);
        let execute_ns = ns(record.phase_ticks(Phase::Execute));
        probe::done(facts.request, operation, outcome, ns(record.total_ticks()), execute_ns);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.present.give_back();
    }
}

//! The accounts of the requests of one event loop: their timelines and facts.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pellucid_account::{Record, Recorder, RequestFacts, Stamp, Timeline, TransportPart};
use pellucid_budget::Budget;
use pellucid_clock::{Clock, Ticks};

use crate::output::{Output, SpareQueues};
use crate::shared_state::SharedState;
use crate::tls::TlsMeter;

/// The clock readings that the requests of one turn share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TurnTimestamps {
    /// The moment of the wake-up.
    pub(crate) woke: Ticks,
    /// The moment at which the input became readable: the wake-up, or an earlier one for input that
    /// has waited for another request.
    pub(crate) arrived: Ticks,
    /// The moment at which the loop turned to this connection.
    pub(crate) attended: Ticks,
    /// The end of the last read.
    pub(crate) received: Ticks,
    /// The end of the wait for requests that were read before this one; none without such a wait.
    pub(crate) waited_until: Option<Ticks>,
    /// Ticks that the connection had spent decrypting before the wake-up.
    pub(crate) decrypted_before: u64,
    /// Ticks that the connection has spent decrypting until now.
    pub(crate) decrypted: u64,
}

impl TurnTimestamps {
    /// The readings of a turn in which nothing was read yet.
    #[inline]
    pub(crate) fn at(woke: Ticks, attended: Ticks) -> TurnTimestamps {
        TurnTimestamps { woke, arrived: woke, attended, received: attended, ..Default::default() }
    }
}

/// The clock readings at the first byte of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestStart {
    arrived: Ticks,
    /// The moment from which the time limit of the request counts.
    pub(crate) due_since: Ticks,
    attended: Ticks,
    /// Ticks that the connection had spent decrypting until then.
    decrypted: u64,
}

impl RequestStart {
    /// The readings of a request whose first byte came with the wake-up of `turn`.
    #[inline]
    pub(crate) fn of(turn: &TurnTimestamps) -> RequestStart {
        RequestStart {
            arrived: turn.arrived,
            due_since: turn.woke,
            attended: turn.attended,
            decrypted: turn.decrypted_before,
        }
    }

    /// Lets the request begin after the wait for another one: it is incomplete even then, so the
    /// wait has not delayed it.
    pub(crate) fn leave_wait_out(&mut self) {
        self.arrived = self.due_since;
        self.attended = self.attended.max(self.due_since);
    }
}

/// The account of a request that is under way.
#[derive(Clone)]
pub(crate) struct Trace {
    pub(crate) timeline: Timeline,
    pub(crate) facts: RequestFacts,
}

/// The accounts of one event loop.
pub(crate) struct Accounts {
    index: usize,
    shared: Arc<SharedState>,
    clock: Clock,
    recorder: Recorder,
    requests: u64,
    /// The last reading: the next request begins where the one before it ended.
    last: Ticks,
    queues: SpareQueues,
}

impl Accounts {
    pub(crate) fn new(index: usize, shared: Arc<SharedState>, recorder: Recorder) -> Accounts {
        let (clock, queues) = (shared.clock, SpareQueues::default());
        Accounts { index, shared, clock, recorder, requests: 0, last: Ticks(0), queues }
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Arc<SharedState> {
        &self.shared
    }

    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn memory(&self) -> &Budget {
        &self.shared.limits.memory
    }

    pub(crate) fn tls_meter(&self) -> &TlsMeter {
        &self.shared.tls[self.index]
    }

    #[inline]
    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The number of the next request. The loop's index is in the upper bits, so that loops need no
    /// shared counter.
    #[inline]
    pub(crate) fn next_request(&mut self) -> u64 {
        self.requests += 1;
        (self.index as u64) << 48 | self.requests
    }

    /// Reads the clock for an account, and keeps the reading as the last one.
    #[inline]
    pub(crate) fn read_clock(&mut self) -> Ticks {
        self.last = self.recorder.now();
        self.last
    }

    /// The last reading of the clock.
    #[inline]
    pub(crate) fn last(&self) -> Ticks {
        self.last
    }

    #[inline]
    pub(crate) fn set_last(&mut self, at: Ticks) {
        self.last = at;
    }

    /// The last reading; the current time if accounting is off.
    #[inline]
    pub(crate) fn now(&self) -> Ticks {
        if self.recorder.is_on() { self.last } else { self.clock.now() }
    }

    /// Adds one request to the count of those in flight.
    pub(crate) fn count_in_flight(&self) {
        self.shared.requests_in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one request off the count of those in flight.
    pub(crate) fn uncount_in_flight(&self) {
        self.shared.requests_in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// Begins the account of a request of `bytes` bytes that is complete with `turn`, and parsed.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        begun: RequestStart,
        turn: &TurnTimestamps,
        bytes: usize,
        connection: u32,
    ) -> Trace {
        let request = self.next_request();
        let mut timeline = self.recorder.begin(begun.arrived);
        timeline.identify(request, turn.received);
        timeline.attend_at(begun.attended);
        timeline.stamp_at(Stamp::Received, turn.received);
        if let Some(until) = turn.waited_until {
            timeline.wait_until(until);
        }
        // Nothing was decrypted since the read that completed the request.
        let decrypted = turn.decrypted.saturating_sub(begun.decrypted);
        timeline.set_transport_part(TransportPart::Decrypt, decrypted);
        timeline.stamp(Stamp::Parsed);
        let request_bytes = saturating_u32(bytes);
        let facts = RequestFacts { request, request_bytes, connection, ..RequestFacts::default() };
        Trace { timeline, facts }
    }

    /// Ends the account of a response that is encoded, except for its last stamp.
    #[inline]
    pub(crate) fn seal(&mut self, trace: &mut Trace) -> Option<Record> {
        self.last = trace.timeline.stamp(Stamp::Encoded);
        self.recorder.seal(&trace.timeline, trace.facts)
    }

    /// Queues a response in `output`; it ends at `end` of the bytes behind the unsent ones.
    #[inline]
    pub(crate) fn finish(&mut self, output: &mut Output, record: Option<Record>, end: usize) {
        output.finish(record, end, &mut self.queues);
    }

    /// Records the responses that end within the first `sent` bytes of `output`, which are out.
    #[inline]
    pub(crate) fn note_sent(&mut self, output: &mut Output, sent: usize, is_encrypted: bool) {
        let (written, recorder) = (self.read_clock(), &self.recorder);
        output.note_sent(sent, &mut self.queues, |record, encrypt_ticks| {
            if is_encrypted {
                recorder.record_encrypted(record, written, encrypt_ticks);
            } else {
                recorder.record_sealed(record, written);
            }
        });
    }

    /// Records a request that ends now, before its response is encoded.
    pub(crate) fn end(&self, trace: &mut Trace, outcome: u8) {
        trace.facts.outcome = outcome;
        trace.timeline.close(self.clock.now());
        self.recorder.record(&trace.timeline, trace.facts);
    }

    /// Records a request that ends now, although its response is encoded and not out.
    pub(crate) fn end_sealed(&self, record: &mut Record, outcome: u8) {
        record.facts.outcome = outcome;
        self.recorder.record_sealed(record, self.clock.now());
    }
}

pub(crate) fn saturating_u32(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

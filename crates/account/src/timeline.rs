//! The timeline: the stamps and laps that one request collects on its way.

use pellucid_clock::{Clock, Ticks};

use crate::in_flight::{CurrentRequest, NOBODY, OPERATION_UNKNOWN};
use crate::phase::{Part, Phase, STAMPS, Stamp};
use crate::probe;
use crate::transport::{TransportPart, TransportTicks};

/// The largest number of parts of `execute` that a store may name.
pub const PARTS_MAX: usize = 8;

/// The store's work for a request, counted rather than timed, because a stamp costs more than the
/// search of a level in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineCounts {
    /// Look-ups in the ledger; if there are none, `found_in` has no meaning.
    pub look_ups: u8,
    /// The place where the key was found: 0 nowhere, 1 memtable, 2 + n level n.
    pub found_in: u8,
    /// Ledger tables whose key range held the key.
    pub tables: u8,
    /// Filters that ruled the key out.
    pub filters_excluded: u8,
    /// Filters that let a key pass which the table does not hold (false positives).
    pub filters_false: u8,
    /// Ledger blocks searched.
    pub blocks: u8,
    /// Journal records read.
    pub records: u8,
}

/// The stamps and laps of one request, passed along by `&mut`.
///
/// A stamp marks the border between two phases. A lap adds the time since the last stamp or lap to
/// one part of `execute`, so that parts, like phases, never overlap. A timeline that is off takes
/// no readings and costs a branch.
///
/// ```
/// use pellucid_account::{Part, Phase, Stamp, Timeline};
/// use pellucid_clock::Clock;
///
/// const LOOK_UP: Part = Part::new(0);
/// let clock = Clock::system();
/// let mut timeline = Timeline::begin(clock, clock.now());
/// timeline.stamp(Stamp::Received);
/// timeline.stamp(Stamp::Started);
/// timeline.lap(LOOK_UP);
/// timeline.stamp(Stamp::Executed);
/// assert!(timeline.part_ticks(LOOK_UP) <= timeline.phase_ticks(Phase::Execute));
/// ```
#[derive(Clone, Debug)]
pub struct Timeline {
    clock: Clock,
    on: bool,
    /// Bit n is set once stamp n is taken.
    taken: u8,
    stamps: [Ticks; STAMPS.len()],
    /// The beginning of the current lap.
    lap_began: Ticks,
    /// True if a lap was closed since the last stamp.
    lapped: bool,
    /// The moment at which the event loop turned to the connection, between arrived and received.
    attended: Ticks,
    /// Ticks that the received request waited behind its predecessors on the connection.
    waited_ticks: u64,
    parts_ticks: [u64; PARTS_MAX],
    /// The transport's times within its phases.
    transport: TransportTicks,
    /// The number of the request, once it is known.
    request: u64,
    /// The slot of its operation, once it is known.
    operation: u8,
    /// The place in which other threads see the request under way.
    present: &'static CurrentRequest,
    /// The number of the background job that the request waited for longest; zero for none.
    waited_for: u64,
    /// The ticks of that wait.
    waited_for_ticks: u64,
    /// The store's counts.
    pub counts: EngineCounts,
    /// True if the client asked for the timeline with the response.
    pub is_wanted: bool,
    /// True if more facts follow after the answer.
    is_told_later: bool,
    /// The names of the parts in this account.
    part_names: &'static [&'static str],
}

impl Timeline {
    /// A timeline that is off, for callers without an account.
    #[must_use]
    pub fn off() -> Timeline {
        Timeline::new(Clock::monotonic(), Ticks(0), false)
    }

    /// A timeline for a request whose first byte was readable at `arrived`.
    #[must_use]
    pub fn begin(clock: Clock, arrived: Ticks) -> Timeline {
        Timeline::new(clock, arrived, true)
    }

    fn new(clock: Clock, arrived: Ticks, on: bool) -> Timeline {
        let mut stamps = [Ticks(0); STAMPS.len()];
        stamps[Stamp::Arrived as usize] = arrived;
        Timeline {
            clock,
            on,
            taken: 1 << Stamp::Arrived as u8,
            stamps,
            lap_began: arrived,
            lapped: false,
            attended: arrived,
            waited_ticks: 0,
            parts_ticks: [0; PARTS_MAX],
            transport: TransportTicks::default(),
            request: 0,
            operation: OPERATION_UNKNOWN,
            present: &NOBODY,
            waited_for: 0,
            waited_for_ticks: 0,
            counts: EngineCounts::default(),
            is_wanted: false,
            is_told_later: false,
            part_names: &[],
        }
    }

    /// True if readings are taken.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// The clock that the readings come from.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Takes `stamp` now, and begins a lap. Returns the reading (zero ticks if the timeline is
    /// off).
    #[inline]
    pub fn stamp(&mut self, stamp: Stamp) -> Ticks {
        if !self.on {
            pellucid_thread::set_phase(stamp.label());
            return Ticks(0);
        }
        let now = self.clock.now();
        self.stamp_at(stamp, now);
        now
    }

    /// Takes `stamp` with a reading from elsewhere, and begins a lap at that reading.
    #[inline]
    pub fn stamp_at(&mut self, stamp: Stamp, at: Ticks) {
        pellucid_thread::set_phase(stamp.label());
        if !self.on {
            return;
        }
        self.stamps[stamp as usize] = at;
        self.taken |= 1 << stamp as u8;
        (self.lap_began, self.lapped) = (at, false);
        self.present.note(self.operation, stamp);
        if probe::wants_stamps() {
            self.fire(stamp, at);
        }
    }

    /// A copy with `stamp` taken now, for a report on the request so far. Other threads and probes
    /// do not see the stamp.
    #[must_use]
    pub fn with_stamp(&self, stamp: Stamp) -> Timeline {
        let mut copy = self.clone();
        copy.stamps[stamp as usize] = self.clock.now();
        copy.taken |= 1 << stamp as u8;
        copy
    }

    #[cold]
    fn fire(&self, stamp: Stamp, at: Ticks) {
        let (request, operation) = (self.request, u64::from(self.operation));
        let waited_ns = match stamp {
            Stamp::Parsed => self.clock.nanoseconds(self.waited_ticks),
            _ => 0,
        };
        probe::stamp(request, operation, stamp as u64, self.clock.nanoseconds(at.0), waited_ns);
    }

    /// Sets the number of the request, and the moment at which it was received. From now on, other
    /// threads see it under that number.
    #[inline]
    pub fn identify(&mut self, request: u64, received: Ticks) {
        pellucid_thread::set_request(request);
        if !self.on {
            return;
        }
        self.request = request;
        self.present.begin(request, received);
        if probe::wants_stamps() {
            self.fire(Stamp::Arrived, self.stamps[Stamp::Arrived as usize]);
        }
    }

    /// Sets the operation of the request: a slot of [`crate::Names::operations`].
    #[inline]
    pub fn set_operation(&mut self, operation: u8) {
        self.operation = operation;
    }

    /// Notes that the request waited `ticks` for the background job with this number. It is not
    /// enough that the job ran at the same time. Of several waits, the longest is kept.
    #[inline]
    pub fn wait_for(&mut self, job: u64, ticks: u64) {
        if self.on && job != 0 && ticks >= self.waited_for_ticks {
            (self.waited_for, self.waited_for_ticks) = (job, ticks);
        }
    }

    /// The number of the background job that the request waited for longest; zero for none.
    #[must_use]
    pub fn waited_for(&self) -> u64 {
        self.waited_for
    }

    /// The number of the request; zero while it has none.
    #[must_use]
    pub fn request(&self) -> u64 {
        self.request
    }

    /// Notes that more facts of the request will follow after its answer ([`crate::LateParts`]).
    /// Its record waits for them, for a limited time.
    pub fn tell_later(&mut self) {
        self.is_told_later = true;
    }

    /// True if more facts will follow after the answer.
    pub(crate) fn is_told_later(&self) -> bool {
        self.is_told_later
    }

    /// The slot of its operation; a slot that no operation has while that is unknown.
    #[must_use]
    pub fn operation(&self) -> u8 {
        self.operation
    }

    /// The names of the parts, by slot, of the account to which the timeline belongs.
    #[must_use]
    pub fn part_names(&self) -> &'static [&'static str] {
        self.part_names
    }

    pub(crate) fn name_parts(&mut self, names: &'static [&'static str]) {
        self.part_names = names;
    }

    /// Makes `present` show the progress of the request.
    #[inline]
    pub(crate) fn show_in(&mut self, present: &'static CurrentRequest) {
        self.present = present;
    }

    /// Takes `stamp` at the end of the last lap, or now if there was none since the last stamp.
    /// This saves a reading, which costs more than the few instructions since that lap.
    #[inline]
    pub fn stamp_after_lap(&mut self, stamp: Stamp) {
        if self.lapped {
            self.stamp_at(stamp, self.lap_began);
        } else {
            self.stamp(stamp);
        }
    }

    /// Ends the current phase at `at`, for a request that ends before it is written. Takes the next
    /// of the stamps `executed`, `encoded` and `written`. If a handed-over request has no stamp
    /// `started`, the time before is unaccounted.
    pub fn close(&mut self, at: Ticks) {
        let ends = [Stamp::Executed, Stamp::Encoded, Stamp::Written];
        if let Some(next) = ends.into_iter().find(|stamp| self.taken(*stamp).is_none()) {
            self.stamp_at(next, at);
        }
    }

    /// Notes that the event loop turned to the request's connection at `at`.
    #[inline]
    pub fn attend_at(&mut self, at: Ticks) {
        self.attended = at;
    }

    /// Notes that the received request waited for its predecessors on the connection until `until`.
    /// The wait counts as `queue`, not as `parse`.
    #[inline]
    pub fn wait_until(&mut self, until: Ticks) {
        if self.on {
            self.waited_ticks = until.since(self.stamps[Stamp::Received as usize]);
        }
    }

    /// Adds the time since the last stamp or lap to `part`, and begins the next lap.
    #[inline]
    pub fn lap(&mut self, part: Part) {
        if !self.on {
            return;
        }
        let now = self.clock.now();
        self.parts_ticks[part.slot()] += now.since(self.lap_began);
        (self.lap_began, self.lapped) = (now, true);
    }

    /// Begins a lap at `at`: the time since the last stamp or lap belongs to no part.
    #[inline]
    pub fn begin_lap(&mut self, at: Ticks) {
        if self.on {
            (self.lap_began, self.lapped) = (at, false);
        }
    }

    /// Adds `ticks` that were measured elsewhere (for example by the thread that syncs) to `part`,
    /// and begins the next lap at `until`.
    #[inline]
    pub fn add_part(&mut self, part: Part, ticks: u64, until: Ticks) {
        if self.on {
            self.parts_ticks[part.slot()] += ticks;
            (self.lap_began, self.lapped) = (until, false);
        }
    }

    /// Notes that the transport spent `ticks` of the part's phase on `part`; kept within 0.05 %.
    /// Laps do not change.
    #[inline]
    pub fn set_transport_part(&mut self, part: TransportPart, ticks: u64) {
        if ticks > 0 && self.on {
            self.transport.set(part, ticks);
        }
    }

    /// The noted ticks of a part of the transport; zero if there are none.
    #[must_use]
    pub fn transport_ticks(&self, part: TransportPart) -> u64 {
        self.transport.get(part)
    }

    /// The times of all parts of the transport.
    pub(crate) fn transport(&self) -> TransportTicks {
        self.transport
    }

    /// The beginning of the current lap: the reading of the last stamp or lap.
    #[inline]
    #[must_use]
    pub fn since(&self) -> Ticks {
        self.lap_began
    }

    /// The reading of `stamp`; none if it was not taken.
    #[inline]
    #[must_use]
    pub fn taken(&self, stamp: Stamp) -> Option<Ticks> {
        let is_taken = self.taken & (1 << stamp as u8) != 0;
        is_taken.then(|| self.stamps[stamp as usize])
    }

    /// Ticks between two stamps; zero if one of them is missing.
    #[must_use]
    pub fn between(&self, from: Stamp, to: Stamp) -> u64 {
        match (self.taken(from), self.taken(to)) {
            (Some(from), Some(to)) => to.since(from),
            _ => 0,
        }
    }

    /// Ticks of a phase, so far.
    #[must_use]
    pub fn phase_ticks(&self, phase: Phase) -> u64 {
        let parse_gross = self.between(Stamp::Received, Stamp::Parsed);
        let waited = self.waited_ticks.min(parse_gross);
        match phase {
            Phase::Receive => self.between(Stamp::Arrived, Stamp::Received),
            Phase::Parse => parse_gross - waited,
            Phase::Route => self.between(Stamp::Parsed, Stamp::Routed),
            Phase::Queue => self.between(Stamp::Routed, Stamp::Started) + waited,
            Phase::Execute => self.between(Stamp::Started, Stamp::Executed),
            Phase::Encode => self.between(Stamp::Executed, Stamp::Encoded),
            Phase::Write => self.between(Stamp::Encoded, Stamp::Written),
            Phase::Unaccounted => self.unaccounted_ticks(),
        }
    }

    /// Ticks from received to the last stamp taken: the total once the request is written.
    #[must_use]
    pub fn total_ticks(&self) -> u64 {
        let mut after_arrival = STAMPS[1..].iter().filter_map(|stamp| self.taken(*stamp));
        match after_arrival.next() {
            Some(first) => after_arrival.next_back().map_or(0, |last| last.since(first)),
            None => 0,
        }
    }

    fn unaccounted_ticks(&self) -> u64 {
        let within_total =
            [Phase::Parse, Phase::Route, Phase::Queue, Phase::Execute, Phase::Encode, Phase::Write];
        let accounted: u64 = within_total.iter().map(|phase| self.phase_ticks(*phase)).sum();
        self.total_ticks().saturating_sub(accounted)
    }

    /// Ticks that `receive` spent before the event loop turned to the connection.
    #[must_use]
    pub fn loop_wait_ticks(&self) -> u64 {
        self.attended.since(self.stamps[Stamp::Arrived as usize])
    }

    /// Ticks that the received request waited behind its predecessors.
    pub(crate) fn waited_ticks(&self) -> u64 {
        self.waited_ticks
    }

    /// The readings of all stamps; zero for those that were not taken.
    pub(crate) fn stamps(&self) -> &[Ticks; STAMPS.len()] {
        &self.stamps
    }

    /// The stamps that were taken: bit n is set for stamp n.
    pub(crate) fn taken_bits(&self) -> u8 {
        self.taken
    }

    /// Ticks of each part, by slot.
    pub(crate) fn parts(&self) -> &[u64; PARTS_MAX] {
        &self.parts_ticks
    }

    /// Ticks of `part` so far.
    #[must_use]
    pub fn part_ticks(&self, part: Part) -> u64 {
        self.parts_ticks[part.slot()]
    }
}

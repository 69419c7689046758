//! The fixed-size record of a finished request, made from its timeline.

use crate::compact_duration::CompactDuration;
use crate::phase::{PHASES, Part, Phase, STAMPS, Stamp};
use crate::timeline::{EngineCounts, PARTS_MAX, Timeline};
use crate::transport::{TransportPart, TransportTicks};
use pellucid_clock::Ticks;

/// The number of 64-bit words of a record: two cache lines.
pub(crate) const RECORD_WORDS: usize = 16;

/// The smallest unit of durations is 2^3 ticks: a few nanoseconds, less than a reading costs.
pub(crate) const SHIFT_MIN: u32 = 3;

/// The bits of a job's number: at a million jobs a second they last for nine years.
const JOB_BITS: u32 = 48;
const JOB_MASK: u64 = (1 << JOB_BITS) - 1;

/// The facts that the transport and the API add to the timeline when the request is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFacts {
    /// The number of the request on this server, with its event loop's index in the upper 16 bits.
    pub request: u64,
    /// The slot of the operation's name in [`crate::Names::operations`].
    pub operation: u8,
    /// The slot of the outcome's name in [`crate::Names::outcomes`].
    pub outcome: u8,
    /// The status code of the response.
    pub status: u16,
    /// Bytes of the request, head and body.
    pub request_bytes: u32,
    /// Bytes of the response, head and body.
    pub response_bytes: u32,
    /// The number of the connection on this server.
    pub connection: u32,
    /// The hash of the key that was asked for, with a seed of this process; zero without a key.
    pub key_hash: u64,
}

/// The record of a finished request. Durations are multiples of `1 << shift` ticks; the shift is
/// chosen so that the longest duration fits, however long the request took.
///
/// In the ring it has 128 bytes, of which only a few bits are unused. Stamps, the parts of
/// `execute` and the wait behind earlier requests have 32 bits each, because the phases have to add
/// up. The parts of the other phases (`loop_wait`, and those of the transport) only have to lie
/// within their phases, so they have 16 bits each, within 0.05 % of the measured value. The number
/// of the job has 48 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The reading of the stamp `arrived`, in ticks.
    pub arrived_ticks: u64,
    /// The facts of the request and its answer.
    pub facts: RequestFacts,
    /// The store's counts.
    pub counts: EngineCounts,
    /// True if more facts follow after the answer ([`Timeline::tell_later`]).
    pub(crate) is_told_later: bool,
    pub(crate) shift: u8,
    /// The stamps that were taken: bit n for stamp n.
    pub(crate) taken: u8,
    /// The distances of the other stamps from `arrived`.
    pub(crate) offsets: [u32; STAMPS.len() - 1],
    pub(crate) waited: u32,
    pub(crate) parts: [u32; PARTS_MAX],
    pub(crate) loop_wait: CompactDuration,
    /// The lower 32 bits of the transport's times.
    pub(crate) transport_low: u32,
    /// The upper 16 bits of the transport's times, above the number of the job that the request
    /// waited for. They share a word, so that a record has 128 bytes in memory too: it is moved
    /// several times before it is in the ring.
    pub(crate) job_word: u64,
}

impl Record {
    /// The record of a finished timeline.
    #[must_use]
    pub fn of(timeline: &Timeline, facts: RequestFacts) -> Record {
        let stamps = timeline.stamps();
        let arrived = stamps[Stamp::Arrived as usize];
        // A stamp that was not taken reads zero, which is not after any arrival.
        let offsets: [u64; STAMPS.len() - 1] =
            std::array::from_fn(|index| stamps[index + 1].since(arrived));
        let waited = timeline.waited_ticks();
        let parts = timeline.parts();
        // `all` has as many bits as the longest duration.
        let all = offsets.iter().chain(parts).fold(waited, |all, ticks| all | ticks);
        let shift = (u64::BITS - all.leading_zeros()).saturating_sub(u32::BITS).max(SHIFT_MIN);
        let scale = |ticks: u64| (ticks >> shift) as u32;
        let transport = timeline.transport().bits();
        Record {
            arrived_ticks: arrived.0,
            facts,
            counts: timeline.counts,
            is_told_later: timeline.is_told_later(),
            shift: shift as u8,
            taken: timeline.taken_bits(),
            offsets: offsets.map(scale),
            waited: scale(waited),
            parts: parts.map(scale),
            loop_wait: CompactDuration::of(timeline.loop_wait_ticks()),
            transport_low: transport as u32,
            job_word: (transport >> 32) << JOB_BITS | (timeline.waited_for() & JOB_MASK),
        }
    }

    /// Adds the last stamp, `written`, to a record that was made before it.
    #[inline]
    pub(crate) fn stamp_written(&mut self, at: Ticks) {
        let ticks = at.since(Ticks(self.arrived_ticks));
        if ticks >> self.shift > u64::from(u32::MAX) {
            self.make_room_for(ticks);
        }
        self.offsets[Stamp::Written as usize - 1] = (ticks >> self.shift) as u32;
        self.taken |= 1 << Stamp::Written as u8;
    }

    /// Sets the time that the transport measured for `part`.
    #[inline]
    pub(crate) fn set_transport_part(&mut self, part: TransportPart, ticks: u64) {
        let mut transport = self.transport();
        transport.set(part, ticks);
        let bits = transport.bits();
        self.transport_low = bits as u32;
        self.job_word = (bits >> 32) << JOB_BITS | self.waited_for();
    }

    /// Moves ticks from the part `of` to `parts`, at most as many as it has.
    pub(crate) fn divide(&mut self, of: Part, parts: &[(Part, u64)]) {
        for (part, ticks) in parts {
            let left = &mut self.parts[of.slot()];
            let units = u32::try_from(ticks >> self.shift).unwrap_or(u32::MAX).min(*left);
            *left -= units;
            self.parts[part.slot()] += units;
        }
    }

    /// Chooses a larger unit, so that a duration of `ticks` fits.
    #[cold]
    fn make_room_for(&mut self, ticks: u64) {
        let shift = (u64::BITS - ticks.leading_zeros()).saturating_sub(u32::BITS) as u8;
        assert!(shift > self.shift, "the duration did not fit");
        let by = shift - self.shift;
        for units in self.offsets.iter_mut().chain(&mut self.parts).chain([&mut self.waited]) {
            *units = units.checked_shr(u32::from(by)).unwrap_or(0);
        }
        self.shift = shift;
    }

    /// The reading of `stamp`, rounded to the record's unit; none if it was not taken.
    #[must_use]
    pub fn stamp(&self, stamp: Stamp) -> Option<Ticks> {
        let is_taken = self.taken & (1 << stamp as u8) != 0;
        let offset = match stamp {
            Stamp::Arrived => 0,
            _ => u64::from(self.offsets[stamp as usize - 1]) << self.shift,
        };
        is_taken.then(|| Ticks(self.arrived_ticks.saturating_add(offset)))
    }

    /// The interval of the total: from `received` to the last stamp.
    #[inline]
    #[must_use]
    pub fn span(&self) -> (Ticks, Ticks) {
        let after_arrival = self.taken >> 1;
        if after_arrival == 0 {
            return (Ticks(self.arrived_ticks), Ticks(self.arrived_ticks));
        }
        let (first, last) = (after_arrival.trailing_zeros(), after_arrival.ilog2());
        let at = |index: u32| {
            let offset = u64::from(self.offsets[index as usize]) << self.shift;
            Ticks(self.arrived_ticks.saturating_add(offset))
        };
        (at(first), at(last))
    }

    /// The phases that took time, each with its beginning and end. The wait behind earlier requests
    /// of the connection is a further `queue`, before `parse`.
    #[must_use]
    pub fn phase_spans(&self) -> Vec<(Phase, Ticks, Ticks)> {
        let mut found = Vec::new();
        for (index, pair) in STAMPS.windows(2).enumerate() {
            let (Some(mut from), Some(to)) = (self.stamp(pair[0]), self.stamp(pair[1])) else {
                continue;
            };
            if pair[1] == Stamp::Parsed {
                let parsing = Ticks(to.0.saturating_sub(self.phase_ticks(Phase::Parse)));
                if parsing > from {
                    found.push((Phase::Queue, from, parsing));
                    from = parsing;
                }
            }
            if to > from {
                found.push((PHASES[index], from, to));
            }
        }
        found
    }

    /// Ticks of a phase. The phases but `receive` add up to [`Record::total_ticks`] exactly.
    #[must_use]
    pub fn phase_ticks(&self, phase: Phase) -> u64 {
        u64::from(self.phase_units()[phase as usize]) << self.shift
    }

    /// All phases and the total at once, in units of `1 << shift` ticks.
    #[inline]
    pub(crate) fn phase_units(&self) -> [u32; PHASES.len() + 1] {
        let [received, parsed, routed, started, executed, encoded, written] = self.offsets;
        let borders = [0, received, parsed, routed, started, executed, encoded, written];
        let mut between = [0; STAMPS.len() - 1];
        for (index, units) in between.iter_mut().enumerate() {
            let both = 0b11 << index;
            if self.taken & both == both {
                *units = borders[index + 1].saturating_sub(borders[index]);
            }
        }
        let [receive, parse_gross, route, queue, execute, encode, write] = between;
        let waited = self.waited.min(parse_gross);
        let parse = parse_gross - waited;
        let queue = queue.saturating_add(waited);
        let total = self.total_units();
        let within_total = [parse, route, queue, execute, encode, write];
        let accounted = within_total.iter().fold(0_u32, |sum, phase| sum.saturating_add(*phase));
        let unaccounted = total.saturating_sub(accounted);
        [receive, parse, route, queue, execute, encode, write, unaccounted, total]
    }

    /// The units from the first stamp after `arrived` (`received` in any complete request) to the
    /// last stamp.
    fn total_units(&self) -> u32 {
        let after_arrival = self.taken >> 1;
        if after_arrival == 0 {
            return 0;
        }
        let (first, last) = (after_arrival.trailing_zeros(), after_arrival.ilog2());
        self.offsets[last as usize].saturating_sub(self.offsets[first as usize])
    }

    /// Ticks from received to the last stamp.
    #[must_use]
    pub fn total_ticks(&self) -> u64 {
        u64::from(self.phase_units()[PHASES.len()]) << self.shift
    }

    /// Ticks that `receive` spent before the event loop turned to the connection, within 0.05 %.
    #[must_use]
    pub fn loop_wait_ticks(&self) -> u64 {
        self.loop_wait.ticks().min(self.phase_ticks(Phase::Receive))
    }

    /// Ticks that the transport measured for a part, within 0.05 %, and never more than its phase.
    #[must_use]
    pub fn transport_ticks(&self, part: TransportPart) -> u64 {
        let transport = self.transport();
        if transport.is_none() {
            return 0;
        }
        transport.get(part).min(self.phase_ticks(part.phase()))
    }

    /// The transport's times, not yet limited to their phases.
    #[inline]
    pub(crate) fn transport(&self) -> TransportTicks {
        let high = self.job_word >> JOB_BITS;
        TransportTicks::from_bits(high << 32 | u64::from(self.transport_low))
    }

    /// The number of the background job that the request waited for; zero for none.
    #[inline]
    #[must_use]
    pub fn waited_for(&self) -> u64 {
        self.job_word & JOB_MASK
    }

    /// Ticks of each part of `execute`, by slot.
    #[must_use]
    pub fn parts_ticks(&self) -> [u64; PARTS_MAX] {
        self.parts.map(|part| u64::from(part) << self.shift)
    }

    pub(crate) fn to_words(self) -> [u64; RECORD_WORDS] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let facts = &self.facts;
        let kinds = u64::from(facts.operation)
            | u64::from(facts.outcome) << 8
            | u64::from(facts.status) << 16
            | u64::from(self.shift) << 32
            | u64::from(self.taken) << 40
            | u64::from(self.loop_wait.bits()) << 48;
        let counts = &self.counts;
        let counted = u64::from_le_bytes([
            counts.found_in,
            counts.tables,
            counts.filters_excluded,
            counts.filters_false,
            counts.blocks,
            counts.records,
            counts.look_ups,
            u8::from(self.is_told_later),
        ]);
        let (offsets, parts) = (&self.offsets, &self.parts);
        [
            self.arrived_ticks,
            facts.request,
            kinds,
            pair(facts.request_bytes, facts.response_bytes),
            pair(offsets[0], offsets[1]),
            pair(offsets[2], offsets[3]),
            pair(offsets[4], offsets[5]),
            pair(offsets[6], self.waited),
            pair(self.transport_low, facts.connection),
            pair(parts[0], parts[1]),
            pair(parts[2], parts[3]),
            pair(parts[4], parts[5]),
            pair(parts[6], parts[7]),
            counted,
            self.job_word,
            facts.key_hash,
        ]
    }

    #[inline]
    pub(crate) fn from_words(words: [u64; RECORD_WORDS]) -> Record {
        let low = |word: usize| words[word] as u32;
        let high = |word: usize| (words[word] >> 32) as u32;
        let [found_in, tables, filters_excluded, filters_false, blocks, records, look_ups, later] =
            words[13].to_le_bytes();
        let kinds = words[2];
        Record {
            arrived_ticks: words[0],
            facts: RequestFacts {
                request: words[1],
                operation: kinds as u8,
                outcome: (kinds >> 8) as u8,
                status: (kinds >> 16) as u16,
                request_bytes: low(3),
                response_bytes: high(3),
                connection: high(8),
                key_hash: words[15],
            },
            counts: EngineCounts {
                look_ups,
                found_in,
                tables,
                filters_excluded,
                filters_false,
                blocks,
                records,
            },
            is_told_later: later == 1,
            // A shift of 32 is the largest that any duration can need.
            shift: ((kinds >> 32) as u8).min(32),
            taken: (kinds >> 40) as u8,
            offsets: [low(4), high(4), low(5), high(5), low(6), high(6), low(7)],
            waited: high(7),
            parts: [low(9), high(9), low(10), high(10), low(11), high(11), low(12), high(12)],
            loop_wait: CompactDuration::from_bits((kinds >> 48) as u16),
            transport_low: low(8),
            job_word: words[14],
        }
    }

    pub(crate) fn shift(&self) -> u8 {
        self.shift
    }

    pub(crate) fn parts_units(&self) -> &[u32; PARTS_MAX] {
        &self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phase::Part;
    use crate::transport::TRANSPORT_PARTS;
    use pellucid_clock::{Clock, SimulatedClock, Ticks};
    use proptest::prelude::*;

    /// Makes a timeline from the steps between its stamps; `None` leaves the stamp out.
    fn timeline(steps: &[Option<u64>; 7], waited: u64, parts: [u64; 8]) -> Timeline {
        let clock = Clock::simulated(SimulatedClock::leaked(0));
        let mut now = 1_000;
        let mut timeline = Timeline::begin(clock, Ticks(now));
        for (step, stamp) in steps.iter().zip(&STAMPS[1..]) {
            if let Some(step) = step {
                now += step;
                timeline.stamp_at(*stamp, Ticks(now));
                if *stamp == Stamp::Received {
                    timeline.wait_until(Ticks(now + waited));
                }
            }
        }
        for (slot, ticks) in parts.into_iter().enumerate() {
            timeline.add_part(Part::new(slot as u8), ticks, Ticks(now));
        }
        timeline
    }

    fn steps() -> impl Strategy<Value = [Option<u64>; 7]> {
        let step = prop_oneof![
            8 => (0_u64..100_000).prop_map(Some),
            1 => (0_u64..1 << 40).prop_map(Some),
            1 => Just(None),
        ];
        proptest::array::uniform7(step)
    }

    #[test]
    fn a_record_has_two_cache_lines_in_memory_as_in_the_ring() {
        assert_eq!(size_of::<Record>(), RECORD_WORDS * size_of::<u64>());
    }

    proptest! {
        #[test]
        fn phases_partition_the_total(steps in steps(), waited in 0_u64..50_000) {
            let record = Record::of(&timeline(&steps, waited, [0; 8]), RequestFacts::default());
            let sum: u64 =
                PHASES.iter().skip(1).map(|phase| record.phase_ticks(*phase)).sum();
            prop_assert_eq!(sum, record.total_ticks());
        }

        #[test]
        fn a_record_agrees_with_its_timeline(steps in steps(), waited in 0_u64..50_000) {
            let timeline = timeline(&steps, waited, [0; 8]);
            let record = Record::of(&timeline, RequestFacts::default());
            let unit = 1_u64 << record.shift();
            for phase in PHASES {
                let difference = record.phase_ticks(phase).abs_diff(timeline.phase_ticks(phase));
                // Each border is rounded by at most a unit, and `unaccounted` is bounded by all.
                prop_assert!(difference <= 8 * unit, "{phase:?}: {difference} ticks");
            }
        }

        #[test]
        fn the_last_stamp_may_come_after_the_record_was_made(
            steps in steps(),
            waited in 0_u64..50_000,
            written in 0_u64..1 << 50,
        ) {
            let mut timeline = timeline(&steps, waited, [written >> 3; 8]);
            let mut late = Record::of(&timeline, RequestFacts::default());
            let last = STAMPS.iter().filter_map(|stamp| timeline.taken(*stamp)).max();
            let written = Ticks(last.unwrap_or_default().0 + written);
            timeline.stamp_at(Stamp::Written, written);
            late.stamp_written(written);
            prop_assert_eq!(late, Record::of(&timeline, RequestFacts::default()));
        }

        /// The error of a recorded part is that of 16 bits and of the rounding of its phase's ends;
        /// a part is never longer than its phase.
        #[test]
        fn parts_of_the_transport_lie_within_their_phases(
            steps in steps(),
            shares in proptest::array::uniform3(0.0_f64..=1.0),
        ) {
            let mut timeline = timeline(&steps, 0, [0; 8]);
            let phases = TRANSPORT_PARTS.map(|part| timeline.phase_ticks(part.phase()));
            let measured: [u64; 3] =
                std::array::from_fn(|at| (phases[at] as f64 * shares[at]) as u64);
            timeline.set_transport_part(TransportPart::Decrypt, measured[0]);
            timeline.set_transport_part(TransportPart::Compress, measured[1]);
            let mut record = Record::of(&timeline, RequestFacts::default());
            record.set_transport_part(TransportPart::Encrypt, measured[2]);
            let unit = 1_u64 << record.shift();
            for (part, measured) in TRANSPORT_PARTS.into_iter().zip(measured) {
                let ticks = record.transport_ticks(part);
                prop_assert!(ticks <= record.phase_ticks(part.phase()));
                prop_assert!(ticks.abs_diff(measured) <= measured / 2_048 + 1 + 2 * unit);
            }
        }

        #[test]
        fn a_record_round_trips_through_words(
            steps in steps(),
            parts in proptest::array::uniform8(0_u64..1 << 36),
            request in any::<u64>(),
        ) {
            let facts = RequestFacts {
                request, operation: 3, outcome: 2, status: 404, request_bytes: 17,
                response_bytes: 4_000_000_000, connection: 9, key_hash: request ^ 0xabcd,
            };
            let mut timeline = timeline(&steps, 0, parts);
            let counts = EngineCounts { look_ups: 2, found_in: 3, ..EngineCounts::default() };
            timeline.counts = EngineCounts { tables: 7, ..counts };
            let job = (request | 1) & JOB_MASK;
            timeline.wait_for(job, 5);
            timeline.wait_for(99, 4);
            assert_eq!(timeline.waited_for(), job);
            timeline.set_transport_part(TransportPart::Decrypt, request >> 20);
            timeline.set_transport_part(TransportPart::Compress, 777);
            let mut record = Record::of(&timeline, facts);
            record.set_transport_part(TransportPart::Encrypt, request >> 40);
            prop_assert_eq!(Record::from_words(record.to_words()), record);
        }

        #[test]
        fn any_words_are_a_record_without_a_panic(
            words in proptest::array::uniform16(any::<u64>()),
        ) {
            let record = Record::from_words(words);
            for part in TRANSPORT_PARTS {
                let phase_ticks = record.phase_ticks(part.phase());
                prop_assert!(record.transport_ticks(part) <= phase_ticks);
            }
            prop_assert!(record.loop_wait_ticks() <= record.phase_ticks(Phase::Receive));
            let _ = record.total_ticks();
        }
    }
}

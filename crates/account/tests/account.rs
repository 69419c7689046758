//! Tests of the account by its public interface: recorded timelines in, snapshots out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_account::{
    Account, Accounting, EngineCounts, Names, PHASES, Part, Recorder, RequestFacts, STAMPS,
    Snapshot, Stamp, Timeline, TransportPart,
};
use pellucid_clock::{Clock, SimulatedClock, Ticks};
use proptest::prelude::*;

const NAMES: Names = Names {
    operations: &["read", "write"],
    outcomes: &["ok", "missing"],
    parts: &["look_up", "sync"],
    other_parts: &[],
};

fn account(simulated: &'static SimulatedClock) -> Account {
    Account::new(Accounting::Full, Clock::simulated(simulated), NAMES)
}

/// A timeline whose phases, from `receive` to `write`, have the durations `phases_ns`.
fn timeline(begun: Timeline, arrived: Ticks, phases_ns: [u64; 7]) -> Timeline {
    let mut timeline = begun;
    let mut now = arrived.0;
    for (stamp, phase_ns) in STAMPS.iter().skip(1).zip(phases_ns) {
        now += phase_ns;
        timeline.stamp_at(*stamp, Ticks(now));
    }
    timeline
}

fn read_facts() -> RequestFacts {
    RequestFacts { operation: 0, outcome: 0, status: 200, ..RequestFacts::default() }
}

#[test]
fn a_snapshot_has_names_and_distributions() {
    let account = account(SimulatedClock::leaked(0));
    let recorder = account.recorder();
    for _ in 0..100 {
        let arrived = recorder.now();
        let mut timeline =
            timeline(recorder.begin(arrived), arrived, [80, 160, 240, 0, 8_000, 320, 4_000]);
        timeline.add_part(Part::new(0), 6_400, Ticks(0));
        recorder.record(&timeline, read_facts());
    }
    let snapshot = account.snapshot(None);
    assert_eq!(snapshot.operations.len(), 1);
    let read = &snapshot.operations[0];
    assert_eq!((read.operation.as_str(), read.outcome.as_str()), ("read", "ok"));
    assert_eq!((read.count, read.total.min_ns, read.total.max_ns), (100, 12_720, 12_720));
    let medians: Vec<_> =
        read.phases.iter().map(|p| (p.name.as_str(), p.distribution.p50_ns)).collect();
    assert_eq!(medians[0], ("receive", 80));
    assert_eq!(medians[4], ("execute", 8_000));
    assert_eq!(medians[7], ("unaccounted", 0));
    assert_eq!(read.parts.len(), 1, "a part that never occurred is not shown");
    assert_eq!(read.parts[0].name, "look_up");
    assert_eq!(read.parts[0].distribution.max_ns, 6_400);
    let json = serde_json::to_string(&snapshot).unwrap();
    let back: Snapshot = serde_json::from_str(&json).unwrap();
    assert_eq!(back.operations[0].total, snapshot.operations[0].total);
    assert_eq!(back.operations[0].phases, snapshot.operations[0].phases);
}

/// The parts count only where they occurred, do not shorten their phases, and are not longer than
/// these.
#[test]
fn the_transports_parts_lie_within_their_phases() {
    let account = account(SimulatedClock::leaked(0));
    let recorder = account.recorder();
    for number in 0..100 {
        let arrived = recorder.now();
        let phases_ns = [8_000, 160, 240, 0, 8_000, 16_000, 4_000];
        let mut timeline = timeline(recorder.begin(arrived), arrived, phases_ns);
        if number < 10 {
            timeline.set_transport_part(TransportPart::Decrypt, 1_600);
            timeline.set_transport_part(TransportPart::Compress, 12_000);
            let mut record = recorder.seal(&timeline, read_facts()).unwrap();
            // A longer time than `write` has is cut to that of `write`.
            let written = timeline.taken(Stamp::Written).unwrap();
            recorder.record_encrypted(&mut record, written, 1 << 40);
        } else {
            recorder.record(&timeline, read_facts());
        }
    }
    let snapshot = account.snapshot(None);
    let read = &snapshot.operations[0];
    let parts: Vec<_> = read
        .transport_parts
        .iter()
        .map(|part| (part.name.as_str(), part.distribution.count, part.distribution.max_ns))
        .collect();
    let [decrypt, compress, encrypt] = parts[..] else { panic!("three occurred: {parts:?}") };
    assert_eq!((decrypt, encrypt), (("decrypt", 10, 1_600), ("encrypt", 10, 4_000)));
    assert!(compress.0 == "compress" && compress.2.abs_diff(12_000) <= 12_000 / 2_048);
    assert_eq!(read.transport_part_of("write").unwrap().name, "encrypt");
    assert_eq!(read.transport_part_of("execute"), None);
    assert_eq!((read.total.min_ns, read.total.max_ns), (28_400, 28_400));
    let slowest = &account.slow(1)[0].slowest[0];
    assert_eq!(slowest.transport_parts.len(), 3, "of equally slow ones, the first is shown");
    let json = serde_json::to_string(&snapshot).unwrap();
    let back: Snapshot = serde_json::from_str(&json).unwrap();
    assert_eq!(back.operations[0].transport_parts, read.transport_parts);
    // A snapshot of a server that does not have them is valid as well.
    let older = json.replace("\"transport_parts\"", "\"unknown\"");
    let older: Snapshot = serde_json::from_str(&older).unwrap();
    assert!(older.operations[0].transport_parts.is_empty());
}

#[test]
fn the_stores_counts_are_summed_by_the_place_of_keys() {
    let simulated = SimulatedClock::leaked(0);
    let account = account(simulated);
    let recorder = account.recorder();
    let record = |found_in: u8, look_ups: u8, execute_ns: u64| {
        let arrived = recorder.now();
        let begun = recorder.begin(arrived);
        let mut timeline = timeline(begun, arrived, [0, 0, 0, 0, execute_ns, 0, 800]);
        let counts = EngineCounts { found_in, look_ups, tables: 2, ..EngineCounts::default() };
        timeline.counts = EngineCounts { records: 1, filters_excluded: 1, ..counts };
        recorder.record(&timeline, read_facts());
    };
    record(1, 1, 8_000);
    record(4, 1, 16_000);
    account.drain();
    simulated.advance_ns(1_000_000_000);
    record(4, 1, 24_000);
    // Without a look-up, `found_in` has no meaning.
    record(0, 0, 8_000);
    let snapshot = account.snapshot(None);
    let engine = &snapshot.operations[0].engine;
    assert_eq!((engine.look_ups, engine.tables, engine.records), (3, 8, 4));
    assert_eq!((engine.filters_excluded, engine.filters_false, engine.blocks), (4, 0, 0));
    let found: Vec<_> =
        engine.found.iter().map(|f| (f.place.as_str(), f.count, f.execute_mean_ns)).collect();
    assert_eq!(found, [("memtable", 1, 8_000.0), ("level_2", 2, 20_000.0)]);
    assert_eq!(engine.found[1].total_mean_ns, 20_800.0);
    let window = account.snapshot(Some(1));
    assert_eq!(window.operations[0].engine.look_ups, 1, "the window has the last second's");
}

/// Regression: the header with the account of a request stamped the request itself, which was then
/// shown as one that is being written while its body was encoded.
#[test]
fn a_report_on_a_request_leaves_it_as_it_is() {
    let account = account(SimulatedClock::leaked(0));
    let recorder = account.recorder();
    let mut request = recorder.begin(Ticks(0));
    request.identify(7, Ticks(0));
    request.stamp(Stamp::Executed);
    let phase = || account.in_flight()[0].phase.clone();
    let before = phase();
    let report = request.with_stamp(Stamp::Encoded);
    assert!(report.taken(Stamp::Encoded).is_some() && request.taken(Stamp::Encoded).is_none());
    assert_eq!(phase(), before);
    request.stamp(Stamp::Encoded);
    assert_ne!(phase(), before);
}

#[test]
fn a_stamp_that_is_missing_shows_as_unaccounted() {
    let account = account(SimulatedClock::leaked(0));
    let recorder = account.recorder();
    let mut timeline = recorder.begin(Ticks(0));
    timeline.stamp_at(Stamp::Received, Ticks(1_000));
    timeline.stamp_at(Stamp::Parsed, Ticks(1_800));
    timeline.stamp_at(Stamp::Written, Ticks(9_000));
    recorder.record(&timeline, read_facts());
    let snapshot = account.snapshot(None);
    let unaccounted = &snapshot.operations[0].phases[7];
    assert_eq!(unaccounted.distribution.max_ns, 7_200);
}

#[test]
fn a_window_has_only_its_own_seconds() {
    let simulated = SimulatedClock::leaked(0);
    let account = account(simulated);
    let recorder = account.recorder();
    for second in 0..5 {
        let arrived = recorder.now();
        let phases_ns = [0, 0, 0, 0, 8_000 * (second + 1), 0, 0];
        recorder.record(&timeline(recorder.begin(arrived), arrived, phases_ns), read_facts());
        account.drain();
        simulated.advance_ns(1_000_000_000);
    }
    let counts = |window| account.snapshot(window).operations.first().map_or(0, |o| o.count);
    assert_eq!(counts(None), 5);
    assert_eq!(counts(Some(3)), 2, "the current second and two before it, of which one is empty");
    assert_eq!(account.snapshot(Some(3)).operations[0].total.min_ns, 32_000);
    assert_eq!(counts(Some(600)), 5);
}

#[test]
fn accounting_that_is_off_takes_no_readings() {
    let simulated = SimulatedClock::leaked(0);
    let account = Account::new(Accounting::Off, Clock::simulated(simulated), NAMES);
    let recorder = account.recorder();
    let mut timeline = recorder.begin(recorder.now());
    simulated.step_by_ns(1);
    timeline.stamp(Stamp::Received);
    timeline.lap(Part::new(0));
    recorder.record(&timeline, read_facts());
    assert_eq!(account.clock().now(), Ticks(1), "this is the first reading");
    assert!(account.snapshot(None).operations.is_empty());
}

/// Under full load, a loop counts records during its pauses. Otherwise the draining thread would
/// take the processor from it for a quarter of a millisecond.
#[test]
fn a_thread_that_pauses_counts_some_of_its_own_records() {
    let time = SimulatedClock::leaked(0);
    let account = account(time);
    let (recorder, other) = (account.recorder(), account.recorder());
    let record = |recorder: &Recorder, records| {
        for _ in 0..records {
            let begun = recorder.begin(Ticks(0));
            recorder.record(&timeline(begun, Ticks(0), [8; 7]), read_facts());
        }
    };
    let counted = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&counted);
    account.listen(move |_, _| _ = counter.fetch_add(1, Ordering::Relaxed));
    let counted = || counted.load(Ordering::Relaxed);
    record(&recorder, 1_100);
    recorder.count_some();
    assert_eq!(counted(), 0, "room for them is made by whoever drains");
    account.drain();
    assert_eq!(counted(), 1_100);
    record(&recorder, 200);
    record(&other, 10);
    recorder.count_some();
    assert_eq!(counted(), 1_260, "some");
    recorder.count_some();
    assert_eq!(counted(), 1_300, "not those of the other");
    time.advance_ns(1_000_000_000);
    record(&recorder, 1);
    recorder.count_some();
    assert_eq!(counted(), 1_300, "a second that is over is closed by whoever drains");
    account.drain();
    assert_eq!(counted(), 1_311);
    let snapshot = account.snapshot(None);
    assert_eq!((snapshot.operations[0].count, snapshot.records_lost), (1_311, 0));
}

#[test]
fn the_drain_thread_stops_when_told() {
    let account = Account::new(Accounting::Full, Clock::system(), NAMES);
    let recorder = account.recorder();
    let thread = account.start_draining().unwrap();
    let arrived = recorder.now();
    recorder.record(&timeline(recorder.begin(arrived), arrived, [100; 7]), read_facts());
    drop(thread);
    account.finish();
    assert_eq!(account.snapshot(None).operations[0].count, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The requirement of the model: around each quantile the phases add up to the total within 2
    /// %, and the rest is shown as unaccounted.
    #[test]
    fn phases_add_up_around_every_quantile(
        requests in proptest::collection::vec(proptest::array::uniform7(0_u64..2_000_000), 1..200),
    ) {
        let account = account(SimulatedClock::leaked(0));
        let recorder = account.recorder();
        for phases_ns in &requests {
            let begun = recorder.begin(Ticks(0));
            recorder.record(&timeline(begun, Ticks(0), *phases_ns), read_facts());
        }
        let snapshot = account.snapshot(None);
        let read = &snapshot.operations[0];
        for around in &read.around {
            let sum: f64 = around.phases.iter().map(|phase| phase.mean_ns).sum();
            prop_assert!(around.count > 0);
            prop_assert!((sum - around.total_mean_ns).abs() <= around.total_mean_ns * 0.02 + 1.0);
            prop_assert_eq!(&around.phases[around.phases.len() - 1].name, "unaccounted");
        }
        let means: f64 = read.phases[1..].iter().map(|phase| phase.distribution.mean_ns).sum();
        prop_assert!((means - read.total.mean_ns).abs() <= 1.0);
        prop_assert_eq!(read.phases.len(), PHASES.len());
    }
}

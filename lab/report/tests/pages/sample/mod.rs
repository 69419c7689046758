//! A sample report, as `pellucid demo` makes it, from invented requests that went through the real
//! account.

use std::time::Duration;

use hdrhistogram::Histogram;
use pellucid_account::{
    Account, Accounting, ClockFacts, Names, OperationAccount, Part, RequestFacts, STAMPS, Timeline,
};
use pellucid_clock::{Clock, SimulatedClock, Ticks};
use pellucid_io::SeededRandom;
use pellucid_report::{Machine, Report, Sample, Section, TimelineInterval, Verdict};

const NAMES: Names = Names {
    operations: &["entity_get", "entity_put"],
    outcomes: &["ok"],
    parts: &["look_up", "value_read", "journal_append", "sync_wait"],
    other_parts: &[],
};
const SECONDS: u64 = 20;

/// Random numbers for an invented load, the same every time.
struct RandomNumbers(SeededRandom);

impl RandomNumbers {
    fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// A duration around `median_ns` with a tail to the right.
    fn around(&mut self, median_ns: f64, spread: f64) -> u64 {
        let normal: f64 = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
        (median_ns * (normal * spread).exp()) as u64
    }
}

/// The durations of the phases of one request, receive first, and of its parts by slot.
fn request(chance: &mut RandomNumbers, put: bool) -> ([u64; 7], [u64; 4]) {
    let stalled = if chance.unit() < 0.004 { chance.around(180_000.0, 0.7) } else { 0 };
    let disk = if chance.unit() < 0.02 { chance.around(60_000.0, 0.4) } else { 0 };
    let parts = match put {
        true => [0, 0, chance.around(2_600.0, 0.25), disk],
        false => [chance.around(900.0, 0.2), chance.around(700.0, 0.3) + disk, 0, 0],
    };
    let execute = parts.iter().sum::<u64>() + chance.around(250.0, 0.1);
    let phases = [
        chance.around(800.0, 0.6),
        chance.around(420.0, 0.15),
        chance.around(150.0, 0.2),
        stalled,
        execute,
        chance.around(310.0, 0.2),
        chance.around(8_600.0, 0.22),
    ];
    (phases, parts)
}

struct Load {
    account: OperationAccount,
    response_time: Histogram<u64>,
    service_time: Histogram<u64>,
    send_lateness: Histogram<u64>,
    samples: Vec<Sample>,
}

fn run(requests: u64, put: bool) -> Load {
    let clock = SimulatedClock::leaked(0);
    let account = Account::new(Accounting::Full, Clock::simulated(clock), NAMES);
    let recorder = account.recorder();
    let mut chance = RandomNumbers(SeededRandom::new(7 + u64::from(put)));
    let histogram =
        || Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are valid");
    let (mut response_time, mut service_time) = (histogram(), histogram());
    let (mut send_lateness, mut samples) = (histogram(), Vec::new());
    for number in 0..requests {
        let (phases, parts) = request(&mut chance, put);
        let arrived = recorder.now();
        let mut timeline: Timeline = recorder.begin(arrived);
        let mut now = arrived.0;
        for (stamp, phase_ns) in STAMPS.iter().skip(1).zip(phases) {
            now += phase_ns;
            timeline.stamp_at(*stamp, Ticks(now));
        }
        for (slot, part_ns) in parts.iter().enumerate().filter(|(_, part_ns)| **part_ns > 0) {
            timeline.add_part(Part::new(slot as u8), *part_ns, Ticks(0));
        }
        let facts = RequestFacts { operation: u8::from(put), status: 200, ..Default::default() };
        recorder.record(&timeline, facts);
        account.drain();
        let server_ns: u64 = phases.iter().sum();
        let late_ns = chance.around(1_500.0, 0.5);
        let served_ns = server_ns + chance.around(27_000.0, 0.12);
        service_time.saturating_record(served_ns);
        response_time.saturating_record(served_ns + late_ns);
        send_lateness.saturating_record(late_ns);
        samples.push(Sample {
            offset_ns: number * (SECONDS * 1_000_000_000 / requests),
            response_time_ns: served_ns + late_ns,
            service_time_ns: served_ns,
        });
    }
    let mut operations = account.snapshot(None).operations;
    let account = operations.remove(0);
    Load { account, response_time, service_time, send_lateness, samples }
}

/// The samples in intervals of 100 ms.
fn timeline(samples: &[Sample]) -> Vec<TimelineInterval> {
    const LENGTH_NS: u64 = 100_000_000;
    let mut timeline: Vec<TimelineInterval> = (0..SECONDS * 10)
        .map(|index| TimelineInterval {
            begin_ns: index * LENGTH_NS,
            length_ns: LENGTH_NS,
            ..TimelineInterval::default()
        })
        .collect();
    for sample in samples {
        let stretch = &mut timeline[(sample.offset_ns / LENGTH_NS) as usize];
        stretch.answered += 1;
        stretch.response_times.push((sample.response_time_ns, 1));
    }
    timeline
}

fn section(name: &str, requests: u64) -> Section {
    let put = name.starts_with("PUT");
    let load = run(requests, put);
    let rate = requests / SECONDS;
    Section {
        name: name.to_owned(),
        description: format!(
            "{name} of uniformly random keys out of 200,000, values of 104 bytes, 64 connections, \
             acknowledged as `os`."
        ),
        offered_rate_per_second: Some(rate as f64),
        requests,
        unanswered: 0,
        failed_requests: 0,
        duration: Duration::from_secs(SECONDS),
        errors: Vec::new(),
        response_time: load.response_time,
        service_time: Some(load.service_time),
        send_lateness: Some(load.send_lateness),
        throughput_per_second: (0..SECONDS).map(|s| rate - (s * 7 + 3) % 11 * rate / 400).collect(),
        timeline: timeline(&load.samples),
        samples: load.samples,
        verdict: Some(Verdict {
            name: "stable".to_owned(),
            meaning: "the figures are those of the server under this load".to_owned(),
            evidence: vec!["No backlog grew.".to_owned()],
        }),
        account: Some(load.account),
        account_window: Duration::from_secs(SECONDS),
        charts: Vec::new(),
    }
}

/// A report with these sections; a section has PUTs if its name begins with `PUT`, and GETs
/// otherwise.
pub(crate) fn report(names: &[&str], requests: u64) -> Report {
    let mut machine = Machine::of_this_machine("0.1.0");
    machine.clock = Some(ClockFacts { source: "tsc".to_owned(), ticks_per_second: 2_000_012_345 });
    machine.processor.get_or_insert_with(|| "A processor".to_owned());
    Report {
        title: "Pellucid demo".to_owned(),
        command: "pellucid demo --keys 200000 --seconds 20 --rate 8000".to_owned(),
        generated_unix_ms: 1_767_225_600_000,
        machine,
        sections: names.iter().map(|name| section(name, requests)).collect(),
        notes: vec![
            "Client and server shared one machine, so the client's work slowed the server down."
                .to_owned(),
        ],
    }
}

//! The study `cluster`: the cost of forwarding, and the parts of the time of a forwarded request.
//!
//! It repeats a study of a sharded cluster in which forwarding dominated. Three nodes run as
//! processes. 64 connections send PUTs, GETs, and GETs with missing keys to one of them, at the
//! original's rate, or at a lower rate that the machine can hold. Every load runs in five variants
//! ([`RoutingVariant`]): on a single node without a cluster; on three nodes, with each request sent
//! to the owner of its key; and on one of three nodes, with its own keys, with keys of the others,
//! and with all keys, as clients send them that do not know the owners. All of this is repeated
//! until the findings are certain enough.

mod charts;
mod child;
mod findings;
mod load;
mod nodes;
mod run;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pellucid_report::{Finding, JudgedLoad, StudyReport};

pub use self::child::run_child;

use self::load::{CONNECTIONS, LoadKind, P50, P99, THREADS, VALUE_BYTES};
use self::nodes::{Nodes, RoutingVariant};
use self::run::{ClusterRun, Rate, Row};
use crate::error::StudyError;
use crate::folder::make_folder;
use crate::generator::Generator;
use crate::profile_recording::RecordedProfiles;
use crate::study::{Context, Scale, Study, StudyDescription, answer, named};

/// The limit of the 99th percentile in the search for the highest rate.
const P99_HELD: &str = "20ms";
/// The variant that is profiled: in it, the node that is asked does nothing but forward.
const PROFILED: RoutingVariant = RoutingVariant::Others;

/// Options of the study.
#[derive(Clone, Debug, Default)]
pub struct ClusterStudyOptions {
    /// The size of the study.
    pub scale: Scale,
    /// The duration of each load in seconds, in place of the default of the scale.
    pub seconds: Option<u64>,
    /// The folder in which the stores are made; the system's temporary folder if `None`.
    pub data: Option<PathBuf>,
}

impl ClusterStudyOptions {
    fn keys(&self) -> u64 {
        match self.scale {
            Scale::Quick => 20_000,
            // A load that uses one node's keys for reads or writes has a sixth of them, which must
            // be more than it chooses from.
            Scale::Default => 640_000,
            // 1.5 GB of values.
            Scale::Full => 5_000_000,
        }
    }

    /// The number of keys that each load chooses from. Fewer keys would fit the processor's cache,
    /// which is not realistic.
    fn keys_asked(&self) -> usize {
        match self.scale {
            Scale::Quick => 3_000,
            Scale::Default => 100_000,
            Scale::Full => 500_000,
        }
    }

    /// The time of each load.
    fn time(&self) -> Duration {
        let own = match self.scale {
            Scale::Quick => Duration::from_millis(700),
            Scale::Default => Duration::from_secs(4),
            Scale::Full => Duration::from_secs(30),
        };
        self.seconds.map_or(own, Duration::from_secs)
    }
}

/// The findings that answer the question.
const ANSWERS: [&str; 4] = [
    "forwarding_is_everything",
    "three_cost_more_than_one",
    "missing_keys_are_slow",
    "nodes_share_evenly",
];

impl Study for ClusterStudyOptions {
    fn about(&self) -> StudyDescription {
        StudyDescription {
            name: "cluster",
            title: "A sharded cluster",
            question: "What does it cost to ask a node for another's key, and where does the time \
                       go?",
            scale: self.scale,
        }
    }

    fn run(&self, context: &mut Context<'_>) -> Result<StudyReport, StudyError> {
        let folder = make_folder(self.data.as_deref())?;
        let program = context.child.clone();
        let binary = context.binary()?;
        let options = self;
        let stop = Arc::clone(&context.stop);
        let mut nodes = context
            .step("Starting three nodes", |_| Nodes::start(&program, folder.path(), &stop))?;
        let shares = context.step("Filling them", |_| nodes.fill(options.keys()))?;
        let mut notes = Vec::new();
        let rates = context.step("Looking for the highest rates", |say| {
            highest_rates(&mut nodes, &binary, options, &mut notes, say)
        })?;
        let mut measured =
            ClusterRun { rates, rounds: Vec::new(), profiled: Vec::new(), shares, is_rested: true };
        let repeated = options.scale.repeats().run(|round| {
            let name = format!("Run {}", round + 1);
            context
                .step(&name, |say| put_all_on(&mut nodes, &binary, options, &mut measured, say))?;
            Ok(findings::findings(&measured).iter().all(Finding::is_told))
        })?;
        let profiles = context.step("Taking profiles", |_| {
            let mut all = RecordedProfiles::default();
            for rate in &measured.rates {
                let (taken, judged) = profiled(&mut nodes, &binary, *rate, options)?;
                all = all.and(taken);
                measured.profiled.push(judged);
            }
            Ok(all)
        })?;
        nodes.stop()?;
        let mut outcome = self.outcome(&measured);
        outcome.notes.insert(0, repeated.note());
        outcome.notes.append(&mut notes);
        profiles.put_into(&mut outcome);
        Ok(outcome)
    }
}

fn generator<'a>(
    program: &'a OsString,
    url: &'a str,
    script: &'a str,
    work: LoadKind,
    is_direct: bool,
) -> Generator<'a> {
    let (connections, threads) = (CONNECTIONS, THREADS);
    let asks_for_missing = work == LoadKind::GetMissing;
    Generator { program, url, script, connections, threads, is_direct, asks_for_missing }
}

/// Finds the highest rates. Loads with missing keys are compared with those without, so both have
/// the same rate.
fn highest_rates(
    nodes: &mut Nodes,
    binary: &OsString,
    options: &ClusterStudyOptions,
    notes: &mut Vec<String>,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Rate>, StudyError> {
    let mut rates: Vec<Rate> = Vec::new();
    for work in LoadKind::ALL {
        let of_get = rates.last().map(|rate| rate.highest);
        let highest = match of_get.filter(|_| work == LoadKind::GetMissing) {
            Some(highest) => highest,
            None => {
                nodes.rest()?;
                let script = script(nodes, RoutingVariant::Others, work, options);
                highest((nodes, binary), &script, work, options, notes, say)?
            }
        };
        rates.push(Rate { work, highest });
    }
    Ok(rates)
}

fn script(
    nodes: &Nodes,
    whose: RoutingVariant,
    work: LoadKind,
    options: &ClusterStudyOptions,
) -> String {
    work.script(&nodes.keys(whose, work, options.keys(), options.keys_asked()))
}

/// Runs every load once. The order changes with each round, so that changes of the machine affect
/// all loads alike.
fn put_all_on(
    nodes: &mut Nodes,
    binary: &OsString,
    options: &ClusterStudyOptions,
    measured: &mut ClusterRun,
    say: &mut dyn FnMut(&str),
) -> Result<(), StudyError> {
    let run = measured.rounds.len();
    let mut rows = Vec::new();
    for rate in &measured.rates {
        let mut order = RoutingVariant::ALL;
        order.rotate_left(run % RoutingVariant::ALL.len());
        for whose in order {
            // Only writes cause background work: those of the search, or of the load before.
            if rate.work.writes() {
                measured.is_rested &= nodes.rest()?;
            }
            let mut row = measure(nodes, binary, *rate, whose, options)?;
            row.loaded.judged.run = run + 1;
            say(&told(&row));
            rows.push(row);
        }
    }
    measured.rounds.push(rows);
    Ok(())
}

/// Runs one load.
fn measure(
    nodes: &mut Nodes,
    binary: &OsString,
    rate: Rate,
    whose: RoutingVariant,
    options: &ClusterStudyOptions,
) -> Result<Row, StudyError> {
    let work = rate.work;
    let script = script(nodes, whose, work, options);
    let before = nodes.processor_ns(whose)?;
    let load = generator(binary, nodes.url(whose), &script, work, whose == RoutingVariant::Direct);
    let begun = Instant::now();
    let mut loaded = load.run(Some(rate.put_on()), options.time())?;
    loaded.judged.name = format!("{}, {}", work.title(), whose.title());
    let processor_ns = (nodes.processor_ns(whose)? - before) as f64;
    let processor_ns = processor_ns / (loaded.times.len() as f64).max(1.0);
    // The window covers the start and end of the generator, and starts at a whole second.
    let operations = nodes.account(begun.elapsed().as_secs() + 1)?;
    Ok(Row { work, whose, loaded, processor_ns, operations })
}

/// A line about a load.
fn told(row: &Row) -> String {
    let (judged, work) = (&row.loaded.judged, row.work.title());
    format!(
        "  {work}, {} at {:.0}/s: p50 {:.3} ms, p99 {:.3} ms ({}), {:.1} µs of processor time",
        row.whose.title(),
        judged.answered_per_second,
        row.loaded.at(P50) / 1e6,
        row.loaded.at(P99) / 1e6,
        judged.verdict,
        row.processor_ns / 1e3
    )
}

/// Takes profiles during a separate load, because profiling would slow a measured one.
fn profiled(
    nodes: &mut Nodes,
    binary: &OsString,
    rate: Rate,
    options: &ClusterStudyOptions,
) -> Result<(RecordedProfiles, JudgedLoad), StudyError> {
    nodes.profile()?;
    let mut judged = measure(nodes, binary, rate, PROFILED, options)?.loaded.judged;
    let taken = nodes.profiles()?.of(&judged.name);
    (judged.name, judged.run) = (format!("{}, profiled", judged.name), 1);
    Ok((taken, judged))
}

/// The highest rate for keys of other nodes. The rate of a closed loop is used in the quick study,
/// which has no time for a search, and if the search finds none; then `notes` gets the reason.
fn highest(
    (nodes, binary): (&Nodes, &OsString),
    script: &str,
    work: LoadKind,
    options: &ClusterStudyOptions,
    notes: &mut Vec<String>,
    say: &mut dyn FnMut(&str),
) -> Result<f64, StudyError> {
    let url = nodes.url(RoutingVariant::Others);
    let load = generator(binary, url, script, work, false);
    let found = match options.scale {
        Scale::Quick => None,
        scale => load.highest(work.title(), P99_HELD, scale == Scale::Default, notes),
    };
    if let Some(found) = found {
        say(&format!("  the highest rate with a p99 below {P99_HELD} is {found:.0}/s"));
        return Ok(found);
    }
    let reached = load.run(None, options.time())?.judged.answered_per_second;
    say(&format!("  a closed loop reaches {reached:.0}/s"));
    Ok(reached)
}

impl ClusterStudyOptions {
    fn outcome(&self, measured: &ClusterRun) -> StudyReport {
        let highest = match self.scale {
            Scale::Quick => "of a closed loop".to_owned(),
            _ => format!("by --find-max, with a p99 below {P99_HELD}"),
        };
        let nodes = "3, each with one event loop, on one machine with the load";
        let settings = named([
            ("nodes", nodes.to_owned()),
            ("keys", self.keys().to_string()),
            ("keys that each load chooses from", self.keys_asked().to_string()),
            ("bytes of a value", VALUE_BYTES.to_string()),
            ("connections and threads of the load", format!("{CONNECTIONS}, {THREADS}")),
            ("time of each load", format!("{:.1} s", self.time().as_secs_f64())),
            ("highest rates", highest),
        ]);
        let mut notes = vec![
            "All processes share the machine, so ratios count and rates do not.",
            "Processor time of the node alone is its own; of three, that of all three, idle ones \
             included.",
            "Reads ask for keys that no load writes. Profiles are those of the node that is asked, \
             while all that it is asked for is another's, of a load of its own for each kind of \
             work.",
        ];
        if !measured.is_rested {
            notes.push(
                "A node did not come to rest before a load: a flush or merge of what was written \
                 before ran into it.",
            );
        }
        let findings = findings::findings(measured);
        let loads = measured.rounds.iter().flatten().map(|row| &row.loaded.judged);
        let loads = loads.chain(&measured.profiled).cloned();
        StudyReport {
            settings,
            answer: answer(&findings, &ANSWERS),
            picture: Some(charts::picture(measured)),
            findings,
            loads: loads.collect(),
            sections: charts::sections(measured),
            notes: notes.into_iter().map(str::to_owned).collect(),
            ..StudyReport::default()
        }
    }
}

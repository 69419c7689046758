//! `cluster`: what forwarding costs, and where the time of a forwarded request goes.
//!
//! It repeats the study of a sharded cluster in which forwarding was everything: three nodes as
//! processes, 64 connections to one of them, PUT, GET, and GET with keys that are not there, at a
//! constant rate below what the machine can carry. Every load is put on five times: on one node
//! that is alone; on three, each key asked of its owner; and on one of three, with keys of its own,
//! with keys of the others, and with all, as clients do that do not know the way.

mod charts;
mod child;
mod load;
mod nodes;

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::Instant;

use pellucid_account::OperationAccount;

use self::load::{CONNECTIONS, P50, P99, THREADS, VALUE_BYTES, Work};
use self::nodes::{Nodes, Whose};
use crate::error::StudyError;
use crate::folder::make_folder;
use crate::generator::{Generator, Loaded};
use crate::profiled::Taken;
use crate::study::{Context, Outcome, Scale, Study};

/// The share of the highest rate at which is measured.
const RATE_SHARE: f64 = 0.7;
/// The objective that a rate has to keep to be held.
const P99_HELD: &str = "20ms";
/// Whose load is profiled: of the node that is asked, forwarding is all that it does then.
const PROFILED: Whose = Whose::Others;

/// Options of the study.
#[derive(Clone, Debug, Default)]
pub struct ClusterStudyOptions {
    /// Its size.
    pub scale: Scale,
    /// Seconds of each load, if not those of its size.
    pub seconds: Option<u64>,
    /// The folder of the stores.
    pub data: Option<PathBuf>,
}

impl ClusterStudyOptions {
    fn keys(&self) -> u64 {
        match self.scale {
            Scale::Quick => 20_000,
            // A third of half of them is more than each load chooses from.
            Scale::Default => 640_000,
            // 1.5 GB of values.
            Scale::Full => 5_000_000,
        }
    }

    /// The number of keys that each load chooses from: few are in the processor's cache, which no
    /// load of use has.
    fn keys_asked(&self) -> usize {
        match self.scale {
            Scale::Quick => 3_000,
            Scale::Default => 100_000,
            Scale::Full => 500_000,
        }
    }

    fn seconds(&self) -> u64 {
        self.seconds.unwrap_or(match self.scale {
            Scale::Quick => 2,
            Scale::Default => 8,
            Scale::Full => 30,
        })
    }
}

/// The study.
#[derive(Debug)]
pub struct ClusterStudy {
    options: ClusterStudyOptions,
}

impl ClusterStudy {
    /// The study with these options.
    #[must_use]
    pub fn new(options: ClusterStudyOptions) -> ClusterStudy {
        ClusterStudy { options }
    }
}

/// Takes the part of a node.
///
/// # Errors
/// If the node does not start or stop, or what it is told makes no sense.
pub fn run_child(input: impl BufRead, output: impl Write) -> Result<(), StudyError> {
    child::run(input, output)
}

/// One load, and what came of it.
struct Row {
    work: Work,
    whose: Whose,
    /// The highest rate for keys of other nodes.
    highest: f64,
    rate: f64,
    loaded: Loaded,
    /// Processor time of a request over all nodes, in nanoseconds.
    processor_ns: f64,
    /// The accounts of the node that was asked.
    operations: Vec<OperationAccount>,
    profiles: Taken,
}

/// Everything that was measured.
struct ClusterRun {
    rows: Vec<Row>,
    /// Keys of each node.
    shares: Vec<u64>,
    /// True if the nodes came to rest each time.
    is_rested: bool,
}

impl Study for ClusterStudy {
    fn name(&self) -> &'static str {
        "cluster"
    }

    fn title(&self) -> &'static str {
        "A sharded cluster"
    }

    fn question(&self) -> &'static str {
        "What does it cost to ask a node for another's key, and where does the time go?"
    }

    fn scale(&self) -> Scale {
        self.options.scale
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Outcome, StudyError> {
        let folder = make_folder(self.options.data.as_deref())?;
        let program = context.child.clone();
        let binary = program
            .first()
            .cloned()
            .ok_or_else(|| StudyError::Step("it is not known how to start the load".to_owned()))?;
        let mut nodes =
            context.step("Starting three nodes", |_| Nodes::start(&program, folder.path()))?;
        let keys = self.options.keys();
        let shares = context.step("Filling them", |_| nodes.fill(keys))?;
        let (mut rows, mut is_rested) = (Vec::new(), true);
        for work in Work::ALL {
            // Missing keys are compared with present ones, so both are asked for at one rate.
            let highest_get = rows.last().map(|row: &Row| row.highest);
            let known = highest_get.filter(|_| work == Work::GetMissing);
            let (rows_of, is_rested_of) = context.step(work.title(), |say| {
                measure(&mut nodes, &binary, work, known, &self.options, say)
            })?;
            rows.extend(rows_of);
            is_rested &= is_rested_of;
        }
        nodes.stop()?;
        let measured = ClusterRun { rows, shares, is_rested };
        Ok(self.outcome(measured))
    }
}

fn generator<'a>(
    program: &'a std::ffi::OsString,
    url: &'a str,
    script: &'a str,
    work: Work,
    is_direct: bool,
) -> Generator<'a> {
    let (connections, threads) = (CONNECTIONS, THREADS);
    let asks_for_missing = work == Work::GetMissing;
    Generator { program, url, script, connections, threads, is_direct, asks_for_missing }
}

/// Puts one kind of load on the keys of each kind, at one rate. The highest is searched for unless
/// it is known. Says beside the rows whether the nodes were at rest before each load.
fn measure(
    nodes: &mut Nodes,
    binary: &std::ffi::OsString,
    work: Work,
    known: Option<f64>,
    options: &ClusterStudyOptions,
    say: &mut dyn FnMut(&str),
) -> Result<(Vec<Row>, bool), StudyError> {
    let (keys, asked, seconds) = (options.keys(), options.keys_asked(), options.seconds());
    let script = |nodes: &Nodes, whose| work.script(&nodes.keys(whose, work, keys, asked));
    let mut is_rested = nodes.rest()?;
    let far = script(nodes, Whose::Others);
    let highest = match known {
        Some(known) => known,
        None => highest(nodes, binary, &far, work, options, say)?,
    };
    let rate = highest * RATE_SHARE;
    let mut rows = Vec::new();
    for whose in Whose::ALL {
        let script = script(nodes, whose);
        // Reads leave nothing to do; what the search or the load before has written does.
        if work.writes() {
            is_rested &= nodes.rest()?;
        }
        if whose == PROFILED {
            nodes.profile()?;
        }
        let before = nodes.processor_ns(whose)?;
        let is_direct = whose == Whose::Direct;
        let load = generator(binary, nodes.url(whose), &script, work, is_direct);
        let begun = Instant::now();
        let loaded = load.run(Some(rate), seconds)?;
        let processor_ns = (nodes.processor_ns(whose)? - before) as f64;
        let processor_ns = processor_ns / (loaded.per_second * seconds as f64).max(1.0);
        // The generator takes its time to start and to end, and a window begins on a whole second.
        let operations = nodes.account(begun.elapsed().as_secs() + 1)?;
        say(&format!(
            "  {} at {rate:.0}/s: p50 {:.3} ms, p99 {:.3} ms, {:.1} µs of processor time",
            whose.title(),
            loaded.at(P50) / 1e6,
            loaded.at(P99) / 1e6,
            processor_ns / 1e3
        ));
        let profiles = if whose == PROFILED { nodes.profiles()? } else { Taken::default() };
        let profiles = profiles.of(&format!("{}, {}", work.title(), whose.title()));
        rows.push(Row { work, whose, highest, rate, loaded, processor_ns, operations, profiles });
    }
    Ok((rows, is_rested))
}

/// The highest rate for keys of other nodes. The quick version has no time for a search and takes
/// what a closed loop reaches; so does one on a machine on which no rate keeps the objective.
fn highest(
    nodes: &Nodes,
    binary: &std::ffi::OsString,
    script: &str,
    work: Work,
    options: &ClusterStudyOptions,
    say: &mut dyn FnMut(&str),
) -> Result<f64, StudyError> {
    let url = nodes.url(Whose::Others);
    let load = generator(binary, url, script, work, false);
    let found = match options.scale {
        Scale::Quick => None,
        scale => load.highest(P99_HELD, scale == Scale::Default),
    };
    if let Some(found) = found {
        say(&format!("  the highest rate with a p99 below {P99_HELD} is {found:.0}/s"));
        return Ok(found);
    }
    let reached = load.run(None, options.seconds())?.per_second;
    say(&format!("  a closed loop reaches {reached:.0}/s"));
    Ok(reached)
}

impl ClusterStudy {
    fn outcome(&self, mut measured: ClusterRun) -> Outcome {
        let setting = |name: &str, value: String| (name.to_owned(), value);
        let settings = vec![
            setting(
                "nodes",
                "3, each with one event loop, on one machine with the load".to_owned(),
            ),
            setting("keys", self.options.keys().to_string()),
            setting("keys that each load chooses from", self.options.keys_asked().to_string()),
            setting("bytes of a value", VALUE_BYTES.to_string()),
            setting("connections and threads of the load", format!("{CONNECTIONS}, {THREADS}")),
            setting("seconds of each load", self.options.seconds().to_string()),
            setting(
                "highest rates",
                match self.options.scale {
                    Scale::Quick => "of a closed loop".to_owned(),
                    _ => format!("by --find-max, with a p99 below {P99_HELD}"),
                },
            ),
        ];
        let mut notes = vec![
            "All processes share the machine, so ratios count and rates do not. The rate of each \
             kind of load is 70 % of the highest for keys of other nodes."
                .to_owned(),
            "Processor time of the node alone is its own; of three, that of all three, idle ones \
             included."
                .to_owned(),
            "Reads ask for keys that no load writes. Profiles are those of the node that is asked, \
             while all that it is asked for is another's, one for each kind of load."
                .to_owned(),
        ];
        if !measured.is_rested {
            let note = "A node did not come to rest before a load: a flush or merge of what was \
                        written before ran into it.";
            notes.push(note.to_owned());
        }
        let (findings, sections) = (charts::findings(&measured), charts::sections(&measured));
        let taken = measured.rows.iter_mut().map(|row| std::mem::take(&mut row.profiles));
        let taken = taken.fold(Taken::default(), Taken::and);
        let mut outcome = Outcome { settings, findings, sections, profiles: Vec::new(), notes };
        taken.put_into(&mut outcome);
        outcome
    }
}

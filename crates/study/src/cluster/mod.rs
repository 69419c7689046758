//! `cluster`: what forwarding costs, and where the time of a forwarded request goes.
//!
//! It repeats the study of a sharded cluster in which forwarding was everything: three nodes as
//! processes, 64 connections to one of them, PUT, GET, and GET with keys that are not there, at a
//! constant rate below what the machine can carry. Every load is put on three times: on keys of the
//! node that is asked, on keys of the others, and on all, as clients do that do not know the way.

mod charts;
mod child;
mod load;
mod nodes;

use std::io::{BufRead, Write};
use std::path::PathBuf;

use pellucid_account::OperationAccount;
use pellucid_report::ProfileSection;

use self::load::{CONNECTIONS, Loaded, THREADS, VALUE_BYTES, Work, load};
use self::nodes::{Nodes, Whose};
use crate::error::StudyError;
use crate::study::{Context, Outcome, Scale, Study};

/// The share of the highest rate at which is measured.
const RATE_SHARE: f64 = 0.7;
/// Keys that the loads choose from, of each kind.
const KEYS_ASKED: usize = 2_000;

/// Options of the study.
#[derive(Clone, Debug, Default)]
pub struct ClusterStudyOptions {
    /// Its size.
    pub scale: Scale,
    /// Where the stores are made.
    pub data: Option<PathBuf>,
}

impl ClusterStudyOptions {
    fn keys(&self) -> u64 {
        match self.scale {
            Scale::Quick => 20_000,
            Scale::Default => 200_000,
            // 1.5 GB of values.
            Scale::Full => 5_000_000,
        }
    }

    fn seconds(&self) -> u64 {
        match self.scale {
            Scale::Quick => 2,
            Scale::Default => 8,
            Scale::Full => 30,
        }
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
    rate: f64,
    loaded: Loaded,
    /// Processor time of a request over all nodes, in nanoseconds.
    processor_ns: f64,
    /// The accounts of the node that was asked.
    operations: Vec<OperationAccount>,
}

/// Everything that was measured.
struct Measured {
    rows: Vec<Row>,
    /// Keys of each node.
    shares: Vec<u64>,
    profiles: Vec<ProfileSection>,
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
        let mut folder = tempfile::Builder::new();
        folder.prefix("pellucid-study-");
        let folder = match &self.options.data {
            Some(parent) => folder.tempdir_in(parent),
            None => folder.tempdir(),
        };
        let folder = folder.map_err(|error| {
            StudyError::Options(format!("cannot make a folder for the stores: {error}; see --data"))
        })?;
        let program = context.child.clone();
        let binary = program
            .first()
            .cloned()
            .ok_or_else(|| StudyError::Step("it is not known how to start the load".to_owned()))?;
        let mut nodes =
            context.step("Starting three nodes", |_| Nodes::start(&program, folder.path()))?;
        let keys = self.options.keys();
        let shares = context.step("Filling them", |_| nodes.fill(keys))?;
        let mut rows = Vec::new();
        for work in Work::ALL {
            let rows_of = context.step(work.title(), |say| {
                measure(&mut nodes, &binary, work, self.options.seconds(), keys, say)
            })?;
            rows.extend(rows_of);
        }
        let profiles = nodes.profiles()?;
        nodes.stop()?;
        let measured = Measured { rows, shares, profiles };
        Ok(self.outcome(measured))
    }
}

/// Puts one kind of load on the keys of each kind, at one rate.
fn measure(
    nodes: &mut Nodes,
    binary: &std::ffi::OsString,
    work: Work,
    seconds: u64,
    keys: u64,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Row>, StudyError> {
    let script = |nodes: &Nodes, whose| work.script(&nodes.keys(whose, keys, KEYS_ASKED));
    let far = script(nodes, Whose::Others);
    let best = load(binary, nodes.url(), &far, None, seconds)?.per_second;
    let rate = best * RATE_SHARE;
    let mut rows = Vec::new();
    for whose in Whose::ALL {
        let script = script(nodes, whose);
        let before = nodes.processor_ns()?;
        let loaded = load(binary, nodes.url(), &script, Some(rate), seconds)?;
        let processor_ns = (nodes.processor_ns()? - before) as f64;
        let processor_ns = processor_ns / (loaded.per_second * seconds as f64).max(1.0);
        let operations = nodes.account(seconds)?;
        say(&format!(
            "  {} at {rate:.0}/s: p50 {:.3} ms, p99 {:.3} ms, {:.1} µs of processor time",
            whose.title(),
            loaded.p50_ns / 1e6,
            loaded.p99_ns / 1e6,
            processor_ns / 1e3
        ));
        rows.push(Row { work, whose, rate, loaded, processor_ns, operations });
    }
    Ok(rows)
}

impl ClusterStudy {
    fn outcome(&self, measured: Measured) -> Outcome {
        let setting = |name: &str, value: String| (name.to_owned(), value);
        let settings = vec![
            setting(
                "nodes",
                "3, each with one event loop, on one machine with the load".to_owned(),
            ),
            setting("keys", self.options.keys().to_string()),
            setting("bytes of a value", VALUE_BYTES.to_string()),
            setting("connections and threads of the load", format!("{CONNECTIONS}, {THREADS}")),
            setting("seconds of each load", self.options.seconds().to_string()),
        ];
        let notes = vec![
            "All four processes share the machine, so ratios count and rates do not. The rate of \
             each kind of load is 70 % of the highest for keys of other nodes."
                .to_owned(),
            "Keys of the node that is asked stand for a client that knows the way: it asks each \
             key's owner, and nothing is forwarded."
                .to_owned(),
            "Profiles are those of the node that is asked, over all loads.".to_owned(),
        ];
        Outcome {
            settings,
            findings: charts::findings(&measured),
            sections: charts::sections(&measured),
            profiles: measured.profiles,
            notes,
        }
    }
}

//! `entity`: what an HTTP service over a key-value store bears on one connection, where its time
//! goes, and what flushes and compactions do to it, on every engine that is built in.
//!
//! It repeats the study of such a service over RocksDB under wrk2: a store of 5,000,000 keys, PUT
//! and then GET of random ones at the highest rate that is stable, percentiles, and profiles of
//! processor time and allocations. There, one picture of the processor's load was held beside one
//! of the latencies to guess that a compaction had made the tail; here, flushes and compactions are
//! marked on the axis of time of the requests themselves.

mod beside;
mod charts;
mod findings;
mod measure;
mod original;
mod plan;
#[cfg(any(test, feature = "rocksdb"))]
mod rocks_log;
mod shares;
mod work;

use std::io::{BufRead, Write};

use pellucid_report::Unit;

pub use self::plan::{Engine, EntityStudyOptions};

use self::measure::{Row, Running};
use self::plan::{ServerPlan, VALUE_BYTES};
use self::work::Work;
use crate::error::StudyError;
use crate::folder::make_folder;
use crate::jobs::{COMPACTION, FLUSH, Window};
use crate::proc::is_in_memory;
use crate::profiled::Taken;
use crate::served::serve;
use crate::study::{Context, Outcome, Scale, Study};

/// The study.
#[derive(Debug)]
pub struct EntityStudy {
    options: EntityStudyOptions,
}

impl EntityStudy {
    /// The study with these options.
    #[must_use]
    pub fn new(options: EntityStudyOptions) -> EntityStudy {
        EntityStudy { options }
    }
}

/// Takes the part of a server.
///
/// # Errors
/// If the server does not start or stop, or what it is told makes no sense.
pub fn run_child(input: impl BufRead, output: impl Write) -> Result<(), StudyError> {
    serve(input, output, |plan: ServerPlan| Ok(plan.options()))
}

/// Everything that was measured.
struct EntityRun {
    engines: Vec<Engine>,
    rows: Vec<Row>,
    /// Flushes and compactions while each engine was filled.
    filling: Vec<[usize; 2]>,
}

impl EntityRun {
    /// The loads of one kind, in the order of the engines.
    fn of(&self, work: Work) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.work == work)
    }
}

impl Study for EntityStudy {
    fn name(&self) -> &'static str {
        "entity"
    }

    fn title(&self) -> &'static str {
        "Entities: an HTTP service over a key-value store"
    }

    fn question(&self) -> &'static str {
        "How many PUTs and GETs a second does the service bear on one connection, where does their \
         time go, and what do flushes and compactions do to it: on Pellucid's own engine, and on \
         RocksDB, the engine of the original?"
    }

    fn scale(&self) -> Scale {
        self.options.scale
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Outcome, StudyError> {
        let options = &self.options;
        options.check()?;
        let folder = make_folder(options.data.as_deref())?;
        let program = context.child.clone();
        let binary = program.first().cloned();
        let binary = binary
            .ok_or_else(|| StudyError::Step("it is not known how to start the load".to_owned()))?;
        let engines = options.engines();
        let mut running = Vec::new();
        for engine in &engines {
            let name = format!("Filling {}", engine.name());
            running.push(context.step(&name, |_| {
                let memory_bytes = options.memory_bytes();
                let mut store = Running::start(&program, *engine, folder.path(), memory_bytes)?;
                store.fill(options.keys())?;
                Ok(store)
            })?);
        }
        let mut rows = Vec::new();
        for work in Work::ALL {
            // One engine right after the other, so that a machine that changes changes for both.
            for store in &mut running {
                let name = format!("{} on {}", work.title(), store.engine.name());
                rows.push(context.step(&name, |say| {
                    let row = store.measure(&binary, work, options)?;
                    say(&told(&row));
                    Ok(row)
                })?);
            }
        }
        let is_rested = running.iter().all(|store| store.is_rested);
        let filling = context.step("Ending the servers", |_| stop(running, &mut rows))?;
        let in_memory = is_in_memory(folder.path());
        let measured = EntityRun { engines, rows, filling };
        context.step("Drawing the charts", |_| Ok(self.outcome(measured, is_rested, in_memory)))
    }
}

/// A line about a load.
fn told(row: &Row) -> String {
    let show = |quantile| Unit::Nanoseconds.show(row.at(quantile));
    format!(
        "  at most {:.0}/s; at {:.0}/s p50 {}, p99 {}, p99.9 {} ({}), {} of processor time",
        row.highest,
        row.rate,
        show(0.5),
        show(0.99),
        show(0.999),
        row.judgement.verdict.name(),
        Unit::Nanoseconds.show(row.processor_by_request_ns())
    )
}

/// Ends all servers, lays their jobs beside their loads, and counts those of the filling.
fn stop(running: Vec<Running>, rows: &mut [Row]) -> Result<Vec<[usize; 2]>, StudyError> {
    let mut filling = Vec::new();
    for store in running {
        let (engine, window): (Engine, Window) = (store.engine, store.filling);
        let jobs = store.stop()?;
        for row in rows.iter_mut().filter(|row| row.engine == engine) {
            row.spans = row.window.spans(&jobs);
        }
        filling.push(counts(&window.spans(&jobs)));
    }
    Ok(filling)
}

/// The number of flushes and compactions.
fn counts(spans: &[pellucid_report::Span]) -> [usize; 2] {
    [FLUSH, COMPACTION].map(|kind| spans.iter().filter(|span| span.label == kind).count())
}

impl EntityStudy {
    fn outcome(&self, mut measured: EntityRun, is_rested: bool, in_memory: bool) -> Outcome {
        let options = &self.options;
        let setting = |name: &str, value: String| (name.to_owned(), value);
        let names: Vec<_> = measured.engines.iter().map(|engine| engine.name()).collect();
        let settings = vec![
            setting("Engines", names.join(", ")),
            setting("Keys", options.keys().to_string()),
            setting("Bytes of a value", VALUE_BYTES.to_string()),
            setting("Connections of the load", "1".to_owned()),
            setting("Seconds of each load", options.seconds().to_string()),
            setting("Memory of a store", Unit::Bytes.show(options.memory_bytes() as f64)),
            setting("Event loops of a server", "1".to_owned()),
            setting(
                "Highest rates",
                match options.scale {
                    Scale::Quick => "of a closed loop".to_owned(),
                    _ => "by --find-max, with the 99th percentile of the original".to_owned(),
                },
            ),
        ];
        let mut notes = vec![
            "Load and server share the machine; the original's was a notebook of its own, so rates \
             and times there are of another machine, and a server in Java."
                .to_owned(),
            "The filled store of the original took 1.5 GB; its answers to GET had 159 bytes with \
             their heads, so that its values were as long as those of its script, as here."
                .to_owned(),
        ];
        if !is_rested {
            notes.push(
                "A store did not come to rest between two loads: a flush or compaction of the one \
                 before ran into the next."
                    .to_owned(),
            );
        }
        if in_memory {
            let note = "The stores are on a file system in memory; choose another with --data.";
            notes.push(note.to_owned());
        }
        notes.extend(measured.rows.iter().flat_map(verdict_note));
        let (findings, sections) = (findings::of(&measured), charts::sections(&measured));
        let taken = measured.rows.iter_mut().map(|row| std::mem::take(&mut row.profiles));
        let taken = taken.fold(Taken::default(), Taken::and);
        let mut outcome = Outcome { settings, findings, sections, profiles: Vec::new(), notes };
        taken.put_into(&mut outcome);
        outcome
    }
}

/// A caution about a load whose figures are not plainly the server's.
fn verdict_note(row: &Row) -> Option<String> {
    let name = row.judgement.verdict.name();
    let evidence = row.judgement.evidence.first()?;
    let whose = format!("{} on {}", row.work.title(), row.engine.name());
    (name != "stable").then(|| format!("{whose}, {name}: {evidence}"))
}

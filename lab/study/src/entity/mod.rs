//! The study `entity`: the highest rate of an HTTP service over a key-value store on one
//! connection, the parts of its time, and the effect of flushes and compactions, on every engine
//! that is built in.
//!
//! It repeats a study of such a service over RocksDB with wrk2: a store of 5,000,000 keys, PUT and
//! then GET of random keys at the highest stable rate, percentiles, and profiles of processor time
//! and allocations. Loads are repeated until the findings are certain enough; then the original's
//! overload of 20,000 requests a second follows. The original guessed from a graph of processor
//! load and a separate one of latencies that a compaction caused the tail. Here, flushes and
//! compactions are marked on the time axis of the requests themselves.

mod charts;
mod findings;
mod job_impact;
mod load_runs;
mod measure;
mod original;
mod plan;
#[cfg(any(test, feature = "rocksdb"))]
mod rocks_log;
mod run;
mod shares;
mod workload;

use std::ffi::OsString;
use std::io::{BufRead, Write};
use std::sync::Arc;

use pellucid_report::{Finding, StudyReport, Unit};

pub use self::plan::{Engine, EntityStudyOptions};

use self::measure::{EngineServer, LoadPlan, Row};
use self::plan::{ServerPlan, VALUE_BYTES};
use self::run::EntityRun;
use self::workload::LoadKind;
use crate::child_server::serve;
use crate::error::StudyError;
use crate::folder::make_folder;
use crate::jobs::{Window, counts};
use crate::proc::is_in_memory;
use crate::profile_recording::RecordedProfiles;
use crate::study::{Context, Scale, Study, StudyDescription, answer, named};

/// The findings that answer the question.
const ANSWERS: [&str; 5] =
    ["put_rate", "get_rate", "jobs_make_the_tail", "put_processor_time", "get_processor_time"];

/// Runs a server until the input ends.
///
/// # Errors
/// If the server does not start or stop, or its plan is invalid.
pub fn run_child(input: impl BufRead, output: impl Write) -> Result<(), StudyError> {
    serve(input, output, |plan: ServerPlan| Ok(plan.options()))
}

impl Study for EntityStudyOptions {
    fn about(&self) -> StudyDescription {
        StudyDescription {
            name: "entity",
            title: "Entities: an HTTP service over a key-value store",
            question: "How many PUTs and GETs a second does the service bear on one connection, \
                       where does their time go, and what do flushes and compactions do to it: on \
                       Pellucid's own engine, and on RocksDB, the engine of the original?",
            scale: self.scale,
        }
    }

    fn run(&self, context: &mut Context<'_>) -> Result<StudyReport, StudyError> {
        let options = self;
        options.check()?;
        let folder = make_folder(options.data.as_deref())?;
        let program = context.child.clone();
        let binary = context.binary()?;
        let engines = options.engines();
        let mut running = Vec::new();
        for engine in &engines {
            let name = format!("Filling {}", engine.name());
            let (memory_bytes, stop) = (options.memory_bytes(), Arc::clone(&context.stop));
            running.push(context.step(&name, |_| {
                let mut store =
                    EngineServer::start(&program, *engine, folder.path(), memory_bytes, stop)?;
                store.fill(options.keys())?;
                Ok(store)
            })?);
        }
        let mut notes = Vec::new();
        let (loads, is_found) = context.step("Looking for the highest rates", |_| {
            highest_rates(&running, &binary, options, &mut notes)
        })?;
        let (rows, overload, filling) = (Vec::new(), Vec::new(), Vec::new());
        let mut measured = EntityRun { engines, is_found, rows, overload, filling };
        let repeated = options.scale.repeats().run(|round| {
            let name = format!("Run {}", round + 1);
            context.step(&name, |say| {
                let program = (&binary, options);
                put_on(&mut running, &loads, round, program, &mut measured.rows, say)
            })?;
            Ok(findings::of(&measured).iter().all(Finding::is_told))
        })?;
        context.step("Overload", |say| {
            let loads: Vec<_> = loads.iter().map(|(at, load)| (*at, load.overload())).collect();
            put_on(&mut running, &loads, 0, (&binary, options), &mut measured.overload, say)
        })?;
        let is_rested = running.iter().all(|store| store.is_rested);
        measured.filling = context.step("Ending the servers", |_| {
            stop(running, measured.rows.iter_mut().chain(&mut measured.overload))
        })?;
        let in_memory = is_in_memory(folder.path());
        context.step("Drawing the charts", |_| {
            let mut outcome = outcome(self, measured, is_rested, in_memory);
            outcome.notes.insert(0, repeated.note());
            outcome.notes.append(&mut notes);
            Ok(outcome)
        })
    }
}

/// Determines the load of each kind on each engine, with the engine's index. Returns true if all
/// rates were found by a search.
fn highest_rates(
    running: &[EngineServer],
    binary: &OsString,
    options: &EntityStudyOptions,
    notes: &mut Vec<String>,
) -> Result<(Vec<(usize, LoadPlan)>, bool), StudyError> {
    let (mut loads, mut is_found) = (Vec::new(), true);
    for work in LoadKind::ALL {
        for (at, store) in running.iter().enumerate() {
            let (load, is_found_here) = store.highest(binary, work, options, notes)?;
            loads.push((at, load));
            is_found &= is_found_here;
        }
    }
    Ok((loads, is_found))
}

/// Runs each load once, on one engine right after the other, so that changes of the machine affect
/// all engines alike.
fn put_on(
    running: &mut [EngineServer],
    loads: &[(usize, LoadPlan)],
    round: usize,
    (binary, options): (&OsString, &EntityStudyOptions),
    rows: &mut Vec<Row>,
    say: &mut dyn FnMut(&str),
) -> Result<(), StudyError> {
    for (at, load) in loads {
        let row = running[*at].measure(binary, load, round + 1, options)?;
        say(&told(&row));
        rows.push(row);
    }
    Ok(())
}

/// Formats a load as a line of progress.
fn told(row: &Row) -> String {
    let show = |quantile| Unit::Nanoseconds.show(row.at(quantile));
    format!(
        "  {} at {:.0}/s: p50 {}, p99 {}, p99.9 {} ({}), {} of processor time",
        row.judged.name,
        row.rate,
        show(0.5),
        show(0.99),
        show(0.999),
        row.judged.verdict,
        Unit::Nanoseconds.show(row.processor_by_request_ns())
    )
}

/// Stops all servers, assigns their jobs to the loads, and counts the jobs during the filling.
fn stop<'a>(
    running: Vec<EngineServer>,
    rows: impl Iterator<Item = &'a mut Row>,
) -> Result<Vec<[usize; 2]>, StudyError> {
    let mut rows: Vec<_> = rows.collect();
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

fn outcome(
    options: &EntityStudyOptions,
    mut measured: EntityRun,
    is_rested: bool,
    in_memory: bool,
) -> StudyReport {
    let names: Vec<_> = measured.engines.iter().map(|engine| engine.name()).collect();
    let highest = match options.scale {
        Scale::Quick => "of a closed loop",
        _ => "by --find-max, with the 99th percentile of the original",
    };
    let settings = [
        ("Engines", names.join(", ")),
        ("Keys", options.keys().to_string()),
        ("Bytes of a value", VALUE_BYTES.to_string()),
        ("Connections of the load", "1".to_owned()),
        ("Seconds of each load", options.seconds().to_string()),
        ("Memory of a store", Unit::Bytes.show(options.memory_bytes() as f64)),
        ("Event loops of a server", "1".to_owned()),
        ("Highest rates", highest.to_owned()),
    ];
    let mut notes = vec![
        "Load and server share the machine; the original's was a notebook of its own, so rates \
         and times there are of another machine, and a server in Java.",
        "The filled store of the original took 1.5 GB; its answers to GET had 159 bytes with \
         their heads, so that its values were as long as those of its script, as here.",
    ];
    if !is_rested {
        notes.push(
            "A store did not come to rest between two loads: a flush or compaction of the one \
             before ran into the next.",
        );
    }
    if in_memory {
        notes.push("The stores are on a file system in memory; choose another with --data.");
    }
    notes.push(
        "The profiles in full are those of the first run; shares of processor time are of all \
         runs. Jitter and accounts are those of the first run, too.",
    );
    let findings = findings::of(&measured);
    let mut outcome = StudyReport {
        settings: named(settings),
        answer: answer(&findings, &ANSWERS),
        picture: Some(charts::picture(&measured)),
        loads: measured
            .rows
            .iter()
            .chain(&measured.overload)
            .flat_map(|row| [row.closed.clone(), row.judged.clone()])
            .collect(),
        sections: charts::sections(&measured),
        findings,
        notes: notes.into_iter().map(str::to_owned).collect(),
        ..StudyReport::default()
    };
    let first = measured.rows.iter_mut().filter(|row| row.judged.run == 1);
    let taken = first.map(|row| std::mem::take(&mut row.profiles));
    taken.fold(RecordedProfiles::default(), RecordedProfiles::and).put_into(&mut outcome);
    outcome
}

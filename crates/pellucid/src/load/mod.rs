//! `pellucid load`: the load generator with wrk's and wrk2's flags, and what they lack: a verdict,
//! the search for the highest rate that is held, sweeps over connections, and reports.

mod account;
mod arguments;
mod document;
mod find_max;
mod outputs;
mod section;
mod server_timing;
mod show;
mod sweep;
mod waterfall;

use std::sync::Arc;

use pellucid_load::{Figures, LoadOptions, LoadResult, Objectives, Progress, judge, run, wrk2};

use crate::Failure;
pub(crate) use arguments::LoadArguments;
use arguments::Task;
pub(crate) use section::{timeline, verdict};
pub(crate) use show::time;
pub(crate) use waterfall::waterfall;

/// Runs the load and prints what wrk2 would, and what it means.
pub(crate) fn execute(arguments: LoadArguments) -> Result<(), Failure> {
    let task = Task::of(arguments)?;
    let stop = Arc::clone(&task.options.stop);
    // The first interrupt keeps the results so far, the second one ends the process.
    let interrupt = signal_hook::consts::SIGINT;
    signal_hook::flag::register_conditional_default(interrupt, Arc::clone(&stop))
        .map_err(Failure::work)?;
    signal_hook::flag::register(interrupt, stop).map_err(Failure::work)?;
    match (task.find_max, task.connections.len() > 1) {
        (true, _) => find_max::execute(&task),
        (false, true) => sweep::execute(&task),
        (false, false) => single(&task),
    }
}

fn single(task: &Task) -> Result<(), Failure> {
    // The script's own words, printed while it is set up, come before the header, as in wrk.
    let header = if task.json { String::new() } else { wrk2::header(&task.options) };
    let mut result = measure(&task.options, &header)?;
    let judgement = judge(&Figures::of(&result));
    let account = match task.json || task.outputs.html.is_some() {
        true => account::of_run(&task.options, &result),
        false => None,
    };
    if task.json {
        println!("{}", document::of(&result, &judgement, account.as_ref()));
    } else {
        print!("{}", wrk2::table(&result, task.latency));
        print!("{}{}", show::operations(&result), show::judgement(&judgement));
    }
    result.call_done().map_err(Failure::work)?;
    let written = task.outputs.write(&[(&result, judgement, account)]);
    for path in written? {
        eprintln!("wrote {}", path.display());
    }
    check(task.objectives.as_ref(), &result)
}

/// A run that kept nothing of what it was to keep has failed, and one that heard nothing as well.
fn check(objectives: Option<&Objectives>, result: &LoadResult) -> Result<(), Failure> {
    if result.requests == 0 {
        let first = result.first_error.as_deref().unwrap_or("the run was too short for one");
        return Err(Failure::work(format!("no request was answered: {first}")));
    }
    match objectives.map_or(Ok(()), |objectives| objectives.check(result)) {
        Ok(()) => Ok(()),
        Err(reason) => Err(Failure::work(format!("the objective was missed: {reason}"))),
    }
}

/// Runs a load and tells its progress on a terminal.
fn measure(options: &LoadOptions, header: &str) -> Result<LoadResult, Failure> {
    let mut line = show::ProgressLine::new();
    let mut progress = |progress: Progress| match progress {
        Progress::Ready => print!("{header}"),
        Progress::Running { elapsed, requests, errors } => line.show(elapsed, requests, errors),
    };
    let result = run(options, &mut progress);
    line.clear();
    result.map_err(Failure::work)
}

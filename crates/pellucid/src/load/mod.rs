//! `pellucid load`: the load generator with wrk's and wrk2's flags, and what they lack: a verdict,
//! the search for the highest rate that is held, sweeps over connections, and reports.

mod account;
mod arguments;
mod background;
mod document;
mod find_max;
mod growth;
mod outputs;
mod section;
mod show;
mod sweep;
mod waterfall;
mod ways;

use std::sync::Arc;

use pellucid_load::{Figures, LoadOptions, LoadResult, Objectives, Progress, judge, run, wrk2};

use crate::Failure;
pub(crate) use arguments::LoadArguments;
use arguments::Task;
use background::{Background, Watching};
pub(crate) use section::{timeline, verdict};
pub(crate) use show::time;
pub(crate) use waterfall::waterfall;
use ways::Ways;

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
    let (mut result, background) = measure_and_watch(task, &task.options, &header)?;
    let judgement = judge(&Figures::of(&result));
    let ways = Ways::of(&result, task.around);
    let account = match task.json || task.outputs.html.is_some() {
        true => account::of_run(&task.options, &result),
        false => None,
    };
    if task.json {
        let nodes = account::of_nodes(&task.options, &result);
        let account = account.as_ref();
        let mut document = document::of(&result, &judgement, account, &ways, &background);
        if let Some(direct) = &result.direct {
            document["direct"] = document::direct(direct, &nodes);
        }
        println!("{document}");
    } else {
        print!("{}", wrk2::table(&result, task.latency));
        print!("{}{}", show::direct(&result), show::operations(&result));
        print!("{}", ways.text(&result));
        print!("{}", show::judgement(&judgement));
    }
    result.call_done().map_err(Failure::work)?;
    let charts = [ways.charts(), section::nodes(&result), background.charts()].concat();
    let written = task.outputs.write(&[(&result, judgement, account, charts)]);
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

/// Runs a load and asks the server meanwhile what it does in the background, if anybody will see
/// it.
fn measure_and_watch(
    task: &Task,
    options: &LoadOptions,
    header: &str,
) -> Result<(LoadResult, Background), Failure> {
    let shown = task.json || task.outputs.html.is_some();
    let watching = (shown && options.ask_timing).then(|| Watching::start(options));
    let result = measure(options, header);
    let background = watching.map(Watching::finish).unwrap_or_default();
    Ok((result?, background))
}

/// Runs a load and tells its progress: on a terminal in one line, elsewhere in a line now and then.
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

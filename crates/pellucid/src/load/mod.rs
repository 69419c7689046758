//! `pellucid load`: a load generator with the flags of wrk and wrk2. In addition it has a verdict,
//! a search for the highest rate that is held, sweeps over connections, and reports.

pub(crate) mod account;
mod arguments;
mod background;
mod document;
mod find_max;
mod growth;
mod latency_breakdowns;
mod measured_run;
mod outputs;
mod section;
mod show;
mod sweep;
mod waterfall;

use std::sync::Arc;

use pellucid_load::wrk2;

use crate::Failure;
pub(crate) use arguments::LoadArguments;
use arguments::Task;
pub(crate) use outputs::{check_writable, save};
pub(crate) use section::{of as section_of, report_of};
pub(crate) use show::time;
pub(crate) use waterfall::waterfall;

/// Runs the load and prints the table of wrk2, followed by our own results.
pub(crate) fn execute(arguments: LoadArguments) -> Result<(), Failure> {
    let task = Task::of(arguments)?;
    let stop = Arc::clone(&task.options.stop);
    // The first interrupt keeps the results so far, the second one ends the process.
    let interrupt = signal_hook::consts::SIGINT;
    signal_hook::flag::register_conditional_default(interrupt, Arc::clone(&stop))?;
    signal_hook::flag::register(interrupt, stop)?;
    match (task.search.find_max, task.connections.len() > 1) {
        (true, _) => find_max::execute(&task),
        (false, true) => sweep::execute(&task),
        (false, false) => single(&task),
    }
}

fn single(task: &Task) -> Result<(), Failure> {
    // The header is printed when the load is ready: after the output of the script's setup, as in
    // wrk.
    let header = if task.output.json { String::new() } else { wrk2::header(&task.options) };
    let mut run = task.measure(&task.options, &header)?;
    let written = task.output.files.write(&[&run], Vec::new());
    // As in wrk, the output of the script's `done` follows the table directly.
    let (before, after) = match task.output.json {
        true => (format!("{}\n", run.document()), String::new()),
        false => (wrk2::table(&run.result, task.distributions), run.text()),
    };
    print_part!("{before}");
    let done = run.call_done();
    print_part!("{after}");
    Failure::all([run.check(task.search.slo.as_ref()), written, done])
}

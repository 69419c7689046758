//! A bare command line for measuring the generator itself:
//! `load_cli URL connections threads seconds rate|0 [script|-] [latency] [depth]`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use std::process::ExitCode;
use std::time::Duration;

use pellucid_load::{Limit, LoadError, LoadOptions, ScriptOptions, Target, run, wrk2};

fn load(arguments: &[String]) -> Result<(), LoadError> {
    let argument = |index: usize| arguments.get(index).map_or("", String::as_str);
    let number = |index: usize, otherwise: u64| argument(index).parse().unwrap_or(otherwise);
    let mut options = LoadOptions::new(Target::parse(argument(0))?);
    options.connections = number(1, 1) as usize;
    options.threads = number(2, 1) as usize;
    options.limit = Limit::Duration(Duration::from_secs(number(3, 5)));
    options.rate_per_second = Some(number(4, 0)).filter(|rate| *rate > 0);
    if !matches!(argument(5), "" | "-") {
        options.script = Some(ScriptOptions { path: argument(5).into(), arguments: Vec::new() });
    }
    options.pipeline_depth = number(7, 1) as usize;
    let mut result = run(&options, &mut |_| {})?;
    let shown = match argument(6) {
        "latency" => wrk2::Distributions::Corrected,
        _ => wrk2::Distributions::None,
    };
    print!("{}{}", wrk2::header(&options), wrk2::table(&result, shown));
    result.call_done()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match load(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

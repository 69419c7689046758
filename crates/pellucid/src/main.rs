//! The command line of Pellucid: one binary for the server, the load generator and the studies.
//! The commands that measure are behind the feature `laboratory`.
//!
//! Each command has a file of its own. Scripts rely on the names of flags, on the line
//! `listening on …`, and on the exit codes: 0 for success, 1 for work that failed, 2 for wrong
//! usage, 3 for a server that stopped while some of its threads had not ended, 4 for an entry that
//! does not exist, 5 for a write whose condition did not hold.
#![allow(clippy::print_stderr, reason = "a command line says what it does")]

// Comes first, because all other modules use its macros.
#[macro_use]
mod standard_output;

mod account;
#[cfg(feature = "laboratory")]
mod compare;
mod completions;
mod copy;
mod data;
#[cfg(feature = "laboratory")]
mod demo;
mod doctor;
mod end_signals;
mod failure;
mod inspect;
#[cfg(feature = "laboratory")]
mod load;
mod man;
mod output_stream;
mod profile;
mod progress;
mod remote_server;
mod serve;
#[cfg(feature = "laboratory")]
mod server_process;
mod settings;
#[cfg(feature = "laboratory")]
mod study;
mod systemd;

use std::alloc::System;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use pellucid_profile::SampledAllocator;

pub(crate) use failure::Failure;

/// The system's allocator, wrapped so that profiles can sample allocations.
#[global_allocator]
static ALLOCATOR: SampledAllocator<System> = SampledAllocator::new(System);

/// A database that accounts for every microsecond of a request.
#[derive(Parser)]
#[command(name = "pellucid", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[cfg(feature = "laboratory")]
    Demo(demo::DemoArguments),
    Serve(Box<settings::ServeArguments>),
    Doctor(doctor::DoctorArguments),
    Get(data::GetArguments),
    Put(data::PutArguments),
    Delete(data::DeleteArguments),
    Scan(data::ScanArguments),
    Changes(data::ChangesArguments),
    Query(data::QueryArguments),
    Export(data::ExportArguments),
    Import(data::ImportArguments),
    Account(account::AccountArguments),
    #[cfg(feature = "laboratory")]
    Load(Box<load::LoadArguments>),
    #[cfg(feature = "laboratory")]
    Compare(compare::CompareArguments),
    Profile(profile::ProfileArguments),
    Inspect(inspect::InspectArguments),
    #[cfg(feature = "laboratory")]
    Study(study::StudyArguments),
    Completions(completions::CompletionsArguments),
    Man(man::ManArguments),
}

/// Raises the soft limit of open files to the hard limit. A connection takes a descriptor, and the
/// soft limit of most systems is far below the needs of a server or a load generator.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // If this fails, the lower limit stays; errors at the limit name it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Catches SIGXFSZ. Otherwise a write beyond the limit of file sizes (`ulimit -f`) would end the
/// process without a message; now the write returns an error.
fn outlive_file_size_limit() {
    // If this fails, the signal ends the process.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

fn main() -> ExitCode {
    pellucid_thread::end_process_on_other_panics();
    raise_descriptor_limit();
    outlive_file_size_limit();
    let matches = Arguments::command().get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    // The settings also need the matches, to tell flags from variables of the environment.
    let of_command = matches.subcommand().map(|(_, matches)| matches).unwrap_or(&matches);
    let outcome = match arguments.command {
        #[cfg(feature = "laboratory")]
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments, of_command),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Get(arguments) => data::get(&arguments),
        Command::Put(arguments) => data::put(&arguments),
        Command::Delete(arguments) => data::delete(&arguments),
        Command::Scan(arguments) => data::scan(&arguments),
        Command::Changes(arguments) => data::changes(&arguments),
        Command::Query(arguments) => data::query(&arguments),
        Command::Export(arguments) => data::export(&arguments),
        Command::Import(arguments) => data::import(&arguments),
        Command::Account(arguments) => account::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, Arguments::command()),
        Command::Man(arguments) => man::run(&arguments, Arguments::command()),
        #[cfg(feature = "laboratory")]
        Command::Load(arguments) => load::execute(*arguments),
        #[cfg(feature = "laboratory")]
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Profile(arguments) => profile::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        #[cfg(feature = "laboratory")]
        Command::Study(arguments) => study::run(arguments),
    };
    match Failure::all([outcome, standard_output::failure()]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("pellucid: {}", failure.text);
            ExitCode::from(failure.code)
        }
    }
}

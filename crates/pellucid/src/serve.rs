//! `pellucid serve`: the server, until it is told to stop.

use std::io::Write;

use clap::ArgMatches;
use pellucid_server::{Log, ServerError, ServerOptions, start};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Failure;
use crate::settings::{ServeArguments, Task};
use crate::systemd::{Manager, Watchdog};

/// Serves, or prints the settings. `matches` are those of this command.
pub(crate) fn run(arguments: &ServeArguments, matches: &ArgMatches) -> Result<(), Failure> {
    match arguments.task(matches)? {
        Task::Print(text) => {
            print!("{text}");
            Ok(())
        }
        Task::Serve(options, logging) => {
            logging.begin();
            serve(*options)
        }
    }
}

/// Serves until SIGTERM or SIGINT, reads the certificate again at SIGHUP, and in the end lets
/// requests in flight finish and closes the store.
fn serve(options: ServerOptions) -> Result<(), Failure> {
    // Before anything runs: a signal that comes early must not kill a store that is half open.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(Failure::work)?;
    let has_tls = options.tls.is_some();
    let server = start(options, Log::of_process()).map_err(Failure::work)?;
    println!("listening on {}", server.url());
    std::io::stdout().flush().map_err(Failure::work)?;
    let manager = Manager::of_environment();
    manager.tell("READY=1");
    let watchdog = Watchdog::begin(server.address(), has_tls);
    // SIGHUP ends nothing: by custom it says that files were changed.
    while signals.forever().next() == Some(SIGHUP) {
        server.reload_certificate();
    }
    drop(watchdog);
    manager.tell("STOPPING=1");
    server.stop().map_err(|error| match error {
        ServerError::Stuck(_) => Failure::stuck(error),
        error => Failure::work(error),
    })
}

//! `pellucid serve`: the server, until it is told to stop.

use std::io::Write;

use pellucid_server::{Log, start};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Failure;
use crate::settings::ServeArguments;

/// Serves until SIGTERM or SIGINT, reads the certificate again at SIGHUP, and in the end lets
/// requests in flight finish and closes the store.
pub(crate) fn run(arguments: ServeArguments) -> Result<(), Failure> {
    let options = arguments.options()?;
    // Before anything runs: a signal that comes early must not kill a store that is half open.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(Failure::work)?;
    let log = Log::new(|line| eprintln!("{line}"));
    let server = start(options, log).map_err(Failure::work)?;
    println!("listening on {}", server.url());
    std::io::stdout().flush().map_err(Failure::work)?;
    // SIGHUP ends nothing: by custom it says that files were changed.
    while signals.forever().next() == Some(SIGHUP) {
        server.reload_certificate();
    }
    server.stop().map_err(Failure::work)
}

//! `pellucid serve`: the server, until it is told to stop.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use clap::ArgMatches;
use pellucid_server::{Log, RunningServer, ServerError, ServerOptions, StoreKind, start};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Failure;
use crate::printed::print_text;
use crate::settings::{ServeArguments, Task};
use crate::systemd::{Manager, Watchdog};

/// The pause between two looks for a signal while the server starts.
const SIGNAL_PAUSE: Duration = Duration::from_millis(100);

/// Serves, or prints the settings. `matches` are those of this command.
pub(crate) fn run(arguments: &ServeArguments, matches: &ArgMatches) -> Result<(), Failure> {
    match arguments.task(matches)? {
        Task::Print(text) => {
            print_part!("{text}");
            Ok(())
        }
        Task::Serve(options, logging) => {
            logging.begin();
            serve(*options)
        }
    }
}

/// Starts the server; nothing if it is told to stop while it waits for a store elsewhere, of which
/// nothing is half open here.
fn begin(options: ServerOptions, signals: &mut Signals) -> Result<Option<RunningServer>, Failure> {
    if matches!(options.store, StoreKind::Embedded) {
        return start(options, Log::of_process()).map(Some).map_err(Failure::work);
    }
    let (sender, started) = sync_channel(1);
    std::thread::spawn(move || {
        // Nobody listens any more once it was told to stop.
        let _ = sender.send(start(options, Log::of_process()));
    });
    loop {
        match started.recv_timeout(SIGNAL_PAUSE) {
            Ok(server) => return server.map(Some).map_err(Failure::work),
            Err(RecvTimeoutError::Timeout) => {}
            Err(error) => return Err(Failure::work(error)),
        }
        if signals.pending().any(|signal| signal != SIGHUP) {
            return Ok(None);
        }
    }
}

/// Announces that the server is ready: on standard output, and to the service manager.
fn announce(server: &RunningServer, has_tls: bool) -> Result<(Manager, Option<Watchdog>), Failure> {
    let lines = server.urls().into_iter().map(|url| format!("listening on {url}\n"));
    // In one piece: who reads the first line alone may be gone before a second one comes.
    print_text(&lines.collect::<String>())?;
    let (manager, watchdog) = watch(server, has_tls).map_err(|error| {
        Failure::work(format!("the service manager cannot be told of the server: {error}"))
    })?;
    manager.tell("READY=1");
    Ok((manager, watchdog))
}

/// Makes all that the service manager is told by, before it hears that the server is ready.
fn watch(server: &RunningServer, has_tls: bool) -> io::Result<(Manager, Option<Watchdog>)> {
    let manager = Manager::of_environment()?;
    let address = server.addresses().first();
    let watchdog = address.map(|address| Watchdog::begin(address, has_tls)).transpose()?;
    Ok((manager, watchdog.flatten()))
}

/// Serves until SIGTERM or SIGINT, reads the certificate again at SIGHUP, and in the end lets
/// requests in flight finish and closes the store.
fn serve(options: ServerOptions) -> Result<(), Failure> {
    // Before anything runs: a signal that comes early must not kill a store that is half open.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let has_tls = options.tls.is_some();
    let Some(server) = begin(options, &mut signals)? else { return Ok(()) };
    let (manager, watchdog) = match announce(&server, has_tls) {
        Ok(told) => told,
        Err(failure) => {
            // The failure above matters more.
            let _ = server.stop();
            return Err(failure);
        }
    };
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

//! `pellucid serve`: runs the server until a signal stops it.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use clap::ArgMatches;
use pellucid_server::{Log, RunningServer, ServerError, ServerOptions, StoreKind, start};
use pellucid_thread::PeriodicThread;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::raise;

use crate::Failure;
use crate::settings::{ServeArguments, Task};
use crate::standard_output::print_text;
use crate::systemd::{ServiceManager, begin_watchdog};

/// The interval at which signals are checked while the server starts.
const SIGNAL_PAUSE: Duration = Duration::from_millis(100);
/// The longest wait for a start that a signal has interrupted.
const START_WAIT: Duration = Duration::from_secs(2);

/// Serves, or prints the settings. `matches` are those of this command.
pub(crate) fn run(arguments: &ServeArguments, matches: &ArgMatches) -> Result<(), Failure> {
    match arguments.task(matches)? {
        Task::Print(text) => {
            print_part!("{text}");
            Ok(())
        }
        Task::Serve(options, logging) => {
            logging.begin();
            serve(*options, arguments.end_with_input)
        }
    }
}

/// Starts the server. Returns `None` if a signal stops it while it waits for a remote store.
fn begin(options: ServerOptions, signals: &mut Signals) -> Result<Option<RunningServer>, Failure> {
    if matches!(options.store, StoreKind::Embedded) {
        return start(options, Log::of_process()).map(Some).map_err(Failure::work);
    }
    let (sender, started) = sync_channel(1);
    std::thread::spawn(move || {
        // The receiver is gone if a signal came first.
        let _ = sender.send(start(options, Log::of_process()));
    });
    loop {
        match started.recv_timeout(SIGNAL_PAUSE) {
            Ok(server) => return server.map(Some).map_err(Failure::work),
            Err(RecvTimeoutError::Timeout) => {}
            Err(error) => return Err(Failure::work(error)),
        }
        if signals.pending().any(|signal| signal != SIGHUP) {
            // A server that is ready by then has the lease of the documents and gives it up.
            if let Ok(Ok(server)) = started.recv_timeout(START_WAIT) {
                stop(server)?;
            }
            return Ok(None);
        }
    }
}

/// Announces that the server is ready: on standard output, and to the service manager.
fn announce(
    server: &RunningServer,
    has_tls: bool,
) -> Result<(ServiceManager, Option<PeriodicThread>), Failure> {
    let lines = server.urls().into_iter().map(|url| format!("listening on {url}\n"));
    // One write for all lines: a reader of the first line may close the pipe after it.
    print_text(&lines.collect::<String>())?;
    let (manager, watchdog) = watch(server, has_tls).map_err(|error| {
        Failure::work(format!("the service manager cannot be told of the server: {error}"))
    })?;
    manager.tell("READY=1");
    Ok((manager, watchdog))
}

/// Connects to the service manager and starts the watchdog, before the server reports that it is
/// ready.
fn watch(
    server: &RunningServer,
    has_tls: bool,
) -> io::Result<(ServiceManager, Option<PeriodicThread>)> {
    let manager = ServiceManager::of_environment()?;
    let address = server.addresses().first();
    let watchdog = address.map(|address| begin_watchdog(address, has_tls)).transpose()?;
    Ok((manager, watchdog.flatten()))
}

/// Serves until SIGTERM or SIGINT, or the end of the input if it `ends_with_input`, and reloads the
/// certificate at SIGHUP. At the end, requests in flight finish and the store is closed.
fn serve(options: ServerOptions, ends_with_input: bool) -> Result<(), Failure> {
    // Before anything else: an early signal must not kill the process while the store is opened.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    if ends_with_input {
        std::thread::spawn(|| {
            // An input that cannot be read has ended, too.
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            let _ = raise(SIGTERM);
        });
    }
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
    // By convention, SIGHUP means that files have changed, and does not end the server.
    while signals.forever().next() == Some(SIGHUP) {
        server.reload_certificate();
    }
    drop(watchdog);
    manager.tell("STOPPING=1");
    stop(server)
}

fn stop(server: RunningServer) -> Result<(), Failure> {
    server.stop().map_err(|error| match error {
        ServerError::Stuck(_) => Failure::stuck(error),
        error => Failure::work(error),
    })
}

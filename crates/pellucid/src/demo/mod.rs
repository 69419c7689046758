//! `pellucid demo`: starts a server, puts it under a real load, and shows where the time went, as
//! measured by the load generator and by the server.

mod present;
mod requests;
mod stages;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use pellucid_server::Accounting;
use signal_hook::consts::SIGINT;

use crate::Failure;
use crate::demo::requests::Kind;
use crate::demo::stages::{ConstantRateResult, Plan};
use crate::end_signals::end_signals;
use crate::load::{check_writable, report_of, save};
use crate::server_process::ServerProcess;
use crate::settings::AccountingKind;

/// The number of keys with `--full`: that of the study that the demo repeats.
const FULL_KEYS: u64 = 5_000_000;
/// The default number of keys, few enough to fill the store in seconds.
const DEFAULT_KEYS: u64 = 500_000;
const DEFAULT_SECONDS: u64 = 15;
const FULL_SECONDS: u64 = 30;
/// The interval at which signals are checked while the server is left up.
const SIGNAL_PAUSE: Duration = Duration::from_millis(100);

/// Fill a store, put it under constant load, and say where the time went.
///
/// Example: pellucid demo --keys 100000 --seconds 5
#[derive(Args)]
pub(crate) struct DemoArguments {
    /// Keys in the store [default: 500000, with --full 5000000].
    #[arg(long)]
    keys: Option<u64>,
    /// Seconds that each load is held [default: 15, with --full 30].
    #[arg(long)]
    seconds: Option<u64>,
    /// Requests per second [default: half of what saturates the server].
    #[arg(long)]
    rate: Option<u64>,
    /// The size of the study that this repeats: 5,000,000 keys, about 1.5 GB.
    #[arg(long)]
    full: bool,
    /// Connections of the load.
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Threads of the load.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// The detail of the server's account.
    #[arg(long, value_enum, default_value_t = AccountingKind::Full)]
    accounting: AccountingKind,
    /// The file to write the report to.
    #[arg(long, default_value = "report.html")]
    report: PathBuf,
    /// Keep the store in this folder instead of a temporary one.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Leave the server up until the demo is interrupted.
    #[arg(long)]
    keep: bool,
}

impl DemoArguments {
    fn plan(&self, stop: Arc<AtomicBool>) -> Result<Plan, Failure> {
        let choose =
            |given: Option<u64>, full, small| given.unwrap_or(if self.full { full } else { small });
        let plan = Plan {
            keys: choose(self.keys, FULL_KEYS, DEFAULT_KEYS),
            seconds: choose(self.seconds, FULL_SECONDS, DEFAULT_SECONDS),
            rate: self.rate,
            connections: self.connections,
            threads: self.threads,
            stop,
        };
        let fits = (1..=1 << 31).contains(&plan.keys) && (1..=590).contains(&plan.seconds);
        if !fits || plan.rate == Some(0) || plan.threads == 0 || plan.connections < plan.threads {
            return Err(Failure::usage(
                "the demo takes 1 to 2147483648 keys, 1 to 590 seconds, a rate of at least 1, and \
                 at least as many connections as threads",
            ));
        }
        Ok(plan)
    }
}

/// Runs the demo.
pub(crate) fn run(arguments: &DemoArguments) -> Result<(), Failure> {
    // The first signal ends the demo once its server and store are gone, a later SIGINT at once.
    // Other signals do not: a terminal that is closed and `timeout` send theirs twice.
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register_conditional_default(SIGINT, Arc::clone(&stop))?;
    for signal in end_signals() {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let plan = arguments.plan(stop)?;
    check_writable(&arguments.report)?;
    let temporary = tempfile::Builder::new().prefix("pellucid-demo-").tempdir()?;
    let data = arguments.data.as_deref().unwrap_or(temporary.path());
    let flags = ["--accounting", Accounting::from(arguments.accounting).name()];
    let server = ServerProcess::start(data, &flags)?;
    let mut peak_bytes = 0;
    print_line!("A server is up at {}.", server.url("/"));

    let filled = plan.fill(&server)?;
    let seconds = filled.duration.as_secs_f64();
    let rate = filled.requests_per_second();
    print_line!("Filled it with {} entries in {seconds:.1} s ({rate:.0} a second).", plan.keys);
    peak_bytes = server.anonymous_bytes().max(peak_bytes);

    let (put, put_section) = load(&plan, &server, &Kind::Put)?;
    peak_bytes = server.anonymous_bytes().max(peak_bytes);
    let (server, restart) = restart(server, data, &flags)?;
    print_line!("{}", restart_sentence(restart));
    let (get, get_section) = load(&plan, &server, &Kind::Get)?;
    peak_bytes = server.anonymous_bytes().max(peak_bytes);

    let memory = format!(
        "The server used up to {:.0} MiB of memory beside the page cache.",
        peak_bytes as f64 / f64::from(1 << 20)
    );
    print_line!("{memory}");
    let notes = vec![
        format!("The store held {} entries when the loads began.", plan.keys),
        restart_sentence(restart),
        memory,
        not_held(&[&put, &get]),
    ];
    let notes = notes.into_iter().filter(|note| !note.is_empty()).collect();
    let sections = vec![put_section, get_section];
    let report = report_of("Pellucid demo", sections, notes);
    save(&arguments.report, pellucid_report::html(&report).as_bytes())?;
    if arguments.keep {
        keep(&server, &plan.stop);
    }
    server.stop()
}

/// Leaves the server up until a signal comes.
fn keep(server: &ServerProcess, stop: &AtomicBool) {
    print_line!("The account is at {}; ^C ends it.", server.url("/_admin/account"));
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(SIGNAL_PAUSE);
    }
}

fn load(
    plan: &Plan,
    server: &ServerProcess,
    kind: &Kind,
) -> Result<(ConstantRateResult, pellucid_report::Section), Failure> {
    let rate = plan.find_rate(server, kind.clone())?;
    let steady = plan.hold(server, kind, rate, &mut |line| print_line!("{line}"))?;
    let section = present::section(plan, kind, &steady);
    print_line!("\n=== {} ===\n", section.name);
    print_line!("{}", present::describe(&section, &steady));
    Ok((steady, section))
}

/// Kills the server, starts another on its data, and waits for its first answer from the store.
fn restart(
    server: ServerProcess,
    data: &Path,
    flags: &[&str],
) -> Result<(ServerProcess, Duration), Failure> {
    server.kill()?;
    let begun = Instant::now();
    let server = ServerProcess::start(data, flags)?;
    server.get("/v0/entity?id=1")?;
    Ok((server, begun.elapsed()))
}

fn restart_sentence(took: Duration) -> String {
    let seconds = took.as_secs_f64();
    format!("Killed and started anew, the server answered its first GET after {seconds:.2} s.")
}

/// A note for the report if the server could not answer the offered rate; otherwise empty.
fn not_held(loads: &[&ConstantRateResult]) -> String {
    let held = |load: &&ConstantRateResult| {
        let offered = load.result.load.rate_per_second.unwrap_or(0) as f64;
        load.result.requests_per_second() >= offered * 0.99
    };
    if loads.iter().all(held) {
        return String::new();
    }
    "A load was not held: its percentiles tell how long the run was, not how fast the server is."
        .to_owned()
}

//! The process that is measured: a server, and a thread that keeps every request's record.
//!
//! It is told what to do by lines on standard input and answers with lines on standard output: the
//! plan of the server is answered with its address, `begin` with `begun`, `end NAME COUNT` with the
//! figures of the COUNT requests of operation NAME in between, and `profiles`, once, with those
//! since the start.

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use pellucid_account::{Account, Record};
use pellucid_clock::Ticks;
use pellucid_profile::RECORDING_HERTZ;
use pellucid_server::{Log, RunningServer, ServerOptions, start};

use super::figures::{Kept, ServerFigures, processor_mhz};
use super::plan::ServerPlan;
use crate::error::StudyError;
use crate::profiled::Profiled;
use crate::served::plan_of;

/// Pause between two looks at the flight recorder, which keeps more than is answered meanwhile.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// Pause between two looks for the last records of a run, and how long they are waited for: some
/// may have been overwritten before they were read, and then they do not come.
const RECORDING_PAUSE: Duration = Duration::from_millis(2);
const RECORDING_LIMIT_NS: u64 = 2_000_000_000;

/// The messages to the keeping thread.
enum Told {
    /// Forget what was, and say so here.
    Begin(Sender<()>),
    /// The operation, how many requests it had, and where its figures go.
    End(String, usize, Sender<ServerFigures>),
}

/// Takes the part of the process that is measured: runs it until its input ends.
///
/// # Errors
/// If the server does not start or stop, or its input makes no sense.
pub fn run_child(mut input: impl BufRead, mut output: impl Write) -> Result<(), StudyError> {
    let plan: ServerPlan = plan_of(&mut input)?;
    let server = serve(&plan)?;
    let mut profiled = Some(Profiled::begin(RECORDING_HERTZ));
    let mut answer = |text: &str| {
        let written = writeln!(output, "{text}").and_then(|()| output.flush());
        written.map_err(StudyError::step)
    };
    answer(&server.addresses()[0].to_string())?;
    let (sender, receiver) = channel();
    let account = server.account();
    let keeper = std::thread::spawn(move || keep(&account, &receiver));
    for line in input.lines() {
        let line = line.map_err(StudyError::step)?;
        let gone = |_| StudyError::Step("the thread that keeps records has ended".to_owned());
        match line.split_once(' ') {
            Some(("end", what)) => {
                let (operation, requests) = what.split_once(' ').unwrap_or((what, ""));
                let requests = requests.parse().map_err(StudyError::step)?;
                let (figures, made) = channel();
                sender.send(Told::End(operation.to_owned(), requests, figures)).map_err(gone)?;
                let figures = made.recv().map_err(StudyError::step)?;
                answer(&serde_json::to_string(&figures).map_err(StudyError::step)?)?;
            }
            _ if line == "begin" => {
                let (begun, has_begun) = channel();
                sender.send(Told::Begin(begun)).map_err(gone)?;
                has_begun.recv().map_err(StudyError::step)?;
                answer("begun")?;
            }
            _ if line == "profiles" => {
                let names = server.account().names().operations;
                let begun = profiled
                    .take()
                    .ok_or_else(|| StudyError::step("`profiles` is asked for once"))?;
                let profiles = begun.end(names);
                answer(&serde_json::to_string(&profiles).map_err(StudyError::step)?)?;
            }
            _ => return Err(StudyError::Step(format!("`{line}` is nothing to do"))),
        }
    }
    drop(sender);
    // It ends with the channel; if it panicked, its message is out.
    let _ = keeper.join();
    server.stop().map_err(StudyError::step)
}

fn serve(plan: &ServerPlan) -> Result<RunningServer, StudyError> {
    let mut options = ServerOptions::new(plan.data.clone());
    options.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()];
    // One event loop, as there is one connection.
    options.threads = 1;
    plan.apply(&mut options)?;
    start(options, Log::new(|_| {})).map_err(StudyError::step)
}

/// Keeps the records between `begin` and `end`.
fn keep(account: &Account, told: &Receiver<Told>) {
    let clock = account.clock();
    let mut records: Vec<(u8, Kept)> = Vec::new();
    let (mut begun_at, mut last) = (clock.now(), clock.now());
    let mut mhz: Option<(f64, f64)> = None;
    let mut lost = 0;
    loop {
        let message = told.recv_timeout(LOOK_PAUSE);
        take_new(account, begun_at, &mut last, &mut records);
        mhz = wider(mhz, processor_mhz());
        match message {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Ok(Told::Begin(begun)) => {
                records.clear();
                (begun_at, last, mhz) = (clock.now(), clock.now(), None);
                lost = account.snapshot(Some(1)).records_lost;
                // Whoever asked waits for it, or has gone.
                let _ = begun.send(());
            }
            Ok(Told::End(operation, requests, figures)) => {
                // The client has its answer before the server has recorded the request.
                let begun = clock.now();
                while of(&operation, account, &records).len() < requests
                    && clock.nanoseconds(clock.now().since(begun)) < RECORDING_LIMIT_NS
                {
                    std::thread::sleep(RECORDING_PAUSE);
                    take_new(account, begun_at, &mut last, &mut records);
                }
                let kept = of(&operation, account, &records);
                let mut made = ServerFigures::of(&kept, &clock);
                made.processor_mhz = mhz;
                made.lost = account.snapshot(Some(1)).records_lost - lost;
                // Whoever asked waits for it, or has gone and is told nothing.
                let _ = figures.send(made);
            }
        }
    }
}

fn of(operation: &str, account: &Account, records: &[(u8, Kept)]) -> Vec<Kept> {
    let names = account.names().operations;
    let is_it = |slot: u8| names.get(usize::from(slot)).is_some_and(|name| *name == operation);
    records.iter().filter(|(slot, _)| is_it(*slot)).map(|(_, kept)| *kept).collect()
}

/// Takes the records that came after `last`, but for those of requests that arrived before the run
/// began: the last one of the warm-up may be recorded after its client has its answer.
fn take_new(account: &Account, begun_at: Ticks, last: &mut Ticks, records: &mut Vec<(u8, Kept)>) {
    let clock = account.clock();
    let new: Vec<Record> = account.ended_after(*last);
    if let Some(newest) = new.last() {
        *last = newest.span().1;
    }
    let of_run = new.iter().filter(|record| record.span().0 >= begun_at);
    records.extend(of_run.map(|record| (record.facts.operation, Kept::of(record, &clock))));
}

fn wider(a: Option<(f64, f64)>, b: Option<(f64, f64)>) -> Option<(f64, f64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

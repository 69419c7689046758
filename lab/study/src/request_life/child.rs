//! The measured process: a server, and a thread that keeps the record of every request.
//!
//! Beside the lines of [`answer_lines`], it answers `begin`, which starts a run, and
//! `end NAME COUNT` with the figures of the COUNT requests of operation NAME since then.

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use pellucid_account::{Account, Record};
use pellucid_clock::Ticks;
use pellucid_server::{Log, RunningServer, ServerOptions, start};

use super::figures::{RequestTimes, ServerFigures, processor_mhz};
use super::plan::ServerPlan;
use crate::child_server::{answer_lines, plan_of};
use crate::error::StudyError;

/// The interval at which the flight recorder is read. It holds more records than there are requests
/// in that time.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// The interval at which the last records of a run are looked for.
const RECORDING_PAUSE: Duration = Duration::from_millis(2);
/// The longest wait for the last records of a run. Records that were overwritten before they were
/// read never come.
const RECORDING_LIMIT_NS: u64 = 2_000_000_000;

/// A message to the thread that keeps records.
enum RecordMessage {
    /// Starts a run: forgets all records, and confirms that through the channel.
    Begin(Sender<()>),
    /// Ends a run: the operation, its number of requests, and the channel for the figures.
    End(String, usize, Sender<ServerFigures>),
}

/// Runs the measured process until the input ends.
///
/// # Errors
/// If the server does not start or stop, or a line of the input is invalid.
pub fn run_child(mut input: impl BufRead, output: impl Write) -> Result<(), StudyError> {
    let plan: ServerPlan = plan_of(&mut input)?;
    let server = serve(&plan)?;
    let account = server.account();
    let (sender, receiver) = channel();
    let keeper = std::thread::spawn(move || keep(&account, &receiver));
    answer_lines(server, input, output, move |line| answer_to(line, &sender))?;
    // The thread ends with the channel. If it panicked, the message was printed already.
    let _ = keeper.join();
    Ok(())
}

/// Answers `begin` and `end`; `None` for other lines.
fn answer_to(line: &str, keeper: &Sender<RecordMessage>) -> Result<Option<String>, StudyError> {
    let gone = |_| StudyError::step("the thread that keeps records has ended");
    if line == "begin" {
        let (begun, has_begun) = channel();
        keeper.send(RecordMessage::Begin(begun)).map_err(gone)?;
        has_begun.recv().map_err(StudyError::step)?;
        return Ok(Some("null".to_owned()));
    }
    let Some(what) = line.strip_prefix("end ") else { return Ok(None) };
    let (operation, requests) = what.split_once(' ').unwrap_or((what, ""));
    let requests = requests.parse().map_err(StudyError::step)?;
    let (figures, made) = channel();
    keeper.send(RecordMessage::End(operation.to_owned(), requests, figures)).map_err(gone)?;
    let figures = made.recv().map_err(StudyError::step)?;
    serde_json::to_string(&figures).map(Some).map_err(StudyError::step)
}

fn serve(plan: &ServerPlan) -> Result<RunningServer, StudyError> {
    let mut options = ServerOptions::new(plan.data.clone());
    options.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()];
    // One event loop, as there is one connection.
    options.threads = 1;
    plan.apply(&mut options)?;
    start(options, Log::new(|_| {})).map_err(StudyError::step)
}

/// Keeps the records of requests between `begin` and `end`, until the channel is closed.
fn keep(account: &Account, told: &Receiver<RecordMessage>) {
    let clock = account.clock();
    let mut records: Vec<(u8, RequestTimes)> = Vec::new();
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
            Ok(RecordMessage::Begin(begun)) => {
                records.clear();
                (begun_at, last, mhz) = (clock.now(), clock.now(), None);
                lost = account.snapshot(Some(1)).records_lost;
                // Sending fails only if the receiver is gone.
                let _ = begun.send(());
            }
            Ok(RecordMessage::End(operation, requests, figures)) => {
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
                // Sending fails only if the receiver is gone.
                let _ = figures.send(made);
            }
        }
    }
}

fn of(operation: &str, account: &Account, records: &[(u8, RequestTimes)]) -> Vec<RequestTimes> {
    let names = account.names().operations;
    let is_it = |slot: u8| names.get(usize::from(slot)).is_some_and(|name| *name == operation);
    records.iter().filter(|(slot, _)| is_it(*slot)).map(|(_, kept)| *kept).collect()
}

/// Adds the records that ended after `last`, except those of requests that arrived before the run
/// began: the last request of the warm-up may be recorded after its client got the answer.
fn take_new(
    account: &Account,
    begun_at: Ticks,
    last: &mut Ticks,
    records: &mut Vec<(u8, RequestTimes)>,
) {
    let clock = account.clock();
    let new: Vec<Record> = account.ended_after(*last);
    if let Some(newest) = new.last() {
        *last = newest.span().1;
    }
    let of_run = new.iter().filter(|record| record.span().0 >= begun_at);
    records.extend(of_run.map(|record| (record.facts.operation, RequestTimes::of(record, &clock))));
}

fn wider(a: Option<(f64, f64)>, b: Option<(f64, f64)>) -> Option<(f64, f64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

//! The study `request-life`: the time of a request in the server, phase by phase, over every
//! transport, with and without a hand-over to other threads.
//!
//! It repeats a study of the life of a request in ArangoDB. That used probes, an editor, R and
//! gnuplot by hand. Here one command is enough: the server accounts for its requests, and the study
//! keeps the record of each. The server runs in a separate process. As in the original, requests
//! are sent one after the other, so that none waits for another.

mod charts;
mod child;
mod client;
mod conclusions;
mod figures;
mod original;
mod plan;
mod probe_view;

use pellucid_clock::Clock;
use pellucid_report::{Finding, StudyReport};

pub use self::child::run_child;
pub use self::plan::RequestLifeOptions;

use self::client::{RunFigures, ServerProcess};
use self::conclusions::Rounds;
use self::plan::{
    HAND_OVERS, HandOver, KEYS, OPERATIONS, Operation, ServerPlan, TRANSPORTS, Transport,
    VALUE_BYTES,
};
use crate::error::StudyError;
use crate::folder::make_folder;
use crate::profile_recording::RecordedProfiles;
use crate::study::{Context, Study, StudyDescription, answer, named};

/// The findings that answer the question: the total, its largest part, and what adds to it.
const ANSWERS: [&str; 5] = ["total", "write", "tls", "http2", "entities"];

impl Study for RequestLifeOptions {
    fn about(&self) -> StudyDescription {
        StudyDescription {
            name: "request-life",
            title: "The life of a request",
            question: "Where does the time of a request go in the server, from the moment when it \
                       has been read until its response is written, and what do TLS, HTTP/2, the \
                       store and hand-overs add?",
            scale: self.scale,
        }
    }

    fn run(&self, context: &mut Context<'_>) -> Result<StudyReport, StudyError> {
        let requests = self.requests();
        if requests == 0 {
            return Err(StudyError::Options("--requests is at least 1".to_owned()));
        }
        let folder = make_folder(self.data.as_deref())?;
        let (mut rounds, mut profiles) = (Vec::<Vec<RunFigures>>::new(), None);
        let repeated = self.scale.repeats().run(|round| {
            // Findings use the hand-over `auto`; the other modes run only once.
            let hand_overs = if round == 0 { &HAND_OVERS[..] } else { &HAND_OVERS[..1] };
            let mut runs = Vec::new();
            for hand_over in hand_overs {
                for transport in TRANSPORTS {
                    let way = hand_over.name();
                    let name = format!("Run {}: {}, hand-over {way}", round + 1, transport.title());
                    let data = format!("{}-{way}-{round}", transport.name());
                    let data = folder.path().join(data);
                    let plan = ServerPlan { data, transport, hand_over: *hand_over };
                    let program = context.child.clone();
                    let (measured, taken) = context
                        .step(&name, |say| measure(&program, plan, (requests, round + 1), say))?;
                    runs.extend(measured);
                    // Keep the profiles of the first server: plain HTTP/1.1, hand-over `auto`.
                    profiles.get_or_insert(taken);
                }
            }
            rounds.push(runs);
            Ok(conclusions::findings(Rounds(&rounds)).iter().all(Finding::is_told))
        })?;
        let program = context.child.clone();
        let outside = context
            .step("The view from outside", |say| probe_view::look(&program, folder.path(), say))?;
        let mut outcome = outcome(&rounds, requests);
        match outside {
            Ok(view) => {
                let untraced = rounds.first().and_then(|runs| runs.first());
                outcome.sections.insert(1, view.section(untraced));
                outcome.loads.push(view.run.judged.clone());
            }
            Err(why) => outcome.notes.push(format!("The view from outside is not drawn: {why}.")),
        }
        outcome.notes.insert(0, repeated.note());
        profiles.unwrap_or_default().put_into(&mut outcome);
        Ok(outcome)
    }
}

/// Starts one server, and measures every operation on it.
fn measure(
    program: &[std::ffi::OsString],
    plan: ServerPlan,
    (requests, run): (u64, usize),
    say: &mut dyn FnMut(&str),
) -> Result<(Vec<RunFigures>, RecordedProfiles), StudyError> {
    let mut server = ServerProcess::start(program, plan)?;
    server.fill()?;
    let mut runs = Vec::new();
    for operation in OPERATIONS {
        let run = server.measure(operation, requests, run)?;
        let (median, p99) = (run.server.total.p50_ns, run.server.total.p99_ns);
        say(&format!(
            "  {}: median {:.1} µs, 99 % {:.1} µs, client's median {:.1} µs",
            operation.title(),
            median as f64 / 1e3,
            p99 as f64 / 1e3,
            run.client.p50_ns as f64 / 1e3
        ));
        runs.push(run);
    }
    let profiles = server.profiles()?;
    server.stop()?;
    Ok((runs, profiles))
}

fn outcome(rounds: &[Vec<RunFigures>], requests: u64) -> StudyReport {
    let runs = rounds.first().map_or(&[][..], |runs| runs);
    let clock = Clock::system();
    let rate = clock.ticks_per_second() as f64 / 1e6;
    let clock = format!("{} at {rate:.1} MHz", clock.source().name());
    let lost: u64 = rounds.iter().flatten().map(|run| run.server.lost).sum();
    let findings = conclusions::findings(Rounds(rounds));
    let mut notes = [
        "Requests go out one after the other on one connection, so there is no queueing but that \
         of hand-overs; what many connections add is shown by `pellucid demo` and `pellucid load`.",
        "Client and server share the machine: where it has few cores, each wake-up of one may wait \
         for the other.",
        "Charts and tables are those of the first run of each kind; the findings are of all runs.",
    ]
    .map(str::to_owned)
    .to_vec();
    if lost > 0 {
        notes.push(format!("{lost} records were overwritten before they were read."));
    }
    StudyReport {
        settings: named([
            ("requests of each run", requests.to_string()),
            ("operations", OPERATIONS.map(Operation::title).join(", ")),
            ("transports", TRANSPORTS.map(Transport::title).join(", ")),
            ("hand-over", HAND_OVERS.map(HandOver::name).join(", ")),
            ("keys", KEYS.to_string()),
            ("value bytes", VALUE_BYTES.to_string()),
            ("clock", clock.clone()),
        ]),
        answer: answer(&findings, &ANSWERS),
        picture: Some(charts::picture(runs)),
        loads: rounds.iter().flatten().map(|run| run.judged.clone()).collect(),
        findings,
        sections: charts::sections(runs, &clock),
        notes,
        ..StudyReport::default()
    }
}

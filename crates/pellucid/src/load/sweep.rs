//! `pellucid load --connections 1,3,10,100`: runs the same load over several numbers of
//! connections, and over the number from the rule of thumb, to check that rule.

use std::sync::atomic::Ordering;

use pellucid_load::{
    LoadOptions, SweepPoint, Verdict, recommended, rule_holds, rule_of_thumb, wrk2,
};
use serde_json::{Value, json};

use super::account::PAUSE;
use super::arguments::Task;
use super::measured_run::Run;
use super::show::time;
use crate::Failure;

/// The rule of thumb for the number of connections, applied to a server.
struct Rule {
    server_cores: usize,
    /// True if the server's cores were not given, and those of this machine are used.
    is_guessed: bool,
    connections: usize,
}

impl Rule {
    fn of(task: &Task) -> Rule {
        let here = || std::thread::available_parallelism().map_or(1, usize::from);
        let server_cores = task.server_cores.unwrap_or_else(here);
        let connections = rule_of_thumb(server_cores);
        Rule { server_cores, is_guessed: task.server_cores.is_none(), connections }
    }

    /// The requested numbers of connections, with the rule's inserted before the first larger one.
    fn among(&self, asked: &[usize]) -> Vec<usize> {
        let mut all = asked.to_vec();
        if !all.contains(&self.connections) {
            let place = all.iter().position(|number| *number > self.connections);
            all.insert(place.unwrap_or(all.len()), self.connections);
        }
        all
    }

    fn sentence(&self, points: &[SweepPoint], is_paced: bool) -> String {
        let Rule { server_cores, connections, .. } = self;
        let judged = match rule_holds(points, *connections, is_paced) {
            Some(true) => "holds here: its figures are nearly the best",
            Some(false) => "does not hold here: its figures are not near the best",
            None => "was not tried",
        };
        let guess = if self.is_guessed { ", as this machine has; see --server-cores" } else { "" };
        format!(
            "The rule max(32, 2 × server's cores) = {connections} {judged} \
             ({server_cores} cores{guess})."
        )
    }
}

/// Runs the sweep and prints a row for each number of connections. If a run fails, the results of
/// the earlier runs are still printed and written.
pub(super) fn execute(task: &Task) -> Result<(), Failure> {
    let rule = Rule::of(task);
    let all = rule.among(&task.connections).into_iter().map(|number| options_of(task, number));
    let all = all.collect::<Result<Vec<_>, _>>()?;
    let mut outcomes = Vec::new();
    if !task.output.json {
        print_part!("{}", head(task));
    }
    let mut runs: Vec<Run> = Vec::new();
    let is_stopped = || task.options.stop.load(Ordering::Relaxed);
    for options in &all {
        if !runs.is_empty() {
            if !is_stopped() {
                options.pause(PAUSE);
            }
            if is_stopped() {
                outcomes.push(Err(Failure::work("it was interrupted")));
                break;
            }
        }
        match task.measure(options, "") {
            Ok(run) => runs.push(run),
            Err(failure) => {
                let number = options.connections;
                outcomes.push(Err(failure.at(&format!("with {number} connections"))));
                break;
            }
        }
        let Some(run) = runs.last() else { break };
        if !task.output.json {
            print_part!("{}", row(run));
        }
        if run.result.failure.is_some() {
            break;
        }
    }
    outcomes.extend(runs.iter().map(|run| check(task, run)));
    if task.output.json {
        print_line!("{}", document(task, &rule, &runs, &outcomes));
    } else {
        let choice = choice(&points(&runs), &rule, task.options.is_paced());
        print_part!("{}{choice}", distributions(task, &runs));
    }
    if !runs.is_empty() {
        outcomes.push(task.output.files.write(&runs.iter().collect::<Vec<_>>(), Vec::new()));
    }
    outcomes.extend(runs.iter_mut().map(Run::call_done));
    Failure::all(outcomes)
}

fn options_of(task: &Task, connections: usize) -> Result<LoadOptions, Failure> {
    let threads = task.options.threads.min(connections).max(1);
    let options = LoadOptions { connections, threads, ..task.options.clone() };
    options.check().map_err(Failure::usage)?;
    Ok(options)
}

/// Checks a run against the objectives, which apply to each run of the sweep.
fn check(task: &Task, run: &Run) -> Result<(), Failure> {
    let place = || format!("with {} connections", run.result.load.connections);
    run.check(task.search.slo.as_ref()).map_err(|failure| failure.at(&place()))
}

fn points(runs: &[Run]) -> Vec<SweepPoint> {
    runs.iter().map(|run| SweepPoint::of(&run.result)).collect()
}

/// The sweep as JSON; docs/load.md describes its members.
fn document(task: &Task, rule: &Rule, runs: &[Run], outcomes: &[Result<(), Failure>]) -> Value {
    let (points, is_paced) = (points(runs), task.options.is_paced());
    json!({
        "schema": "pellucid.sweep.v1",
        "recommended_connections": recommended(&points, is_paced),
        "rule": {
            "connections": rule.connections,
            "server_cores": rule.server_cores,
            "holds": rule_holds(&points, rule.connections, is_paced),
        },
        "failures": outcomes
            .iter()
            .filter_map(|outcome| Some(outcome.as_ref().err()?.text.as_str()))
            .collect::<Vec<_>>(),
        "runs": runs.iter().map(Run::document).collect::<Vec<_>>(),
    })
}

fn head(task: &Task) -> String {
    format!(
        "Sweep over connections @ {}\n  {:>11}{:>12}{:>12}{:>12}{:>12}{:>12}{:>10}  verdict\n",
        task.options.target.url(),
        "connections",
        "answers/s",
        "p99",
        "service",
        "wait p99",
        "wait mean",
        "wait part"
    )
}

fn row(run: &Run) -> String {
    let point = SweepPoint::of(&run.result);
    format!(
        "  {:>11}{:>12.0}{:>12}{:>12}{:>12}{:>12}{:>10.2}  {}\n",
        point.connections,
        point.answered_per_second,
        time(point.response_p99_ns),
        time(point.service_p99_ns),
        time(point.connection_wait_p99_ns),
        time(point.connection_wait_mean_ns as u64),
        point.connection_wait_share(),
        run.judgement.verdict.name(),
    )
}

/// The text of each run as a single run prints it; empty unless distributions are requested (`-L`).
fn distributions(task: &Task, runs: &[Run]) -> String {
    let one = |run: &Run| {
        let table = wrk2::table(&run.result, task.distributions);
        format!("\n{} connections:\n{table}{}", run.result.load.connections, run.text())
    };
    let is_asked = task.distributions != wrk2::Distributions::None;
    let all: String = runs.iter().filter(|_| is_asked).map(one).collect();
    if all.is_empty() { all } else { all + "\n" }
}

/// The recommended number of connections with its reason; empty if there was no run.
fn choice(points: &[SweepPoint], rule: &Rule, is_paced: bool) -> String {
    let choice = recommended(points, is_paced);
    let Some(chosen) = points.iter().find(|point| Some(point.connections) == choice) else {
        return match points.is_empty() {
            true => String::new(),
            false => "  No number is recommended: all runs are about errors.\n".to_owned(),
        };
    };
    let (choice, share) = (chosen.connections, chosen.connection_wait_share());
    let reason = match is_paced {
        true => format!("{share:.2} of the mean response time is then a wait for one."),
        false => "it is by throughput alone: with a rate (-R), latency counts too.".to_owned(),
    };
    let mut text = format!(
        "  Recommended: {choice} connections, the fewest with nearly the best figures;\n    \
         {reason}\n"
    );
    if chosen.verdict != Verdict::Stable {
        let verdict = chosen.verdict.name();
        text.push_str(&format!("    Beware: that run was {verdict}, so its figures say little.\n"));
    }
    if points.iter().all(|point| point.connections <= choice) {
        text.push_str("    It is the greatest number that was tried: more may be better still.\n");
    }
    text + &format!("    {}\n", rule.sentence(points, is_paced))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use clap::Parser;
    use pellucid_load::simulation::{HttpServer, Reply, Service, Simulation};

    use super::*;
    use crate::load::LoadArguments;

    /// A server at which the user interrupts the load after 1.5 s.
    struct InterruptingServer {
        server: HttpServer,
        stop: Arc<AtomicBool>,
    }

    impl Service for InterruptingServer {
        fn accept(&mut self, socket: UnixStream) -> io::Result<()> {
            self.server.accept(socket)
        }

        fn step(&mut self, now_ns: u64) -> Option<u64> {
            self.stop.fetch_or(now_ns > 1_500_000_000, Ordering::Relaxed);
            self.server.step(now_ns)
        }
    }

    /// Regression: a sweep that was interrupted in the pause between two runs began one more.
    #[test]
    fn an_interrupt_between_two_runs_ends_the_sweep() {
        let command = ["load", "http://simulated/", "-t", "1", "-c", "1,2", "-d", "1s"];
        let arguments = LoadArguments::try_parse_from(command).unwrap();
        let mut task = Task::of(arguments).unwrap();
        let server = HttpServer::new(|_| Reply::ok().after(Duration::from_millis(1)));
        let stop = Arc::clone(&task.options.stop);
        task.options.simulation = Some(Simulation::new(InterruptingServer { server, stop }));
        let failure = execute(&task).unwrap_err();
        assert_eq!(failure.text, "it was interrupted");
    }

    fn rule() -> Rule {
        Rule { server_cores: 2, is_guessed: true, connections: rule_of_thumb(2) }
    }

    fn point(connections: usize, answered_per_second: f64) -> SweepPoint {
        SweepPoint {
            connections,
            answered_per_second,
            response_p99_ns: 1_000,
            connection_wait_p99_ns: 0,
            connection_wait_mean_ns: 0.0,
            response_mean_ns: 500.0,
            service_p99_ns: 1_000,
            verdict: Verdict::Stable,
        }
    }

    /// Regression: the number of the rule, which was tried too, did not count as greater.
    #[test]
    fn only_the_greatest_number_that_was_tried_may_be_too_small() {
        for (points, is_greatest) in [
            ([point(10, 900.0), point(32, 1_000.0)], true),
            ([point(10, 1_000.0), point(32, 1_000.0)], false),
        ] {
            let said = choice(&points, &rule(), false);
            assert_eq!(said.contains("more may be better"), is_greatest, "{said}");
        }
    }

    #[test]
    fn the_number_of_the_rule_is_tried_once() {
        assert_eq!(rule().among(&[1, 3, 10, 100]), [1, 3, 10, 32, 100]);
        assert_eq!(rule().among(&[1, 32]), [1, 32]);
        assert_eq!(rule().among(&[1, 3]), [1, 3, 32]);
    }

    #[test]
    fn the_sentence_says_which_rule_and_whether_it_holds() {
        let said = rule().sentence(&[point(10, 900.0), point(32, 1_000.0)], true);
        let expected = "The rule max(32, 2 × server's cores) = 32 holds here: ";
        assert!(said.starts_with(expected) && said.contains("--server-cores"), "{said}");
        let said = rule().sentence(&[point(32, 900.0), point(100, 1_000.0)], true);
        assert!(said.contains("does not hold here"), "{said}");
        assert!(rule().sentence(&[point(1, 1.0)], true).contains("was not tried"));
    }
}

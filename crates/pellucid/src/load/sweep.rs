//! `pellucid load --connections 1,3,10,100`: the same load over several numbers of connections, and
//! over the one that the usual rule gives, which is thereby checked.

use pellucid_load::{
    Figures, LoadOptions, SweepPoint, judge, recommended, rule_holds, rule_of_thumb,
};

use super::arguments::Task;
use super::show::time;
use super::{Ways, account, check, document, measure_and_watch};
use crate::Failure;

/// The rule of thumb for a server, which the sweep tries beside the numbers that were asked for.
struct Rule {
    server_cores: usize,
    /// Whether the number of cores is this machine's, for want of the server's.
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

    /// The numbers that were asked for, and the rule's, in their order.
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

/// Runs the sweep and prints a row for each number of connections.
pub(super) fn execute(task: &Task) -> Result<(), Failure> {
    let rule = Rule::of(task);
    let (mut points, mut runs, mut documents) = (Vec::new(), Vec::new(), Vec::new());
    if !task.json {
        print_head(task);
    }
    for connections in &rule.among(&task.connections) {
        let options = LoadOptions {
            connections: *connections,
            threads: task.options.threads.min(*connections),
            ..task.options.clone()
        };
        options.check().map_err(Failure::usage)?;
        let (result, background) = measure_and_watch(task, &options, "")?;
        let judgement = judge(&Figures::of(&result));
        let point = SweepPoint::of(&result);
        let ways = Ways::of(&result, task.around);
        if task.json {
            documents.push(document::of(&result, &judgement, None, &ways, &background));
        } else {
            print_row(&point, judgement.verdict.name());
        }
        points.push(point);
        let account = task.outputs.html.as_ref().and_then(|_| account::of_run(&options, &result));
        let stopped = result.stopped_early;
        let charts = [ways.charts(), background.charts()].concat();
        runs.push((result, judgement, account, charts));
        if stopped {
            break;
        }
    }
    let choice = recommended(&points, task.options.is_paced());
    if task.json {
        let sweep = serde_json::json!({
            "schema": "pellucid.sweep.v1",
            "recommended_connections": choice,
            "rule": {
                "connections": rule.connections,
                "server_cores": rule.server_cores,
                "holds": rule_holds(&points, rule.connections, task.options.is_paced()),
            },
            "runs": documents,
        });
        println!("{sweep}");
    } else if let Some(choice) = choice {
        print_choice(task, &points, choice);
        println!("    {}", rule.sentence(&points, task.options.is_paced()));
    }
    let runs: Vec<_> =
        runs.iter().map(|(r, j, a, c)| (r, j.clone(), a.clone(), c.clone())).collect();
    for path in task.outputs.write(&runs)? {
        eprintln!("wrote {}", path.display());
    }
    runs.iter().try_for_each(|(result, ..)| check(None, result))
}

fn print_head(task: &Task) {
    println!("Sweep over connections @ {}", task.options.target.url());
    println!(
        "  {:>11}{:>12}{:>12}{:>12}{:>12}{:>12}{:>10}  verdict",
        "connections", "answers/s", "p99", "service", "wait p99", "wait mean", "wait part"
    );
}

fn print_row(point: &SweepPoint, verdict: &str) {
    println!(
        "  {:>11}{:>12.0}{:>12}{:>12}{:>12}{:>12}{:>10.2}  {verdict}",
        point.connections,
        point.answered_per_second,
        time(point.response_p99_ns),
        time(point.service_p99_ns),
        time(point.connection_wait_p99_ns),
        time(point.connection_wait_mean_ns as u64),
        point.connection_wait_share(),
    );
}

fn print_choice(task: &Task, points: &[SweepPoint], choice: usize) {
    let share = points.iter().find(|point| point.connections == choice);
    let share = share.map_or(0.0, SweepPoint::connection_wait_share);
    println!("  Recommended: {choice} connections, the fewest with nearly the best figures;");
    match task.options.is_paced() {
        true => println!("    {share:.2} of the mean response time is then a wait for one."),
        false => println!("    it is by throughput alone: with a rate (-R), latency counts too."),
    }
    if Some(&choice) == task.connections.iter().max() {
        println!("    It is the greatest number that was tried: more may be better still.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> Rule {
        Rule { server_cores: 2, is_guessed: true, connections: rule_of_thumb(2) }
    }

    #[test]
    fn the_rules_number_is_tried_once() {
        assert_eq!(rule().among(&[1, 3, 10, 100]), [1, 3, 10, 32, 100]);
        assert_eq!(rule().among(&[1, 32]), [1, 32]);
        assert_eq!(rule().among(&[1, 3]), [1, 3, 32]);
    }

    #[test]
    fn the_sentence_says_which_rule_and_whether_it_holds() {
        let point = |connections, answered_per_second| SweepPoint {
            connections,
            answered_per_second,
            response_p99_ns: 1_000,
            connection_wait_p99_ns: 0,
            connection_wait_mean_ns: 0.0,
            response_mean_ns: 500.0,
            service_p99_ns: 1_000,
        };
        let said = rule().sentence(&[point(10, 900.0), point(32, 1_000.0)], true);
        let expected = "The rule max(32, 2 × server's cores) = 32 holds here: ";
        assert!(said.starts_with(expected) && said.contains("--server-cores"), "{said}");
        let said = rule().sentence(&[point(32, 900.0), point(100, 1_000.0)], true);
        assert!(said.contains("does not hold here"), "{said}");
        assert!(rule().sentence(&[point(1, 1.0)], true).contains("was not tried"));
    }
}

//! `pellucid load --find-max --slo p99=5ms`: finds the highest rate that keeps the objectives, the
//! spread of that figure, and the steps of a request that grew up to there.
//!
//! The highest rate is also called the knee: above it, latency rises steeply.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pellucid_load::{
    Arrivals, Knee, KneeSearch, LatencyBreakdown, Limit, LoadOptions, LoadResult, Objectives,
    Pacer, SearchOptions, Step, Verdict,
};
use pellucid_report::{Machine, command_line};
use serde_json::{Value, json};

use super::account::PAUSE;
use super::arguments::Task;
use super::growth::{self, Growth};
use super::measured_run::{Run, measure};
use super::show::time;
use crate::Failure;

/// The default length of a run that confirms a rate.
const CONFIRMATION: Duration = Duration::from_secs(30);
/// The default length of a run that confirms a rate, with `--quick`.
const QUICK_CONFIRMATION: Duration = Duration::from_secs(5);
/// The length of a confirming run divided by that of a trial, which is at most [`TRIAL_MAX`].
const TRIALS_PER_CONFIRMATION: u32 = 5;
const TRIAL_MAX: Duration = Duration::from_secs(4);
/// The number of searches without `--quick`.
const REPEATS: usize = 3;
/// The length of the closed-loop run that determines the start of the search.
const PROBE: Duration = Duration::from_secs(1);
/// The first rate of the search, as a share of the rate of the closed-loop run.
const START_SHARE: f64 = 0.25;
/// The most attempts at a rate while trials fail because of the generator or the machine.
const TRIES: usize = 3;
/// A missed rate limits the result if it is at most this many times the rate that was found.
const NEAR: f64 = 1.1;
/// The message if the generator was the limit.
const GENERATORS: &str = "The generator could not keep up above that, so the service may hold \
                          more: give the generator more threads or a machine of its own.";
/// The message if other programs used the processors.
const MACHINES: &str = "Above that, others had the processors, so the service may hold more: end \
                        what runs beside.";
/// The two rates between which the steps of a request are compared, as multiples of the knee.
const BELOW: f64 = 0.5;
const ABOVE: f64 = 1.05;

/// The outcome of the search; it contains the trials so far even if the search ended early.
#[derive(Default)]
struct SearchResult {
    knee: Knee,
    /// The growth of each step of a request from half of the knee to just above it.
    growth: Vec<Growth>,
    trials: Vec<Value>,
    /// The confirming runs with their rates.
    confirmed: Vec<(f64, Run)>,
    /// The last trial, which is shown if no run confirmed a rate.
    last: Option<Run>,
    /// Rates that were missed because of the generator or the machine, in requests per second, with
    /// the verdict that tells which.
    missed_by_others: Vec<(f64, Verdict)>,
    /// The event that ended the search early.
    failure: Option<Failure>,
}

/// Runs the search, prints each trial and the knee, and writes the run that confirmed it.
pub(super) fn execute(task: &Task) -> Result<(), Failure> {
    let mut found = find(task)?;
    match task.output.json {
        true => print_line!("{}", found.json()),
        false => print_part!("{}", found.text()),
    }
    let mut outcomes = vec![found.failure.take().map_or(Ok(()), Err)];
    let about = found.about();
    if let Some(mut run) = found.run() {
        outcomes.push(task.output.files.write(&[&run], vec![about]));
        outcomes.push(run.call_done());
    }
    Failure::all(outcomes)
}

fn find(task: &Task) -> Result<SearchResult, Failure> {
    let Some(objectives) = &task.search.slo else {
        return Err(Failure::usage("--find-max needs --slo, such as --slo p99=5ms"));
    };
    let usual = if task.search.quick { QUICK_CONFIRMATION } else { CONFIRMATION };
    let confirmation = task.duration.unwrap_or(usual);
    let trial = (confirmation / TRIALS_PER_CONFIRMATION).min(TRIAL_MAX);
    let mut search = KneeSearch::new(SearchOptions {
        start_per_second: start(task)?,
        repeats: if task.search.quick { 1 } else { REPEATS },
        ..SearchOptions::default()
    });
    let mut found = SearchResult::default();
    while found.failure.is_none() {
        let Step::Try { rate_per_second, confirm } = search.step() else { break };
        let length = if confirm { confirmation } else { trial };
        match attempt(task, objectives, rate_per_second, length) {
            Ok((run, kept)) if !is_cut(task, &run.result) => {
                tell(task, &run.result, confirm, &kept);
                search.report(kept.is_ok());
                found.take(rate_per_second, confirm, run, &kept);
            }
            Ok((run, _)) => {
                let text = run.failure().unwrap_or_else(|| "it was interrupted".to_owned());
                found.failure = Some(Failure::work(text));
                // An interrupted run is kept only if there is no complete one.
                found.last.get_or_insert(run);
            }
            Err(failure) => found.failure = Some(failure),
        }
    }
    found.knee = search.knee().clone();
    if let Some(failure) = found.failure.take() {
        let place = format!("the search ended after {} trials", found.trials.len());
        found.failure = Some(failure.at(&place));
    } else if let Some(rate_per_second) = found.knee.median_per_second() {
        match growth_at(task, rate_per_second, trial) {
            Ok(growth) => found.growth = growth,
            Err(failure) => found.failure = Some(failure),
        }
    } else {
        let text = "no rate is held within the objectives, not even one a second";
        found.failure = Some(Failure::work(text));
    }
    Ok(found)
}

/// The first rate of the search: well below the rate of a closed-loop run.
fn start(task: &Task) -> Result<f64, Failure> {
    let limit = Limit::Duration(PROBE);
    let options = LoadOptions { limit, warm_up: Duration::ZERO, ..task.options.clone() };
    // A closed loop has neither: its requests start when answers come.
    let (arrivals, pacer) = (Arrivals::Constant, Pacer::Exact);
    let closed = LoadOptions { arrivals, pacer, ..options };
    closed.check().map_err(Failure::usage)?;
    let result = measure(&closed, "")?.whole()?;
    if result.requests == 0 {
        let first = result.first_error.as_deref().unwrap_or("no answer within a second");
        return Err(Failure::work(format!("no request was answered: {first}")));
    }
    Ok((result.requests_per_second() * START_SHARE).max(1.0))
}

/// Tries a rate. A trial that failed because of the generator, or because other programs used the
/// processors, tells nothing about the service, so it is repeated up to [`TRIES`] times.
fn attempt(
    task: &Task,
    objectives: &Objectives,
    rate: f64,
    length: Duration,
) -> Result<(Run, Result<(), String>), Failure> {
    for _ in 1..TRIES {
        let (run, kept) = attempt_once(task, objectives, rate, length)?;
        if kept.is_ok() || is_cut(task, &run.result) || !is_limited(&run) {
            return Ok((run, kept));
        }
    }
    attempt_once(task, objectives, rate, length)
}

/// Returns true if an error or an interrupt ended the run. A script that ends it behind the warm-up
/// leaves figures as good as those of a whole run.
fn is_cut(task: &Task, result: &LoadResult) -> bool {
    result.failure.is_some() || task.options.stop.load(Ordering::Relaxed)
}

/// Returns true if the generator or the machine limited the run.
fn is_limited(run: &Run) -> bool {
    matches!(run.judgement.verdict, Verdict::GeneratorLimited | Verdict::MachineLimited)
}

fn attempt_once(
    task: &Task,
    objectives: &Objectives,
    rate: f64,
    length: Duration,
) -> Result<(Run, Result<(), String>), Failure> {
    task.options.pause(PAUSE);
    let run = task.measure(&options_of(task, rate, length)?, "")?;
    let is_measured = !run.result.response_time_at_least().is_empty();
    if run.result.stopped_early && !is_measured && !is_cut(task, &run.result) {
        return Err(Failure::work("the script ended within the warm-up"));
    }
    let kept = objectives.check(&run.result);
    Ok((run, kept))
}

/// The options of a load of that rate and length, whose warm-up is at most a quarter of it.
fn options_of(task: &Task, rate: f64, length: Duration) -> Result<LoadOptions, Failure> {
    let options = LoadOptions {
        rate_per_second: Some((rate.round() as u64).max(1)),
        limit: Limit::Duration(length),
        warm_up: task.options.warm_up.min(length / 4),
        ..task.options.clone()
    };
    options.check().map_err(Failure::usage)?;
    Ok(options)
}

fn tell(task: &Task, result: &LoadResult, confirm: bool, kept: &Result<(), String>) {
    if task.output.json {
        return;
    }
    let rate = result.load.rate_per_second.unwrap_or(0);
    let p99 = time(result.times.response.value_at_quantile(0.99));
    let what = if confirm { "confirm" } else { "try" };
    match kept {
        Ok(()) => print_line!("  {what:<8}{rate:>10}/s  held      p99 {p99}"),
        Err(reason) => print_line!("  {what:<8}{rate:>10}/s  not held  p99 {p99}: {reason}"),
    }
}

/// Measures the growth of the steps of a request from half the knee to just above it. `rate` is the
/// knee.
fn growth_at(task: &Task, rate: f64, length: Duration) -> Result<Vec<Growth>, Failure> {
    let mut ways = Vec::new();
    for share in [BELOW, ABOVE] {
        task.options.pause(PAUSE);
        let options = options_of(task, rate * share, length)?;
        let result = measure(&options, "")?.whole()?;
        if is_cut(task, &result) {
            return Err(Failure::work("it was interrupted while it looked for what grew"));
        }
        let traces = result.traces;
        ways.push(LatencyBreakdown::mean(&traces.some.iter().collect::<Vec<_>>(), &traces));
    }
    Ok(match &ways[..] {
        [Some(before), Some(after)] => growth::between(before, after),
        _ => Vec::new(),
    })
}

impl SearchResult {
    /// Adds a trial that ran to its end.
    fn take(&mut self, rate: f64, confirm: bool, run: Run, kept: &Result<(), String>) {
        let result = &run.result;
        if kept.is_err() && is_limited(&run) {
            self.missed_by_others.push((rate, run.judgement.verdict));
        }
        self.trials.push(json!({
            "rate_per_second": result.load.rate_per_second,
            "answered_per_second": result.requests_per_second(),
            "p99_ns": result.times.response.value_at_quantile(0.99),
            "confirmation": confirm,
            "held": kept.is_ok(),
            "verdict": run.judgement.verdict.name(),
            "reason": kept.as_ref().err(),
        }));
        match confirm && kept.is_ok() {
            true => self.confirmed.push((rate, run)),
            false => self.last = Some(run),
        }
    }

    /// The run to show: the one that confirmed the median rate, else the last trial.
    fn run(self) -> Option<Run> {
        let median = self.knee.median_per_second();
        let is_median = |(rate, _): &(f64, Run)| Some(*rate) == median;
        self.confirmed.into_iter().find(is_median).map(|(_, run)| run).or(self.last)
    }

    /// The verdict of a missed trial near the found rate, if the generator or the machine limited
    /// it.
    fn limited_by(&self) -> Option<Verdict> {
        let near = self.knee.median_per_second()? * NEAR;
        let missed = self.missed_by_others.iter().find(|(rate, _)| *rate <= near);
        missed.map(|(_, verdict)| *verdict)
    }

    /// A sentence about that limit, if there is one.
    fn limit_told(&self) -> Option<&'static str> {
        let verdict = self.limited_by()?;
        Some(if verdict == Verdict::MachineLimited { MACHINES } else { GENERATORS })
    }

    /// A sentence about the shown run, for the report.
    fn about(&self) -> String {
        match self.knee.median_per_second() {
            Some(rate) => format!(
                "Highest stable rate: {}{rate:.0} requests a second. Shown is the run that \
                 confirmed it; {} trials came before or after.{}",
                self.at_least(),
                self.trials.len() - 1,
                self.limit_told().map_or_else(String::new, |told| format!(" {told}"))
            ),
            None => "No highest stable rate was found. Shown is the last trial.".to_owned(),
        }
    }

    /// The words before a rate that is only a lower bound of the service's capacity.
    fn at_least(&self) -> &'static str {
        if self.limited_by().is_some() { "at least " } else { "" }
    }

    fn json(&self) -> Value {
        let spread = self.knee.median_per_second().map(|_| self.knee.spread_per_second());
        let phases = self.growth.iter().map(|growth| {
            json!({
                "phase": growth.step,
                "mean_at_half_ns": growth.before_ns,
                "mean_above_ns": growth.after_ns,
            })
        });
        json!({
            "schema": "pellucid.knee.v1",
            "command": command_line(),
            "machine": Machine::of_this_machine(env!("CARGO_PKG_VERSION")),
            "limited_by": match self.limited_by() {
                None => "service",
                Some(Verdict::MachineLimited) => "machine",
                Some(_) => "generator",
            },
            "rate_per_second": self.knee.median_per_second(),
            "least_per_second": spread.map(|(least, _)| least),
            "greatest_per_second": spread.map(|(_, greatest)| greatest),
            "found_per_second": self.knee.found_per_second,
            "phases": phases.collect::<Value>(),
            "trials": self.trials,
            "failure": self.failure.as_ref().map(|failure| failure.text.as_str()),
        })
    }

    fn text(&self) -> String {
        let Some(rate) = self.knee.median_per_second() else {
            return "Highest stable rate: none was found\n".to_owned();
        };
        let (least, greatest) = self.knee.spread_per_second();
        let times = match self.knee.found_per_second.len() {
            1 => "found once".to_owned(),
            times => format!(
                "found {times} times, {least:.0} to {greatest:.0}, a band of {:.1} %",
                (greatest - least) / rate * 100.0
            ),
        };
        let trials = self.knee.trials;
        let mut text = format!(
            "Highest stable rate: {}{rate:.0} requests/s ({times}; {trials} trials)\n",
            self.at_least()
        );
        if let Some(told) = self.limit_told() {
            text += &format!("  {told}\n");
        }
        if !self.growth.is_empty() {
            text += &growth::sentences(&self.growth);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    use clap::Parser;
    use pellucid_load::simulation::{HttpServer, Reply, SimulatedOverhead, Simulation};

    use super::*;
    use crate::load::LoadArguments;

    /// A server with a queue that releases an answer every 2 ms, and 1 ms of work for each answer.
    fn bucket() -> Arc<Simulation> {
        let (interval_ns, mut next_ns) = (2_000_000, 0);
        Simulation::new(HttpServer::new(move |request| {
            let slot_ns = request.begin_ns.max(next_ns);
            next_ns = slot_ns + interval_ns;
            let queue = Duration::from_nanos(slot_ns - request.begin_ns);
            let answer = format!(
                "HTTP/1.1 200 OK\r\nServer-Timing: queue;dur={}, work;dur=1\r\n\
                 Content-Length: 2\r\n\r\nok",
                queue.as_secs_f64() * 1e3
            );
            Reply::new(answer.as_bytes()).after(queue + Duration::from_millis(1))
        }))
    }

    fn task(flags: &[&str]) -> Task {
        let command = ["load", "http://simulated/", "--find-max", "-t", "1", "-c", "16"];
        let arguments = LoadArguments::try_parse_from(command.iter().chain(flags)).unwrap();
        let mut task = Task::of(arguments).unwrap();
        task.options.simulation = Some(bucket());
        task
    }

    /// Runs the whole command, except for the parsing of flags, in virtual time.
    #[test]
    fn a_known_capacity_is_found_within_five_percent_and_the_grown_step_is_named() {
        for (flags, times) in
            [(&["--slo", "p99=25ms"][..], 3), (&["--slo", "p99=25ms", "--quick"], 1)]
        {
            let found = find(&task(flags)).unwrap();
            assert!(found.failure.is_none(), "{:?}", found.failure);
            let ratio = found.knee.median_per_second().unwrap() / 500.0;
            assert!((0.95..=1.05).contains(&ratio), "{flags:?}: {ratio} of the capacity");
            assert_eq!(found.knee.found_per_second.len(), times);
            let most = found.growth.iter().find(|growth| growth.is_servers()).unwrap();
            assert_eq!(most.step, "server: queue", "{flags:?}");
            let text = found.text();
            assert!(text.contains("'server: queue'") && text.contains("found "), "{text}");
            assert_eq!(found.json()["trials"].as_array().unwrap().len(), found.knee.trials);
            // Regression: the text lacked the uncertainty of the server's part.
            let shown = found.run().unwrap().text();
            assert!(shown.contains("\n    server's part lies within ±"), "{shown}");
        }
    }

    #[test]
    fn a_search_works_with_a_description_of_work() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("mix.toml");
        let operations = ["a", "b"]
            .map(|name| format!("[[operation]]\nname = \"{name}\"\npath = \"/{name}\"\n"));
        std::fs::write(&file, format!("[load]\nrate = 9\n{}", operations.concat())).unwrap();
        let work = ["--slo", "p99=25ms", "--quick", "--work", file.to_str().unwrap()];
        let found = find(&task(&work)).unwrap();
        let ratio = found.knee.median_per_second().unwrap() / 500.0;
        assert!((0.95..=1.05).contains(&ratio), "{ratio} of the capacity");
    }

    /// Regression: wrk2's pacing was refused, because the search begins with a closed loop.
    #[test]
    fn a_search_works_with_the_pacing_of_wrk2() {
        let found = find(&task(&["--slo", "p99=25ms", "--quick", "--pacing", "wrk2"])).unwrap();
        let most = found.knee.median_per_second().unwrap();
        assert!((250.0..=525.0).contains(&most), "{most} of 500 requests a second");
    }

    /// A script that ends its thread in place of this request.
    fn script_until(request: u32) -> tempfile::NamedTempFile {
        let script = tempfile::NamedTempFile::new().unwrap();
        let text = format!(
            "local left = {request}
            function request()
                left = left - 1
                if left > 0 then return wrk.format() end
            end"
        );
        std::fs::write(script.path(), text).unwrap();
        script
    }

    /// Regression: the first trial that its script ended ended the search, as if interrupted.
    #[test]
    fn a_search_goes_on_behind_trials_that_their_script_ends() {
        let script = script_until(500);
        let path = script.path().to_str().unwrap();
        let found = find(&task(&["--slo", "p99=25ms", "--quick", "-s", path])).unwrap();
        assert!(found.failure.is_none(), "{:?}", found.failure);
        let most = found.knee.median_per_second().unwrap();
        assert!((450.0..=600.0).contains(&most), "{most} of 500 requests a second");
    }

    /// Regression: a trial without a measured request counted as one that was missed, so that the
    /// knee was a rate at which the script lasted longer.
    #[test]
    fn a_script_that_ends_within_the_warm_up_ends_the_search() {
        let script = script_until(20);
        let path = script.path().to_str().unwrap();
        let flags = ["--slo", "p99=25ms", "--quick", "--warm-up", "1s", "-s", path];
        let failure = find(&task(&flags)).unwrap().failure.unwrap();
        assert!(failure.text.contains("within the warm-up"), "{}", failure.text);
    }

    /// Regression: `--duration` was ignored.
    #[test]
    fn a_rate_is_confirmed_for_the_given_duration() {
        let found = find(&task(&["--slo", "p99=25ms", "--quick", "-d", "7s"])).unwrap();
        let lengths =
            found.confirmed.iter().map(|(_, run)| run.result.duration.as_secs_f64().round());
        assert_eq!(lengths.collect::<Vec<_>>(), [7.0]);
    }

    /// Regression: the loads that measure growth kept the whole warm-up, and recorded nothing if it
    /// was as long as a trial.
    #[test]
    fn growth_is_measured_with_a_long_warm_up() {
        let task = task(&["--slo", "p99=25ms", "--quick", "--warm-up", "3s"]);
        let found = find(&task).unwrap();
        let most = found.growth.iter().find(|growth| growth.is_servers()).unwrap();
        assert_eq!(most.step, "server: queue");
    }

    /// Regression: a rate that the generator could not send counted as one that the service could
    /// not answer.
    #[test]
    fn a_limit_of_the_generator_is_not_a_knee() {
        let mut task = task(&["--slo", "p99=25ms", "--quick"]);
        let burden = SimulatedOverhead {
            event_cost: Duration::from_millis(1),
            ..SimulatedOverhead::default()
        };
        let quick = HttpServer::new(|_| Reply::ok().after(Duration::from_micros(300)));
        task.options.simulation = Some(Simulation::burdened(quick, burden));
        let found = find(&task).unwrap();
        assert_eq!(found.json()["limited_by"], "generator", "{:#?}", found.trials);
        assert!(found.trials.iter().any(|trial| trial["verdict"] == "generator-limited"));
        let text = found.text();
        assert!(text.contains("rate: at least ") && text.contains("may hold more"), "{text}");
        let services = find(&self::task(&["--slo", "p99=25ms", "--quick"])).unwrap();
        assert_eq!(services.json()["limited_by"], "service");
    }

    #[test]
    fn an_objective_that_no_rate_keeps_is_an_error() {
        let found = find(&task(&["--slo", "p50=500us", "--quick"])).unwrap();
        let failure = found.failure.as_ref().unwrap();
        assert!(failure.text.contains("no rate is held"), "{failure:?}");
        let json = found.json();
        assert!(json["rate_per_second"].is_null() && json["least_per_second"].is_null());
        assert_eq!(json["trials"].as_array().unwrap().len(), found.knee.trials);
        assert!(found.text().contains("none was found"));
        assert!(found.run().is_some(), "the last trial is shown");
    }

    /// Regression: with `--json`, an interrupted search printed none of its trials.
    #[test]
    fn an_interrupted_search_reports_its_trials() {
        let (asked, stop) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
        let raised = Arc::clone(&stop);
        let server = HttpServer::new(move |_| {
            // Enough requests for the closed-loop run and some trials.
            raised.fetch_or(asked.fetch_add(1, Ordering::SeqCst) > 60_000, Ordering::SeqCst);
            Reply::ok().after(Duration::from_millis(1))
        });
        let mut task = task(&["--slo", "p99=25ms"]);
        task.options.simulation = Some(Simulation::new(server));
        task.options.stop = stop;
        let mut found = find(&task).unwrap();
        let json = found.json();
        assert!(!json["trials"].as_array().unwrap().is_empty(), "{json}");
        let text = found.failure.take().unwrap().text;
        assert!(text.contains(" trials: it was interrupted"), "{text}");
        assert_eq!(json["failure"], text);
        assert!(found.run().is_some());
    }
}

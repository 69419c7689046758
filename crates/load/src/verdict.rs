//! What a run may be taken for. Percentiles are the last thing to look at: if the backlog grew,
//! they only tell how long the test ran; if the generator was late, they tell of the generator; if
//! answers were errors, they tell how fast the server refuses. So every run ends with a verdict and
//! the figures that it rests on.

use crate::result::{ErrorCounts, LoadResult, Silence};

/// From this share of errors on, a run is about them.
const ERROR_SHARE: f64 = 0.01;
/// A backlog below this share of all requests that were due does not count as growing.
const BACKLOG_SHARE: f64 = 0.002;
/// The generator's own delay counts from this share of the mean response time on,
const GENERATOR_SHARE: f64 = 0.1;
/// or of its 99th percentile,
const GENERATOR_TAIL_SHARE: f64 = 0.25;
/// unless its 99th percentile is below this, which no measurement of a service needs to notice.
const GENERATOR_DELAY_NS: u64 = 50_000;
/// A closed loop whose thread works for this share of the time never waits for the server.
const BUSY_SHARE: f64 = 0.95;
/// A time without any answer is a stall from this on,
const STALL_NS: u64 = 100_000_000;
/// and if it is so many times as long as nine of ten requests take.
const STALL_TIMES_P90: u64 = 10;
/// Stretches of a run that it takes to see whether a backlog grows.
const MIN_INTERVALS: usize = 8;

/// What a run may be taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The figures are those of the server under this load.
    Stable,
    /// More was asked for than could be answered: the backlog grew to the end.
    Saturated,
    /// The generator itself was the bottleneck.
    GeneratorLimited,
    /// The server stood still for a while; the percentiles hold that, and depend on the length of
    /// the run.
    Stalled,
    /// Too many requests failed, or none was answered.
    Errors,
}

impl Verdict {
    /// The name, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Stable => "stable",
            Verdict::Saturated => "saturated",
            Verdict::GeneratorLimited => "generator-limited",
            Verdict::Stalled => "stalled",
            Verdict::Errors => "errors",
        }
    }

    /// What it means for whoever reads the figures.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Verdict::Stable => "the figures are those of the server under this load",
            Verdict::Saturated => {
                "the backlog grew to the end, so response times only measure how long the test \
                 ran; ask for less (--find-max finds out how much less)"
            }
            Verdict::GeneratorLimited => {
                "the generator was the bottleneck, so the figures are about it; give it more \
                 threads or a core of its own"
            }
            Verdict::Stalled => {
                "the server stood still for a while; how far that shows in the percentiles \
                 depends on how long the test ran"
            }
            Verdict::Errors => "too many requests failed for the others to stand for the service",
        }
    }
}

/// The figures that a verdict rests on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// The mean rate that was asked for; none in a closed loop.
    pub offered_per_second: Option<f64>,
    /// The rate at which requests were answered.
    pub answered_per_second: f64,
    /// Requests that were answered.
    pub requests: u64,
    /// Requests that were due and had no answer.
    pub unanswered: u64,
    /// Connections of the run.
    pub connections: usize,
    /// Requests that were due and not sent at the end of each stretch of the run.
    pub backlog: Vec<u64>,
    /// What went wrong.
    pub errors: ErrorCounts,
    /// The mean response time.
    pub response_mean_ns: f64,
    /// The 99th percentile of the response time.
    pub response_p99_ns: u64,
    /// The 90th percentile of the service time.
    pub service_p90_ns: u64,
    /// The mean delay that was the generator's own.
    pub generator_mean_ns: f64,
    /// Its 99th percentile.
    pub generator_p99_ns: u64,
    /// The share of the time in which the busiest thread of the generator worked.
    pub cpu_share: f64,
    /// The longest time without an answer.
    pub silence: Silence,
}

impl Figures {
    /// The figures of a run.
    #[must_use]
    pub fn of(result: &LoadResult) -> Figures {
        let seconds = result.duration.as_secs_f64().max(f64::MIN_POSITIVE);
        let busiest = result.per_thread.iter().map(|thread| thread.cpu_time.as_secs_f64());
        Figures {
            offered_per_second: result.offered_per_second,
            answered_per_second: result.requests_per_second(),
            requests: result.requests,
            unanswered: result.unanswered,
            connections: result.connections,
            backlog: result.timeline.iter().map(|interval| interval.backlog).collect(),
            errors: result.errors,
            response_mean_ns: result.response_time.mean(),
            response_p99_ns: result.response_time.value_at_quantile(0.99),
            service_p90_ns: result.service_time.value_at_quantile(0.9),
            generator_mean_ns: result.generator_delay.mean(),
            generator_p99_ns: result.generator_delay.value_at_quantile(0.99),
            cpu_share: busiest.fold(0.0, f64::max) / seconds,
            silence: result.silence,
        }
    }
}

/// A verdict and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Its evidence, and what else is worth knowing, in sentences.
    pub evidence: Vec<String>,
}

/// Judges a run by its figures.
#[must_use]
pub fn judge(figures: &Figures) -> Judgement {
    let findings = [
        nothing_answered(figures),
        generator_limited(figures),
        saturated(figures),
        failing(figures),
        stalled(figures),
    ];
    let mut findings: Vec<(Verdict, String)> = findings.into_iter().flatten().collect();
    if findings.is_empty() {
        findings.push((Verdict::Stable, what_was_held(figures)));
    }
    let verdict = findings[0].0;
    let mut evidence: Vec<String> = findings.into_iter().map(|(_, text)| text).collect();
    if verdict == Verdict::Stable && figures.errors.all() > 0 {
        evidence.push(format!("{} errors: {}.", figures.errors.all(), kinds(&figures.errors)));
    }
    if verdict == Verdict::Stable && figures.backlog.len() < MIN_INTERVALS {
        evidence.push("The run was too short to tell whether a backlog would grow.".to_owned());
    }
    Judgement { verdict, evidence }
}

fn nothing_answered(figures: &Figures) -> Option<(Verdict, String)> {
    (figures.requests == 0).then(|| {
        let errors = kinds(&figures.errors);
        let text = format!("No request was answered ({errors}).");
        (Verdict::Errors, text)
    })
}

fn generator_limited(figures: &Figures) -> Option<(Verdict, String)> {
    let cpu = figures.cpu_share;
    if figures.offered_per_second.is_none() {
        return (cpu >= BUSY_SHARE && figures.requests > 0).then(|| {
            let text = format!(
                "A thread of the generator worked for {cpu:.2} of the time: it hardly ever waited \
                 for the server."
            );
            (Verdict::GeneratorLimited, text)
        });
    }
    // A thread that never waits takes answers late, too, which looks like a slow server.
    if cpu >= BUSY_SHARE && saturated(figures).is_some() {
        let text = format!(
            "The backlog grew while a thread of the generator worked for {cpu:.2} of the time: it \
             hardly ever waited for the server."
        );
        return Some((Verdict::GeneratorLimited, text));
    }
    let share = figures.generator_mean_ns / figures.response_mean_ns.max(1.0);
    let tail_share = figures.generator_p99_ns as f64 / figures.response_p99_ns.max(1) as f64;
    let much = share >= GENERATOR_SHARE || tail_share >= GENERATOR_TAIL_SHARE;
    (much && figures.generator_p99_ns >= GENERATOR_DELAY_NS && figures.requests > 0).then(|| {
        let text = format!(
            "Though a connection was free, requests went out late: {share:.2} of the mean response \
             time and {:.0} µs at p99 were the generator's own, whose busiest thread worked for \
             {cpu:.2} of the time.",
            figures.generator_p99_ns as f64 / 1e3
        );
        (Verdict::GeneratorLimited, text)
    })
}

fn saturated(figures: &Figures) -> Option<(Verdict, String)> {
    let offered = figures.offered_per_second?;
    let backlog = &figures.backlog;
    if backlog.len() < MIN_INTERVALS {
        return None;
    }
    let quarters: Vec<f64> = (0..4).map(|quarter| mean_of_quarter(backlog, quarter)).collect();
    let due = figures.requests + figures.unanswered;
    let last = backlog.last().copied().unwrap_or(0);
    let counts = (figures.connections as f64).max(due as f64 * BACKLOG_SHARE);
    let grows = quarters.windows(2).all(|pair| pair[0] < pair[1]);
    (grows && last as f64 > counts).then(|| {
        let answered = figures.answered_per_second;
        let text = format!(
            "The backlog grew from {:.0} to {last} requests; {answered:.0} of {offered:.0} \
             requests a second were answered.",
            quarters[0]
        );
        (Verdict::Saturated, text)
    })
}

fn mean_of_quarter(backlog: &[u64], quarter: usize) -> f64 {
    let bound = |index: usize| backlog.len() * index / 4;
    let part = &backlog[bound(quarter)..bound(quarter + 1)];
    part.iter().map(|count| *count as f64).sum::<f64>() / part.len().max(1) as f64
}

fn failing(figures: &Figures) -> Option<(Verdict, String)> {
    let all = figures.errors.all();
    let tried = (figures.requests + figures.unanswered).max(1);
    let share = all as f64 / tried as f64;
    (figures.requests > 0 && share >= ERROR_SHARE).then(|| {
        let text = format!("{all} errors at {tried} requests: {}.", kinds(&figures.errors));
        (Verdict::Errors, text)
    })
}

fn stalled(figures: &Figures) -> Option<(Verdict, String)> {
    let Silence { end_ns, length_ns } = figures.silence;
    let long = figures.service_p90_ns.saturating_mul(STALL_TIMES_P90).max(STALL_NS);
    (length_ns >= long).then(|| {
        let begin_ns = end_ns.saturating_sub(length_ns);
        let text = format!(
            "For {:.0} ms from second {:.2} on, no answer came though some were waited for.",
            length_ns as f64 / 1e6,
            begin_ns as f64 / 1e9
        );
        (Verdict::Stalled, text)
    })
}

fn what_was_held(figures: &Figures) -> String {
    let answered = figures.answered_per_second;
    match figures.offered_per_second {
        Some(offered) => format!(
            "{answered:.0} of {offered:.0} requests a second were answered, no backlog grew, and \
             the generator was at most {:.0} µs late at p99 by itself.",
            figures.generator_p99_ns as f64 / 1e3
        ),
        None => format!(
            "{answered:.0} requests a second with {} connections; the generator's busiest thread \
             worked for {:.2} of the time.",
            figures.connections, figures.cpu_share
        ),
    }
}

fn kinds(errors: &ErrorCounts) -> String {
    let told: Vec<String> = errors
        .by_kind()
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    if told.is_empty() { "no errors".to_owned() } else { told.join(", ") }
}

#[cfg(test)]
mod tests;

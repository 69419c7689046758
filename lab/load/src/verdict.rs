//! The verdict of a run: whether its figures can be trusted, and why.
//!
//! Percentiles alone do not show that. If the backlog grew, they only tell how long the test ran.
//! If the generator was late, they are about the generator. If answers were errors, they tell how
//! fast the server refuses. So every run ends with a verdict and the figures that it rests on.

mod backlog;
mod figures;

use crate::error_counts::ErrorCounts;
use crate::silence::Silence;
use crate::waits::ProcessorWaits;
use backlog::{BacklogPeriod, MIN_INTERVALS};
pub use figures::Figures;

/// The share of failed requests from which on the verdict is [`Verdict::Errors`].
const ERROR_SHARE: f64 = 0.01;
/// The share of the mean response time from which on the generator's own delay counts.
const GENERATOR_SHARE: f64 = 0.1;
/// The share of the response time's 99th percentile from which on that of the generator's own delay
/// counts.
const GENERATOR_TAIL_SHARE: f64 = 0.25;
/// The shortest 99th percentile of the generator's own delay that counts, and the shortest wait for
/// a processor: no measurement of a service is affected by less.
const GENERATOR_DELAY_NS: u64 = 50_000;
/// The share of the response time's 99th percentile from which on waits for a processor count.
const WAITS_SHARE: f64 = 0.25;
/// The share of all processors from which on other programs make the machine the limit, if waits
/// for a processor count. Below it, generator and server compete with each other, and the figures
/// are those of both on one machine.
const OTHERS_SHARE: f64 = 0.1;
/// A thread that works for this share of the time hardly ever waits for the server.
const BUSY_SHARE: f64 = 0.95;
/// The shortest time without any answer that is a stall.
const STALL_NS: u64 = 100_000_000;
/// The length of a stall is at least this many times the 90th percentile of the service time.
const STALL_TIMES_P90: u64 = 10;
/// A silence at the end is judged before the generator's lateness if it is at least this many times
/// the 99th percentile of the generator's own delay.
const SILENCE_TIMES_LATENESS: u64 = 10;
/// The evidence mentions the requests without an answer if they raise the 99th percentile by more
/// than this factor.
const UNANSWERED_TIMES: f64 = 1.01;

/// The verdict on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The figures are those of the server under this load.
    Stable,
    /// More was asked for than could be answered: the backlog grew.
    Saturated,
    /// Other programs had the processors: threads of the generator or the server waited for one.
    MachineLimited,
    /// The generator itself was the bottleneck.
    GeneratorLimited,
    /// The server stood still for a while. How much of that the percentiles show depends on the
    /// length of the run.
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
            Verdict::MachineLimited => "machine-limited",
            Verdict::GeneratorLimited => "generator-limited",
            Verdict::Stalled => "stalled",
            Verdict::Errors => "errors",
        }
    }

    /// Its meaning for the reader of the figures.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Verdict::Stable => "the figures are those of the server under this load",
            Verdict::Saturated => {
                "the backlog grew, so response times only measure for how long; ask for less \
                 (--find-max finds out how much less)"
            }
            Verdict::MachineLimited => {
                "others had the processors, so the figures are about the machine; end what runs \
                 beside, or give the server and its load cores of their own"
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

/// A verdict and its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The evidence, and other remarks on the run, in sentences.
    pub evidence: Vec<String>,
}

/// Judges a run by its figures. The first finding, in the order of the list below, is the verdict;
/// the evidence has all findings.
#[must_use]
pub fn judge(figures: &Figures) -> Judgement {
    // A generator that is late by milliseconds cannot cause a silence of seconds.
    let lateness_ns = figures.generator_p99_ns.saturating_mul(SILENCE_TIMES_LATENESS);
    let is_servers = figures.silence.at_end_ns >= lateness_ns;
    let of = |verdict, text: Option<String>| text.map(|text| (verdict, text));
    let silence = ended_in_silence(figures);
    let lateness = of(Verdict::GeneratorLimited, generator_limited(figures));
    let (first, second) = if is_servers { (silence, lateness) } else { (lateness, silence) };
    let findings = [
        of(Verdict::Errors, nothing_answered(figures)),
        of(Verdict::MachineLimited, machine_limited(figures)),
        first,
        second,
        of(Verdict::Saturated, saturated(figures)),
        of(Verdict::Errors, failing(figures)),
        of(Verdict::Stalled, stalled(figures)),
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
    if verdict != Verdict::MachineLimited {
        evidence.extend(waits(figures));
    }
    evidence.extend(without_an_answer(figures));
    if verdict == Verdict::Stable && figures.backlog.len() < MIN_INTERVALS {
        evidence.push("The run was too short to tell whether a backlog would grow.".to_owned());
    }
    Judgement { verdict, evidence }
}

fn nothing_answered(figures: &Figures) -> Option<String> {
    (figures.requests == 0)
        .then(|| format!("No request was answered ({}).", kinds(&figures.errors)))
}

fn machine_limited(figures: &Figures) -> Option<String> {
    let others_share = figures.processor_waits.others_share?;
    waits(figures).filter(|_| others_share >= OTHERS_SHARE)
}

/// A sentence on the waits for a processor, if they are a large part of the 99th percentile.
fn waits(figures: &Figures) -> Option<String> {
    let ProcessorWaits { generator_ns, server_ns, either_ns, others_share } =
        figures.processor_waits;
    let is_much = either_ns >= WAITS_SHARE * figures.response_p99_ns as f64
        && either_ns >= GENERATOR_DELAY_NS as f64
        && figures.requests > 0;
    let ms = |ns: f64| format!("{:.3} ms", ns / 1e6);
    let servers = server_ns.map_or_else(String::new, |ns| format!(", the server's {}", ms(ns)));
    let others = others_share.map_or_else(String::new, |share| {
        format!("; other programs had {:.0} % of all processors", share * 100.0)
    });
    is_much.then(|| {
        format!(
            "About {} of the p99 of {} were waits for a processor (the generator's threads \
             {}{servers}){others}.",
            ms(either_ns),
            ms(figures.response_p99_ns as f64),
            ms(generator_ns),
        )
    })
}

fn generator_limited(figures: &Figures) -> Option<String> {
    let cpu = figures.cpu_share;
    if figures.offered_per_second.is_none() {
        return (cpu >= BUSY_SHARE && figures.requests > 0).then(|| {
            format!(
                "A thread of the generator worked for {cpu:.2} of the time: it hardly ever waited \
                 for the server."
            )
        });
    }
    // A thread that never waits takes answers late, too, which looks like a slow server.
    if cpu >= BUSY_SHARE && saturated(figures).is_some() {
        return Some(format!(
            "The backlog grew while a thread of the generator worked for {cpu:.2} of the time: it \
             hardly ever waited for the server."
        ));
    }
    let share = figures.generator_mean_ns / figures.response_mean_ns.max(1.0);
    let tail_share = figures.generator_p99_ns as f64 / figures.response_p99_ns.max(1) as f64;
    let much = share >= GENERATOR_SHARE || tail_share >= GENERATOR_TAIL_SHARE;
    (much && figures.generator_p99_ns >= GENERATOR_DELAY_NS && figures.requests > 0).then(|| {
        format!(
            "Though a connection was free, requests went out late: {share:.2} of the mean response \
             time and {:.0} µs at p99 were the generator's own, whose busiest thread worked for \
             {cpu:.2} of the time.",
            figures.generator_p99_ns as f64 / 1e3
        )
    })
}

/// The finding that more was asked for than could be answered.
pub(crate) fn saturated(figures: &Figures) -> Option<String> {
    let offered = figures.offered_per_second?;
    let answered = figures.answered_per_second;
    let backlog = BacklogPeriod::of(figures)?;
    let rates = format!("{answered:.0} of {offered:.0} requests a second were answered");
    if backlog.grew_to_the_end(figures) {
        let last = figures.backlog.last().copied().unwrap_or_default();
        return Some(format!(
            "From second {:.1} to the end the backlog grew to {last} requests; {rates}.",
            backlog.begin_seconds(figures)
        ));
    }
    // At a constant rate, a backlog that comes and goes is the server's own doing.
    (figures.rate_varies && backlog.grew_for_a_while(figures)).then(|| {
        format!(
            "While the rate was higher than could be answered, {}; {rates} over the whole run.",
            backlog.told(figures)
        )
    })
}

fn failing(figures: &Figures) -> Option<String> {
    (figures.requests > 0 && figures.error_share() >= ERROR_SHARE)
        .then(|| format!("{}: {}.", figures.failed_told(), kinds(&figures.errors)))
}

/// The length of the shortest silence that is a stall, in nanoseconds.
fn stall_ns(figures: &Figures) -> u64 {
    figures.service_p90_ns.saturating_mul(STALL_TIMES_P90).max(STALL_NS)
}

/// The finding that no answer came until the end of the run: [`Verdict::Errors`] if connections
/// broke meanwhile, because then the server is gone, and [`Verdict::Stalled`] otherwise. Such a run
/// is not saturated, whatever its backlog.
pub(crate) fn ended_in_silence(figures: &Figures) -> Option<(Verdict, String)> {
    let silence_ns = figures.silence.at_end_ns;
    let ErrorCounts { connect, read, write, .. } = figures.errors;
    let is_gone = connect + read + write > 0 && figures.errors_at_end > 0;
    (figures.requests > 0 && silence_ns >= stall_ns(figures)).then(|| {
        let verdict = if is_gone { Verdict::Errors } else { Verdict::Stalled };
        let text = format!(
            "For the last {:.2} s of the run {} ({}).",
            silence_ns as f64 / 1e9,
            NO_ANSWER_CAME,
            kinds(&figures.errors)
        );
        (verdict, text)
    })
}

/// A sentence on the requests without an answer, if they would raise the 99th percentile.
fn without_an_answer(figures: &Figures) -> Option<String> {
    let (without_ns, with_ns) = (figures.response_p99_ns, figures.response_p99_at_least_ns);
    (with_ns as f64 > without_ns as f64 * UNANSWERED_TIMES).then(|| {
        format!(
            "The percentiles are of what was answered. With the {} that were due and had no answer \
             at the end, after up to {:.0} ms, the p99 is at least {:.0} ms.",
            figures.unanswered,
            figures.unanswered_max_ns as f64 / 1e6,
            with_ns as f64 / 1e6
        )
    })
}

fn stalled(figures: &Figures) -> Option<String> {
    let Silence { end_ns, length_ns, at_end_ns } = figures.silence;
    (length_ns >= stall_ns(figures) && length_ns > at_end_ns).then(|| {
        let begin_ns = end_ns.saturating_sub(length_ns);
        format!(
            "For {:.0} ms from second {:.2} on, {}.",
            length_ns as f64 / 1e6,
            begin_ns as f64 / 1e9,
            NO_ANSWER_CAME
        )
    })
}

/// Silences are noted by thread: others may have had answers meanwhile.
const NO_ANSWER_CAME: &str = "no answer came to a thread of the generator that waited for some";

fn what_was_held(figures: &Figures) -> String {
    let answered = figures.answered_per_second;
    match figures.offered_per_second {
        Some(offered) => format!(
            "{answered:.0} of {offered:.0} requests a second were answered, {}, and the generator \
             was at most {:.0} µs late at p99 by itself.",
            BacklogPeriod::of(figures)
                .map_or_else(|| "no backlog grew".to_owned(), |backlog| backlog.told(figures)),
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

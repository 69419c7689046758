//! Converts a run to a section of a report.

use std::time::Duration;

use pellucid_account::OperationAccount;
use pellucid_clock::WallTime;
use pellucid_load::{Judgement, LoadResult};
use pellucid_report::{
    Chart, ChartForm, Machine, Report, Sample, Section, Series, TimelineInterval, Unit, Verdict,
    command_line,
};

use super::account::WINDOW_MAX;

/// The intervals of a run over time.
pub(super) fn timeline(result: &LoadResult) -> Vec<TimelineInterval> {
    let stretches = result.course.timeline.iter().map(|interval| TimelineInterval {
        begin_ns: interval.begin_ns,
        length_ns: interval.length_ns,
        answered: interval.answered,
        errors: interval.errors,
        backlog: interval.backlog,
        response_times: interval.response_times.clone(),
    });
    stretches.collect()
}

/// The section of a run.
pub(crate) fn of(
    result: &LoadResult,
    judgement: &Judgement,
    account: Option<&OperationAccount>,
    charts: Vec<Chart>,
) -> Section {
    let kept = if result.load.keep_alive { "" } else { ", each request over one of its own" };
    let starts = match result.load.offered_per_second {
        Some(_) => "requests start on schedule whether the last one was answered or not",
        None => "every connection sends as soon as it has its answer",
    };
    let ways = match &result.direct {
        Some(_) => "; each request goes to the owner of its key",
        None => "",
    };
    let samples = result.course.samples.iter().map(|sample| Sample {
        offset_ns: sample.time_offset_ns.saturating_sub(sample.response_time_ns),
        response_time_ns: sample.response_time_ns,
        service_time_ns: sample.service_time_ns,
    });
    let lateness = &result.times.send_lateness;
    let kinds = result.errors.by_kind().into_iter().filter(|(_, count)| *count > 0);
    Section {
        name: counted(result.load.connections, "connection"),
        description: format!(
            "{} over {} of {}{kept}; {starts}{ways}",
            result.load.url,
            counted(result.load.connections, "connection"),
            counted(result.load.threads, "thread"),
        ),
        offered_rate_per_second: result.load.offered_per_second,
        requests: result.requests,
        unanswered: result.unanswered,
        failed_requests: result.errors.failed_requests,
        duration: result.duration,
        errors: kinds.map(|(kind, count)| (kind.to_owned(), count)).collect(),
        response_time: result.times.response.clone(),
        service_time: Some(result.times.service.clone()),
        send_lateness: Some(lateness.clone()).filter(|lateness| !lateness.is_empty()),
        throughput_per_second: result.course.throughput_per_second.clone(),
        samples: samples.collect(),
        account: account.cloned(),
        account_window: Duration::from_secs(WINDOW_MAX),
        timeline: timeline(result),
        verdict: Some(Verdict {
            name: judgement.verdict.name().to_owned(),
            meaning: judgement.verdict.meaning().to_owned(),
            evidence: judgement.evidence.clone(),
        }),
        charts,
    }
}

/// Makes a report of these sections.
pub(crate) fn report_of(title: &str, sections: Vec<Section>, notes: Vec<String>) -> Report {
    Report {
        title: title.to_owned(),
        command: command_line(),
        generated_unix_ms: WallTime::now().unix_ms(),
        machine: Machine::of_this_machine(env!("CARGO_PKG_VERSION")),
        sections,
        notes,
    }
}

/// A table of the nodes that requests went to; empty without `--direct`.
pub(super) fn nodes(result: &LoadResult) -> Vec<Chart> {
    let Some(direct) = &result.direct else { return Vec::new() };
    let rows = direct.nodes.iter().map(|(url, requests)| (url.as_str(), *requests));
    let rows = rows.chain([("by way of another node", direct.by_another)]);
    vec![Chart::new(
        (
            "nodes",
            "Requests by node",
            "Each request went to the node that owns its key. Where no connection to that was \
             open, it went by way of another, and is counted there, too.",
        ),
        Unit::Count,
        ChartForm::Table { columns: vec!["requests".to_owned()] },
        rows.map(|(name, count)| Series::new(name, vec![Some(count as f64)])),
    )]
}

/// A number with a noun in singular or plural.
fn counted(number: usize, name: &str) -> String {
    format!("{number} {name}{}", if number == 1 { "" } else { "s" })
}

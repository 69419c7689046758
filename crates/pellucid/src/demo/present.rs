//! The output of the demo: text while it runs, and the report.

use std::time::{SystemTime, UNIX_EPOCH};

use pellucid_load::wrk2;
use pellucid_report::{Machine, Report, Sample, Section, command_line, text};

use crate::demo::requests::{Kind, VALUE_BYTES};
use crate::demo::stages::{Plan, Steady};

/// The section of a report about one load.
pub(crate) fn section(plan: &Plan, kind: &Kind, steady: &Steady) -> Section {
    let result = &steady.result;
    let (name, what) = match kind {
        Kind::Get => ("GET", "GET of one entry"),
        Kind::Put | Kind::Fill => ("PUT", "PUT of one entry"),
    };
    let Plan { keys, connections, .. } = plan;
    let samples = result.course.samples.iter().map(|sample| Sample {
        offset_ns: sample.time_offset_ns.saturating_sub(sample.response_time_ns),
        response_time_ns: sample.response_time_ns,
        service_time_ns: sample.service_time_ns,
    });
    Section {
        name: name.to_owned(),
        description: format!(
            "{what} of {VALUE_BYTES} bytes, its key drawn evenly from 1…{keys}, over {connections} \
             connections, each request started on schedule whether the last one was answered or not"
        ),
        offered_rate_per_second: result.load.rate_per_second.map(|rate| rate as f64),
        requests: result.requests,
        duration: result.duration,
        errors: Vec::new(),
        response_time: result.times.response.clone(),
        service_time: Some(result.times.service.clone()),
        send_lateness: Some(result.times.send_lateness.clone()),
        throughput_per_second: result.course.throughput_per_second.clone(),
        samples: samples.collect(),
        account: steady.account.clone(),
        timeline: crate::load::timeline(result),
        verdict: Some(crate::load::verdict(result)),
        charts: vec![crate::load::waterfall(&[(result, steady.account.as_ref())])],
    }
}

/// The text about one load: wrk2's percentiles, the server's account, and what they say.
pub(crate) fn describe(section: &Section, steady: &Steady) -> String {
    let table = wrk2::table(&steady.result, wrk2::Distributions::Corrected)
        + &wrk2::accounts(&steady.result);
    // The detailed spectrum has its place in the report's curve.
    let percentiles = table.split("\n  Detailed Percentile spectrum:").next().unwrap_or(&table);
    let rate = wrk2_tail(&table);
    let mut description = format!("{percentiles}\n{rate}\n");
    match &section.account {
        Some(account) => {
            description += "\nThe server's account of the same requests:\n\n";
            description += &text::account(account);
            description += "\n";
            description += &text::sentence(account, &section.client_figures());
            description += "\n";
        }
        None => {
            let accounting = &steady.snapshot.accounting;
            description += &format!("\nThe server kept no account (accounting is {accounting}).\n");
        }
    }
    description
}

/// The lines that wrk2 prints after the spectrum.
fn wrk2_tail(table: &str) -> &str {
    table.rsplit_once("----------\n").map_or("", |(_, tail)| tail)
}

/// The whole report.
pub(crate) fn report(sections: Vec<Section>, steady: &Steady, notes: Vec<String>) -> Report {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let clock = Some(steady.snapshot.clock.clone());
    Report {
        title: "Pellucid demo".to_owned(),
        command: command_line(),
        generated_unix_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        machine: Machine::of_this_machine(env!("CARGO_PKG_VERSION"), clock),
        sections,
        notes,
    }
}

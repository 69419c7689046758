//! `pellucid compare A.json B.json`: the changes from one run to another, with confidence
//! intervals.

use std::path::{Path, PathBuf};

use clap::Args;
use pellucid_report::{
    Bars, ComparedRun, Comparison, ConfidenceInterval, TimelineInterval, compare,
    histogram_text::decoded,
};
use serde_json::{Value, json};

use crate::Failure;
use crate::load::time;
use crate::remote_server::read_small;

/// The largest result file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Compare two results of `pellucid load --json`, run by run.
///
/// Example: pellucid compare before.json after.json --fail-if 'p99>+10%,errors>0.1%'
#[derive(Args)]
pub(crate) struct CompareArguments {
    /// The result that is compared with.
    before: PathBuf,
    /// The result that is judged.
    after: PathBuf,
    /// Bars such as p99>+10%, throughput<-5%, p99>5ms or errors>0.1%; if one is crossed, the exit
    /// code is 1.
    #[arg(long, value_parser = Bars::parse)]
    fail_if: Option<Bars>,
    /// Print the comparison as JSON instead.
    #[arg(long)]
    json: bool,
}

/// Compares the two files and prints the result.
///
/// # Errors
/// If a file cannot be read, the two have no section in common, or a bar of `--fail-if` is crossed.
pub(crate) fn run(arguments: &CompareArguments) -> Result<(), Failure> {
    let (before, after) = (read(&arguments.before)?, read(&arguments.after)?);
    let asked = arguments.fail_if.as_ref().map_or_else(Vec::new, Bars::quantiles);
    let mut pairs = Vec::new();
    let mut only = Vec::new();
    for (name, first) in &before {
        match partner(name, &before, &after) {
            Some(second) => pairs.push((name.clone(), compare(first, second, &asked))),
            None => only.push((name.as_str(), &arguments.before)),
        }
    }
    for (name, _) in &after {
        if partner(name, &after, &before).is_none() {
            only.push((name.as_str(), &arguments.after));
        }
    }
    if pairs.is_empty() {
        return Err(Failure::work("the two files have no section of the same name"));
    }
    let mut crossed = Vec::new();
    if let Some(bars) = &arguments.fail_if {
        crossed.extend(uncompared(&only, &after, &arguments.after));
        for (name, comparison) in &pairs {
            let bars = bars.crossed(comparison).into_iter();
            crossed.extend(bars.map(|b| if pairs.len() > 1 { format!("{name}: {b}") } else { b }));
        }
    }
    if arguments.json {
        let sections: Vec<Value> = pairs.iter().map(|(n, c)| document(n, c)).collect();
        let whole = json!({
            "schema": "pellucid.compare.v1",
            "sections": sections,
            "only_in_one": only
                .iter()
                .map(|(name, file)| json!({ "name": name, "file": file.display().to_string() }))
                .collect::<Vec<_>>(),
            "crossed": crossed,
        });
        print_line!("{whole}");
    } else {
        let shown = pairs.iter().map(|(name, comparison)| text_of(name, comparison));
        let lacking = only.iter().map(|(name, file)| format!("{name}\n  only {}\n", in_file(file)));
        print_part!("{}", shown.chain(lacking).collect::<String>());
    }
    match crossed.is_empty() {
        true => Ok(()),
        false => Err(Failure::work(format!("crossed: {}", crossed.join("; ")))),
    }
}

/// Finds the section of the other file to compare `name` with: the section of the same name, or the
/// only section if each file has exactly one. `own` is the file of `name`.
fn partner<'a>(
    name: &str,
    own: &[(String, ComparedRun)],
    others: &'a [(String, ComparedRun)],
) -> Option<&'a ComparedRun> {
    let same = others.iter().find(|(other, _)| other == name);
    let only = || others.first().filter(|_| own.len() == 1 && others.len() == 1);
    same.or_else(only).map(|(_, measured)| measured)
}

/// Lists everything that bars cannot judge: sections that only one file has, and runs that ended
/// early.
fn uncompared(
    only: &[(&str, &PathBuf)],
    after: &[(String, ComparedRun)],
    after_path: &Path,
) -> Vec<String> {
    let lacking = only.iter().map(|(name, file)| format!("{name} is only {}", in_file(file)));
    let ended = after.iter().filter_map(|(name, run)| {
        let reason = run.ended_early.as_ref()?;
        Some(format!("{name} ended before its time {} ({reason})", in_file(after_path)))
    });
    lacking.chain(ended).collect()
}

fn in_file(path: &Path) -> String {
    format!("in {}", path.display())
}

fn read(path: &Path) -> Result<Vec<(String, ComparedRun)>, Failure> {
    let shown = path.display();
    let failed = |text: String| Failure::usage(format!("{shown}: {text}"));
    let bytes = read_small(path, FILE_BYTES_MAX).map_err(|error| failed(error.to_string()))?;
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|error| failed(format!("it is no JSON: {error}")))?;
    let runs: Vec<(String, &Value)> = match value["schema"].as_str() {
        Some("pellucid.load.v1") => vec![("load".to_owned(), &value)],
        Some("pellucid.sweep.v1") => items(&value["runs"])
            .map(|run| (format!("{} connections", run["connections"]), run))
            .collect(),
        other => {
            let found = other.unwrap_or("none");
            return Err(failed(format!(
                "its schema is {found}; pellucid.load.v1 and pellucid.sweep.v1 can be compared"
            )));
        }
    };
    runs.into_iter()
        .map(|(name, run)| measured(run).map(|measured| (name, measured)).map_err(failed))
        .collect()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn measured(run: &Value) -> Result<ComparedRun, String> {
    let whole = run["response_time"]["hdr_v2_base64"].as_str();
    let whole = whole.ok_or("it holds no histogram response_time.hdr_v2_base64")?;
    // All requests that were due, as in the verdict and in `--slo`.
    let tried = ["requests", "unanswered"].map(|name| run[name].as_f64().unwrap_or(0.0));
    let tried = tried.iter().sum::<f64>().max(1.0);
    let failed = run["failed_requests"].as_f64().ok_or("it holds no failed_requests")?;
    // Such answers break connections, although no request may be lost with them.
    let failed = failed.max(run["errors"]["malformed"].as_f64().unwrap_or(0.0));
    let rate = run["requests_per_second"].as_f64();
    let timeline = items(&run["timeline"]).map(stretch).collect::<Result<_, _>>()?;
    // The steps of a way are means and add up to its time. The requests around the median represent
    // all requests.
    let median = items(&run["ways"]["around"]).find(|way| way["percentile"] == 50.0);
    let steps = median.map_or(&Value::Null, |way| &way["steps"]);
    Ok(ComparedRun {
        response_time: decoded(whole)?,
        timeline,
        throughput_per_second: rate.unwrap_or(0.0),
        error_share: (failed / tried).min(1.0),
        phases: means(&run["account"]["phases"], "mean_ns"),
        steps: means(steps, "ns"),
        verdict: run["verdict"]["name"].as_str().map(str::to_owned),
        ended_early: ended_early(run),
    })
}

/// The reason that a run ended early; `None` if it did not.
fn ended_early(run: &Value) -> Option<String> {
    let failure = run["failure"].as_str().map(str::to_owned);
    let text = "it was given up, or an interrupt or its script ended it";
    failure.or_else(|| (run["stopped_early"] == true).then(|| text.to_owned()))
}

/// The `name` and the field `time` of each item of a list.
fn means(list: &Value, time: &str) -> Vec<(String, f64)> {
    let named = items(list)
        .filter_map(|item| Some((item["name"].as_str()?.to_owned(), item[time].as_f64()?)));
    named.collect()
}

fn stretch(value: &Value) -> Result<TimelineInterval, String> {
    let encoded = value["response_time_hdr_v2_base64"].as_str();
    let histogram = encoded.ok_or("a stretch of its timeline holds no histogram")?;
    let histogram = decoded(histogram)?;
    let steps = histogram.iter_recorded();
    Ok(TimelineInterval {
        response_times: steps
            .map(|step| (step.value_iterated_to(), step.count_since_last_iteration()))
            .collect(),
        ..TimelineInterval::default()
    })
}

fn text_of(name: &str, comparison: &Comparison) -> String {
    let mut text = format!("{name}\n  {}\n", comparison.sentence);
    let width = comparison.phases.iter().map(|phase| phase.name.chars().count()).max();
    let width = width.unwrap_or(0).max(10);
    let mut row = |name: &str, before: &str, after: &str, change: &str, band: &str| {
        let line = format!("  {name:<width$}{before:>14}{after:>14}{change:>12}{band:>24}");
        text.push_str(line.trim_end());
        text.push('\n');
    };
    row("", "before", "after", "change", "95 % band");
    let percent = |share: f64| format!("{:+.2} %", share * 100.0);
    for delta in &comparison.quantiles {
        let ConfidenceInterval { value, low, high } = delta.change;
        row(
            &format!("p{}", (delta.quantile * 1e7).round() / 1e5),
            &time(delta.before_ns.value as u64),
            &time(delta.after_ns.value as u64),
            &percent(value),
            &format!("{} to {}", percent(low), percent(high)),
        );
    }
    let (before, after) = comparison.throughput_per_second;
    let change = percent(after / before.max(f64::MIN_POSITIVE) - 1.0);
    row("answers/s", &format!("{before:.0}"), &format!("{after:.0}"), &change, "");
    for phase in &comparison.phases {
        let (before, after) = (phase.before_ns.max(0.0), phase.after_ns.max(0.0));
        let change = percent(after / before.max(1.0) - 1.0);
        row(&phase.name, &time(before as u64), &time(after as u64), &change, "");
    }
    text
}

fn interval(band: &ConfidenceInterval) -> Value {
    json!({ "value": band.value, "low": band.low, "high": band.high })
}

fn document(name: &str, comparison: &Comparison) -> Value {
    let quantiles = comparison.quantiles.iter().map(|delta| {
        json!({
            "quantile": delta.quantile,
            "before_ns": interval(&delta.before_ns),
            "after_ns": interval(&delta.after_ns),
            "change": interval(&delta.change),
            "direction": format!("{:?}", delta.direction()).to_lowercase(),
        })
    });
    let phases = comparison.phases.iter().map(|phase| {
        json!({ "name": phase.name, "before_ns": phase.before_ns, "after_ns": phase.after_ns })
    });
    json!({
        "name": name,
        "sentence": comparison.sentence,
        "quantiles": quantiles.collect::<Vec<_>>(),
        "throughput_per_second": comparison.throughput_per_second,
        "error_share": comparison.error_share,
        "mean_ns": comparison.mean_ns,
        "max_ns": comparison.greatest_ns,
        "phases": phases.collect::<Vec<_>>(),
        "phases_of": comparison.phases_of.name(),
    })
}

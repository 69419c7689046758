//! The ways of requests: the steps of their time from the intended start to the answer, as text, as
//! JSON, and as charts. The server's steps come with its answers (`Server-Timing`).

use pellucid_load::{LatencyBreakdown, LoadResult, Trace};
use pellucid_report::{Chart, ChartForm, Series, Unit};
use serde_json::{Value, json};

use super::show::time;

/// The percentiles whose requests are shown.
const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];
/// The number of slowest requests that are shown.
const SLOWEST: usize = 10;
/// The fewest watched requests above a percentile for which the percentile is shown.
const REQUESTS_BEYOND_MIN: f64 = 2.0;

/// The mean ways of the requests around percentiles, and the ways of the slowest requests.
pub(super) struct LatencyBreakdowns {
    around: Vec<(f64, LatencyBreakdown)>,
    slowest: Vec<(Trace, LatencyBreakdown)>,
}

impl LatencyBreakdowns {
    /// The ways of a run, around the usual percentiles and the one in `asked`.
    pub(super) fn of(result: &LoadResult, asked: Option<f64>) -> LatencyBreakdowns {
        let traces = &result.traces;
        let mut percentiles = PERCENTILES.to_vec();
        percentiles.extend(asked.filter(|asked| !PERCENTILES.contains(asked)));
        percentiles.sort_by(f64::total_cmp);
        let enough = |percentile: &f64| {
            let beyond = traces.some.len() as f64 * (1.0 - percentile / 100.0);
            beyond >= REQUESTS_BEYOND_MIN || asked == Some(*percentile)
        };
        let around = percentiles.into_iter().filter(enough).filter_map(|percentile| {
            LatencyBreakdown::around(traces, percentile / 100.0).map(|way| (percentile, way))
        });
        let slowest = traces.slowest.iter().take(SLOWEST);
        LatencyBreakdowns {
            around: around.collect(),
            slowest: slowest
                .map(|trace| (trace.clone(), LatencyBreakdown::of(trace, traces)))
                .collect(),
        }
    }

    /// A table: a row for each step, a column for each percentile and one for the slowest.
    pub(super) fn text(&self, result: &LoadResult) -> String {
        let mut columns: Vec<(String, &LatencyBreakdown)> =
            self.around.iter().map(|(p, way)| (format!("around p{p}"), way)).collect();
        columns.extend(self.slowest.first().map(|(_, way)| ("slowest".to_owned(), way)));
        if columns.is_empty() {
            return String::new();
        }
        let (watched, told) = (result.traces.watched, result.traces.told);
        let row = |name: &str, ns: &dyn Fn(&LatencyBreakdown) -> f64| {
            let cells = columns.iter().map(|(_, way)| format!("{:>14}", time(ns(way) as u64)));
            format!("    {name:<30}{}\n", cells.collect::<String>())
        };
        let heads = columns.iter().map(|(name, _)| format!("{name:>14}"));
        let mut text =
            format!("  {:<32}{}\n", "Way of a request (means)", heads.collect::<String>());
        for name in names(columns.iter().map(|(_, way)| *way)) {
            text += &row(&name, &|way| step(way, &name).unwrap_or(0.0));
        }
        text += &row("all of it", &|way| way.response_ns);
        let is_placed = columns.iter().any(|(_, way)| way.placed > 0);
        if told > 0 && !is_placed {
            // Without a common clock, the position of the server's part between send and answer is
            // uncertain.
            text += &row("server's part lies within ±", &|way| way.placement_ns);
        }
        let of_server = match (told, is_placed) {
            (0, _) => "the server told nothing of its part".to_owned(),
            (told, false) => format!("the server told its part of {told}"),
            (told, true) => format!("the server told its part of {told}, on the same clock"),
        };
        text.push_str(&format!("    {watched} requests were watched; {of_server}.\n"));
        text
    }

    /// The ways as JSON; docs/load.md describes its members.
    pub(super) fn json(&self, result: &LoadResult) -> Value {
        let steps = |way: &LatencyBreakdown| -> Vec<Value> {
            way.steps.iter().map(|step| json!({ "name": step.name, "ns": step.ns })).collect()
        };
        let around: Vec<Value> = self
            .around
            .iter()
            .map(|(percentile, way)| {
                json!({
                    "percentile": percentile,
                    "requests": way.requests,
                    "placed_by_clock": way.placed,
                    "response_mean_ns": way.response_ns,
                    "server_placement_uncertainty_ns": way.placement_ns,
                    "steps": steps(way),
                })
            })
            .collect();
        let slowest: Vec<Value> = self
            .slowest
            .iter()
            .map(|(trace, way)| {
                json!({
                    "trace_id": format!("{:032x}", trace.trace_id),
                    "start_ns": trace.start_ns,
                    "placed_by_clock": way.placed > 0,
                    "response_ns": trace.response_ns,
                    "server_placement_uncertainty_ns": way.placement_ns,
                    "steps": steps(way),
                })
            })
            .collect();
        json!({
            "watched": result.traces.watched,
            "told_by_server": result.traces.told,
            "around": around,
            "slowest": slowest,
        })
    }

    /// Two charts of bars: around percentiles, and the slowest.
    pub(super) fn charts(&self) -> Vec<Chart> {
        let around: Vec<(String, &LatencyBreakdown)> =
            self.around.iter().map(|(p, way)| (format!("around p{p}"), way)).collect();
        let slowest: Vec<(String, &LatencyBreakdown)> = self
            .slowest
            .iter()
            .map(|(trace, way)| {
                let seconds = trace.start_ns as f64 / 1e9;
                (format!("at {seconds:.3} s, trace {:032x}", trace.trace_id), way)
            })
            .collect();
        let charts = [
            chart("way_around", "The way of requests around percentiles", &around),
            chart("way_slowest", "The way of the slowest requests", &slowest),
        ];
        charts.into_iter().flatten().collect()
    }
}

/// The legend of a chart of bars; it tells how exactly the position of the server's part is known.
fn about(rows: &[(String, &LatencyBreakdown)]) -> String {
    let placement_ns = rows.iter().map(|(_, way)| way.placement_ns).fold(0.0, f64::max);
    let place = match rows.iter().any(|(_, way)| way.placed > 0) && placement_ns == 0.0 {
        true => "stands where it was, as both sides read the same clock".to_owned(),
        false => format!(
            "lies between the last byte sent and the first received; where exactly, nobody knows \
             to better than {} on either side",
            time(placement_ns as u64)
        ),
    };
    format!(
        "From the intended start to the whole answer, client and server joined request by \
         request. The server's part {place}."
    )
}

fn chart(name: &str, title: &str, rows: &[(String, &LatencyBreakdown)]) -> Option<Chart> {
    let names = names(rows.iter().map(|(_, way)| *way));
    let series = names.iter().map(|name| {
        let values = rows.iter().map(|(_, way)| Some(step(way, name).unwrap_or(0.0)));
        Series::new(name.clone(), values.collect())
    });
    (!rows.is_empty()).then(|| {
        let form = ChartForm::Bars { rows: rows.iter().map(|(row, _)| row.clone()).collect() };
        Chart::new((name, title, about(rows)), Unit::Nanoseconds, form, series)
    })
}

/// The names of all steps, in the order in which they follow each other.
fn names<'way>(ways: impl Iterator<Item = &'way LatencyBreakdown>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for way in ways {
        let mut at = 0;
        for step in &way.steps {
            match names.iter().position(|name| *name == step.name) {
                Some(place) => at = place + 1,
                None => {
                    names.insert(at.min(names.len()), step.name.clone());
                    at += 1;
                }
            }
        }
    }
    names
}

fn step(way: &LatencyBreakdown, name: &str) -> Option<f64> {
    way.steps.iter().find(|step| step.name == name).map(|step| step.ns)
}

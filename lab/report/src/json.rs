//! The report as JSON, for programs that compare runs or draw charts of their own.
//!
//! The document is an object with these members. Durations are in nanoseconds if a name ends in
//! `_ns`; members that are `null` are unknown:
//!
//! | member | content |
//! |---|---|
//! | `schema` | [`SCHEMA`]; a change that breaks readers changes it |
//! | `title`, `command`, `generated_unix_ms`, `notes` | as in [`crate::Report`] |
//! | `machine` | as in [`crate::Machine`] |
//! | `sections` | one [`SectionDocument`] per load, in the order in which they ran |
//!
//! A histogram ([`HistogramDocument`]) has two forms: a list of percentiles, and the whole
//! histogram in HdrHistogram's compressed V2 encoding in Base64. Interval logs (`.hlog`) have the
//! same form, so that histograms of several runs can be merged instead of averaged.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use pellucid_account::OperationAccount;
use serde::{Deserialize, Serialize};

use crate::chart::Chart;
use crate::html::JITTER_POINTS_MAX;
use crate::model::{Report, Section, TimelineInterval, Verdict};
use crate::quantiles::NAMED_QUANTILES;
use crate::text::sentence;
use crate::thinning::thin_out;

/// The name of the schema of a report as JSON.
pub const SCHEMA: &str = "pellucid.report.v1";

/// A whole report.
#[derive(Serialize)]
struct ReportDocument<'report> {
    schema: &'static str,
    #[serde(flatten)]
    report: &'report Report,
    sections: Vec<SectionDocument<'report>>,
}

/// One load.
#[derive(Clone, Debug, Serialize)]
pub struct SectionDocument<'report> {
    /// The short name.
    pub name: String,
    /// The composition of the load, in a sentence.
    pub description: String,
    /// The largest parts of the time, in a sentence; `None` without the server's account.
    pub finding: Option<String>,
    /// The requested rate; `None` in a closed loop.
    pub offered_rate_per_second: Option<f64>,
    /// The rate at which requests were answered.
    pub rate_per_second: f64,
    /// Requests that were answered.
    pub requests: u64,
    /// Requests that were due and were not answered.
    pub unanswered: u64,
    /// Requests that failed, answered or not, each counted once.
    pub failed_requests: u64,
    /// The length of the load.
    pub duration_seconds: f64,
    /// Errors by kind.
    pub errors: Vec<ErrorCount>,
    /// From the intended start to the last byte of the response.
    pub response_time: HistogramDocument,
    /// From the actual send to the last byte of the response.
    pub service_time: Option<HistogramDocument>,
    /// The send lateness: from the intended start to the actual send.
    pub send_lateness: Option<HistogramDocument>,
    /// Responses within each second of the load.
    pub throughput_per_second: Vec<u64>,
    /// Thinned-out requests as `[offset_ns, response_time_ns, service_time_ns]`.
    pub samples: Vec<[u64; 3]>,
    /// The server's account of the same requests.
    pub account: Option<OperationAccount>,
    /// The verdict on the load.
    pub verdict: Option<Verdict>,
    /// The load over time.
    pub timeline: Vec<IntervalDocument<'report>>,
    /// Further charts.
    pub charts: Vec<Chart>,
}

/// An interval of a load.
#[derive(Clone, Debug, Serialize)]
pub struct IntervalDocument<'report> {
    /// The time and the counts of the interval.
    #[serde(flatten)]
    pub stretch: &'report TimelineInterval,
    /// The histogram of its response times, as in [`HistogramDocument::hdr_v2_base64`].
    pub response_time_hdr_v2_base64: Option<String>,
}

/// A histogram in the compressed V2 encoding of HdrHistogram, in Base64; `None` if its counts are
/// beyond what the encoding holds.
#[must_use]
pub fn encoded(histogram: &Histogram<u64>) -> Option<String> {
    let mut bytes = Vec::new();
    let written = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
    written.is_ok().then(|| STANDARD.encode(&bytes))
}

/// Reads what [`encoded`] wrote.
///
/// # Errors
/// The error in the text.
pub fn decoded(text: &str) -> Result<Histogram<u64>, String> {
    let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| error.to_string())
}

/// Errors of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    /// The kind of error.
    pub kind: String,
    /// The number of errors of this kind.
    pub count: u64,
}

/// A histogram of durations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistogramDocument {
    /// The number of values.
    pub count: u64,
    /// The least value.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The standard deviation.
    pub standard_deviation_ns: f64,
    /// The greatest value.
    pub max_ns: u64,
    /// Values at percentiles from 50 to 100.
    pub percentiles: Vec<Percentile>,
    /// The whole histogram: V2 encoding of HdrHistogram, compressed, in Base64. `None` if its
    /// counts are beyond what the encoding holds.
    pub hdr_v2_base64: Option<String>,
}

/// A value at a percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// The percentile in percent, such as 99.9.
    pub percentile: f64,
    /// The value that this percentage of all values does not exceed.
    pub value_ns: u64,
}

/// The report as JSON text.
///
/// # Errors
/// An error of `serde_json`; every report can be written, so none is expected.
pub fn json(report: &Report) -> serde_json::Result<String> {
    let sections = report.sections.iter().map(SectionDocument::of).collect();
    serde_json::to_string(&ReportDocument { schema: SCHEMA, report, sections })
}

impl SectionDocument<'_> {
    fn of(section: &Section) -> SectionDocument<'_> {
        let account = section.account.as_ref();
        let errors = section.errors.iter();
        let samples = thin_out(&section.samples, JITTER_POINTS_MAX);
        SectionDocument {
            name: section.name.clone(),
            description: section.description.clone(),
            finding: account.map(|account| sentence(account, &section.client_figures())),
            offered_rate_per_second: section.offered_rate_per_second,
            rate_per_second: section.rate_per_second(),
            requests: section.requests,
            unanswered: section.unanswered,
            failed_requests: section.failed_requests,
            duration_seconds: section.duration.as_secs_f64(),
            errors: errors
                .map(|(kind, count)| ErrorCount { kind: kind.clone(), count: *count })
                .collect(),
            response_time: HistogramDocument::of(&section.response_time),
            service_time: section.service_time.as_ref().map(HistogramDocument::of),
            send_lateness: section.send_lateness.as_ref().map(HistogramDocument::of),
            throughput_per_second: section.throughput_per_second.clone(),
            samples: samples
                .iter()
                .map(|sample| [sample.offset_ns, sample.response_time_ns, sample.service_time_ns])
                .collect(),
            account: section.account.clone(),
            verdict: section.verdict.clone(),
            charts: section.charts.clone(),
            timeline: section
                .timeline
                .iter()
                .map(|stretch| IntervalDocument {
                    stretch,
                    response_time_hdr_v2_base64: encoded(&stretch.histogram()),
                })
                .collect(),
        }
    }
}

impl HistogramDocument {
    fn of(histogram: &Histogram<u64>) -> HistogramDocument {
        let percentile = |quantile: &f64| Percentile {
            percentile: (quantile * 1e7).round() / 1e5,
            value_ns: histogram.value_at_quantile(*quantile),
        };
        let filled = !histogram.is_empty();
        HistogramDocument {
            count: histogram.len(),
            min_ns: if filled { histogram.min() } else { 0 },
            mean_ns: if filled { histogram.mean() } else { 0.0 },
            standard_deviation_ns: if filled { histogram.stdev() } else { 0.0 },
            max_ns: histogram.max(),
            percentiles: NAMED_QUANTILES.iter().filter(|_| filled).map(percentile).collect(),
            hdr_v2_base64: encoded(histogram),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
    use serde_json::{Value, json};

    use super::{json as written, *};
    use crate::example::account;
    use crate::machine::Machine;
    use crate::model::Sample;

    fn histogram() -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        (1..=1_000).for_each(|value_us| histogram.record(value_us * 1_000).unwrap());
        histogram
    }

    fn report() -> Report {
        let section = Section {
            name: "GET".to_owned(),
            description: String::new(),
            offered_rate_per_second: None,
            requests: 1_000,
            unanswered: 2,
            failed_requests: 2,
            duration: Duration::from_millis(2_500),
            errors: vec![("timeout".to_owned(), 2)],
            response_time: histogram(),
            service_time: None,
            send_lateness: Some(Histogram::new(3).unwrap()),
            throughput_per_second: vec![400, 400, 200],
            samples: vec![Sample { offset_ns: 1, response_time_ns: 2, service_time_ns: 3 }],
            account: Some(account()),
            account_window: Duration::from_secs(590),
            timeline: vec![crate::model::TimelineInterval {
                answered: 1,
                response_times: vec![(5, 1)],
                ..Default::default()
            }],
            verdict: None,
            charts: Vec::new(),
        };
        Report {
            title: "A \"run\"".to_owned(),
            command: "pellucid demo".to_owned(),
            generated_unix_ms: 7,
            machine: Machine::of_this_machine("0.1.0", None),
            sections: vec![section],
            notes: vec!["A note.".to_owned()],
        }
    }

    #[test]
    fn a_report_is_read_back_as_it_was_written() {
        let text = written(&report()).unwrap();
        assert!(
            text.starts_with(r#"{"schema":"pellucid.report.v1","title":"A \"run\"","command":"#)
        );
        let back: Value = serde_json::from_str(&text).unwrap();
        let section = &back["sections"][0];
        assert_eq!(section["rate_per_second"], 400.0);
        assert_eq!(section["errors"], json!([{ "kind": "timeout", "count": 2 }]));
        assert_eq!(section["samples"], json!([[1, 2, 3]]));
        let back: OperationAccount = serde_json::from_value(section["account"].clone()).unwrap();
        assert_eq!(back, account());
        let histogram = |name: &str| -> HistogramDocument {
            serde_json::from_value(section[name].clone()).unwrap()
        };
        assert_eq!(histogram("send_lateness").percentiles, []);
        let p99 = histogram("response_time").percentiles[4];
        assert_eq!((p99.percentile, p99.value_ns), (99.0, 990_207));
        assert!(section["finding"].as_str().unwrap().starts_with("A typical GET took 20.0 µs"));
        let stretch = &section["timeline"][0];
        let times = decoded(stretch["response_time_hdr_v2_base64"].as_str().unwrap()).unwrap();
        assert_eq!((stretch["answered"].as_u64(), times.len(), times.max()), (Some(1), 1, 5));
    }

    /// Regression: after a load that was longer than the window of the server's account, the
    /// finding left out what the client saw.
    #[test]
    fn an_account_of_the_end_of_a_load_is_set_against_the_client_figures() {
        let mut report = report();
        let section = &mut report.sections[0];
        section.response_time.add(histogram()).unwrap();
        for (seconds, is_comparable) in [(1_180, true), (1_000, false)] {
            report.sections[0].duration = Duration::from_secs(seconds);
            let text = written(&report).unwrap();
            assert_eq!(text.contains(" The client saw "), is_comparable, "{seconds} s: {text}");
        }
    }

    /// The interval log of HdrHistogram itself has the same text for the same histogram.
    #[test]
    fn histograms_are_encoded_as_in_interval_logs() {
        let (mut log, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
        let mut writer =
            IntervalLogWriterBuilder::new().begin_log_with(&mut log, &mut serializer).unwrap();
        let span = Duration::from_secs(1);
        writer.write_histogram(&histogram(), span, span, None).unwrap();
        let log = String::from_utf8(log).unwrap();
        let encoded = HistogramDocument::of(&histogram()).hdr_v2_base64.unwrap();
        assert!(encoded.starts_with("HISTF"), "{encoded}");
        assert_eq!(log.trim_end().rsplit(',').next(), Some(encoded.as_str()));
    }
}

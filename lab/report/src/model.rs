//! The data of a report. Whoever ran the load fills these in; nothing here knows how the
//! figures came about, so that any run of any server can be shown in the same way.

use std::time::Duration;

use hdrhistogram::Histogram;
use pellucid_account::OperationAccount;
use serde::{Deserialize, Serialize};

use crate::chart::Chart;
use crate::machine::Machine;

/// A whole report: one run on one machine, with a section for each load that was put on.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The program of the run, such as `Pellucid demo`.
    pub title: String,
    /// The exact command line that repeats the run.
    pub command: String,
    /// The time at which the report was made, in milliseconds since 1970 (UTC).
    pub generated_unix_ms: u64,
    /// The machine that the figures hold for.
    pub machine: Machine,
    /// One section per load, in the order in which they ran.
    #[serde(skip)]
    pub sections: Vec<Section>,
    /// Whatever the reader must know to judge the figures, one plain sentence each.
    pub notes: Vec<String>,
}

/// One load, such as PUT or GET: the client's figures and, if known, the server's account.
#[derive(Clone, Debug)]
pub struct Section {
    /// Short name, such as `GET`; unique within the report.
    pub name: String,
    /// The composition of the load, in a sentence.
    pub description: String,
    /// The rate that was asked for; `None` for a closed loop.
    pub offered_rate_per_second: Option<f64>,
    /// Requests that were answered.
    pub requests: u64,
    /// The time for which the load was on.
    pub duration: Duration,
    /// Kinds of errors and how many of each; empty if there were none.
    pub errors: Vec<(String, u64)>,
    /// From the intended start to the last byte of the response, in nanoseconds.
    pub response_time: Histogram<u64>,
    /// From the actual send to the last byte of the response, in nanoseconds.
    pub service_time: Option<Histogram<u64>>,
    /// Actual less intended start, in nanoseconds: how late the load generator itself was.
    pub send_lateness: Option<Histogram<u64>>,
    /// Responses within each second of the load, from its start.
    pub throughput_per_second: Vec<u64>,
    /// Single requests, in any order. Reports thin them out and keep the slowest.
    pub samples: Vec<Sample>,
    /// The server's account of the same requests.
    pub account: Option<OperationAccount>,
    /// The load over time; empty if it is not known.
    pub timeline: Vec<Stretch>,
    /// The worth of the figures.
    pub verdict: Option<Verdict>,
    /// Whatever else whoever ran the load wants to show.
    pub charts: Vec<Chart>,
}

/// A stretch of a load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stretch {
    /// The time at which it begins, since the start of the load.
    pub begin_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// Requests that were answered within it.
    pub answered: u64,
    /// Errors of all kinds within it.
    pub errors: u64,
    /// Requests that were due and not sent at its end.
    pub backlog: u64,
    /// Response times in nanoseconds, ascending, with their counts.
    #[serde(skip)]
    pub response_times: Vec<(u64, u64)>,
}

/// The worth of a load's figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// In a word, such as `stable`.
    pub name: String,
    /// Its meaning for the reader of the figures.
    pub meaning: String,
    /// Its grounds, in sentences.
    pub evidence: Vec<String>,
}

/// One request as the client saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The intended start, counted from the start of the load, in nanoseconds.
    pub offset_ns: u64,
    /// From the intended start to the last byte of the response, in nanoseconds.
    pub response_time_ns: u64,
    /// From the actual send to the last byte of the response, in nanoseconds.
    pub service_time_ns: u64,
}

/// The client's figures that are set against the server's account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientFigures {
    /// Requests that were answered; with none, the other figures mean nothing.
    pub requests: u64,
    /// Median response time, from the intended start, in nanoseconds.
    pub response_p50_ns: u64,
    /// Median service time, from the actual send, in nanoseconds.
    pub service_p50_ns: Option<u64>,
}

impl ClientFigures {
    /// Reads the figures off the client's histograms.
    #[must_use]
    pub fn of(response_time: &Histogram<u64>, service_time: Option<&Histogram<u64>>) -> Self {
        ClientFigures {
            requests: response_time.len(),
            response_p50_ns: response_time.value_at_quantile(0.5),
            service_p50_ns: service_time
                .filter(|histogram| !histogram.is_empty())
                .map(|histogram| histogram.value_at_quantile(0.5)),
        }
    }
}

impl Section {
    /// The client's figures that are set against the server's account.
    #[must_use]
    pub fn client_figures(&self) -> ClientFigures {
        ClientFigures::of(&self.response_time, self.service_time.as_ref())
    }

    /// Answered requests per second over the whole load; 0 if it had no duration.
    #[must_use]
    pub fn rate_per_second(&self) -> f64 {
        let seconds = self.duration.as_secs_f64();
        if seconds > 0.0 { self.requests as f64 / seconds } else { 0.0 }
    }

    /// Errors of all kinds.
    #[must_use]
    pub fn error_count(&self) -> u64 {
        self.errors.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }
}

//! The data of a report. The program that ran the load fills them in. They do not depend on the
//! origin of the figures, so that a run of any server can be shown in the same way.

use std::time::Duration;

use hdrhistogram::Histogram;
use pellucid_account::OperationAccount;
use serde::{Deserialize, Serialize};

use crate::chart::Chart;
use crate::machine::Machine;

/// A whole report: one run on one machine, with a section for each load.
#[derive(Clone, Debug)]
pub struct Report {
    /// The program of the run, such as `Pellucid demo`.
    pub title: String,
    /// The exact command line that repeats the run.
    pub command: String,
    /// The time at which the report was made, in milliseconds since 1970 (UTC).
    pub generated_unix_ms: u64,
    /// The machine on which the figures were measured.
    pub machine: Machine,
    /// One section per load, in the order in which they ran.
    pub sections: Vec<Section>,
    /// Facts that the reader must know to judge the figures, one plain sentence each.
    pub notes: Vec<String>,
}

/// One load, such as PUT or GET: the client's figures and, if known, the server's account.
#[derive(Clone, Debug)]
pub struct Section {
    /// The short name, such as `GET`; unique within the report.
    pub name: String,
    /// The composition of the load, in a sentence.
    pub description: String,
    /// The requested rate; `None` in a closed loop.
    pub offered_rate_per_second: Option<f64>,
    /// Answered requests, with those of the warm-up, which the histograms leave out.
    pub requests: u64,
    /// Requests that were due and were not answered.
    pub unanswered: u64,
    /// Requests that failed, answered or not, each counted once. A connection that breaks is one
    /// error however many requests it loses.
    pub failed_requests: u64,
    /// The length of the load.
    pub duration: Duration,
    /// The kinds of errors and the number of each; empty without errors.
    pub errors: Vec<(String, u64)>,
    /// From the intended start to the last byte of the response, in nanoseconds.
    pub response_time: Histogram<u64>,
    /// From the actual send to the last byte of the response, in nanoseconds.
    pub service_time: Option<Histogram<u64>>,
    /// The send lateness of the load generator in nanoseconds: from the intended start to the
    /// actual send.
    pub send_lateness: Option<Histogram<u64>>,
    /// Responses within each second of the load, from its start.
    pub throughput_per_second: Vec<u64>,
    /// Single requests, in any order. Reports thin them out, but keep the slowest.
    pub samples: Vec<Sample>,
    /// The server's account of the same requests.
    pub account: Option<OperationAccount>,
    /// The time, up to the end of the load, that the account covers; servers forget what is older.
    pub account_window: Duration,
    /// The load over time; empty if it is not known.
    pub timeline: Vec<TimelineInterval>,
    /// The verdict on the load.
    pub verdict: Option<Verdict>,
    /// Further charts of the program that ran the load.
    pub charts: Vec<Chart>,
}

/// An interval of a load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimelineInterval {
    /// The start of the interval, since the start of the load.
    pub begin_ns: u64,
    /// The length of the interval.
    pub length_ns: u64,
    /// Requests that were answered within it.
    pub answered: u64,
    /// Errors of all kinds within it.
    pub errors: u64,
    /// The backlog at the end of the interval: requests that were due and not sent.
    pub backlog: u64,
    /// Response times in nanoseconds, ascending, with their counts.
    pub response_times: Vec<(u64, u64)>,
}

/// The verdict on a load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The name, such as `stable`.
    pub name: String,
    /// Its meaning for the reader of the figures.
    pub meaning: String,
    /// The evidence, in sentences.
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
    /// The number of answered requests whose times were recorded, within the window of the server's
    /// account; if it is 0, the other figures mean nothing.
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
        let figures = ClientFigures::of(&self.response_time, self.service_time.as_ref());
        // Without a duration, the minimum is 1.
        let share = self.account_window.as_secs_f64() / self.duration.as_secs_f64();
        let requests = (figures.requests as f64 * share.min(1.0)).ceil() as u64;
        ClientFigures { requests, ..figures }
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

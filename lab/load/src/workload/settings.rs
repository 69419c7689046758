//! Settings of a run that a file may have beside its requests.

use std::time::Duration;

use crate::schedule::Arrivals;

/// The file's settings of the run itself; the command line goes first.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Connections of the run.
    pub connections: Option<usize>,
    /// Threads of the generator.
    pub threads: Option<usize>,
    /// Requests per second.
    pub rate_per_second: Option<u64>,
    /// The spread of starts.
    pub arrivals: Option<Arrivals>,
    /// Length of the run.
    pub duration: Option<Duration>,
    /// The time that is left out of the histograms at the beginning.
    pub warm_up: Option<Duration>,
    /// The time at which a request counts as timed out.
    pub timeout: Option<Duration>,
    /// True if connections carry more than one request.
    pub keep_alive: Option<bool>,
}

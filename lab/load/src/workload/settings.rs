//! The settings of a run in a description of work, beside its requests.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::schedule::Arrivals;
use crate::units::deserialize_duration;

/// The file's settings of the run; flags of the command line override them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The number of connections.
    pub connections: Option<usize>,
    /// The number of threads of the generator.
    pub threads: Option<usize>,
    /// Requests per second.
    #[serde(rename = "rate")]
    pub rate_per_second: Option<u64>,
    /// The spread of starts.
    pub arrivals: Option<Arrivals>,
    /// The length of the run.
    #[serde(default, deserialize_with = "optional_duration")]
    pub duration: Option<Duration>,
    /// The time at the begin that is left out of the histograms.
    #[serde(default, deserialize_with = "optional_duration")]
    pub warm_up: Option<Duration>,
    /// The time after which a request counts as timed out.
    #[serde(default, deserialize_with = "optional_duration")]
    pub timeout: Option<Duration>,
    /// True if connections carry more than one request.
    pub keep_alive: Option<bool>,
}

fn optional_duration<'de, D>(deserializer: D) -> Result<Option<Duration>, D::Error>
where
    D: Deserializer<'de>,
{
    deserialize_duration(deserializer).map(Some)
}

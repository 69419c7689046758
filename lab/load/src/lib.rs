//! The load generator: constant rate, honest latency, wrk2's scripts.
//!
//! A closed-loop generator waits for an answer before it sends the next request, so a server that
//! stalls is simply asked less often, and the stall nearly vanishes from the percentiles
//! ("coordinated omission"). Here, with a rate, every request has an intended start that does not
//! depend on earlier answers, and three histograms keep apart what is often mixed:
//!
//! - **response time**, from the intended start to the answer: what a user would have waited,
//! - **service time**, from the actual send to the answer: what the server took,
//! - **send lateness**, from the intended start to the actual send: how late this generator was.
//!
//! Everything is recorded from the first request on, unlike in wrk2, which leaves out its first ten
//! seconds; [`LoadOptions::warm_up`] leaves out the beginning of a run. Without a rate, the load is
//! a closed loop at full speed, as in wrk.
//!
//! ```no_run
//! use pellucid_load::{LoadOptions, Target, run, wrk2};
//!
//! let mut options = LoadOptions::new(Target::parse("http://localhost:8080/")?);
//! options.rate_per_second = Some(10_000);
//! let result = run(&options, &mut |_| {})?;
//! let text = wrk2::table(&result, wrk2::Distributions::Corrected);
//! # drop(text);
//! # Ok::<(), pellucid_load::LoadError>(())
//! ```
//!
//! It needs Linux: the pacing to microseconds rests on its timers.

mod connection;
mod control;
mod disconnect_reason;
mod error;
mod error_counts;
mod exchange;
mod histograms;
mod host_monitor;
mod http2;
mod knee;
mod latency_breakdown;
mod objective;
mod options;
mod pacing;
mod poller;
mod pool;
mod progress;
mod rates;
mod recorder;
mod request_factory;
mod request_routing;
mod result;
mod run;
mod samples;
mod schedule;
mod script;
mod silence;
pub mod simulation;
mod source;
mod stages;
mod stream;
mod sweep;
mod throughput;
mod timeline;
mod times;
mod trace_sampler;
mod traces;
mod units;
mod verdict;
mod waits;
mod wake_up_lateness;
mod worker;
mod worker_group;
mod workload;
pub mod wrk2;
mod wrk2_timers;

pub use error::LoadError;
pub use error_counts::ErrorCounts;
pub use knee::{Knee, KneeSearch, SearchOptions, Step};
pub use latency_breakdown::{LatencyBreakdown, LatencyStep};
pub use objective::Objectives;
pub use options::{Limit, LoadOptions, MAX_PIPELINE_DEPTH, MAX_STREAMS, ScriptOptions};
pub use pellucid_client::http::{CapturedResponse, Header, HttpError, Target, TlsOptions};
pub use progress::Progress;
pub use request_routing::DirectResult;
pub use result::{LoadResult, OfferedLoad, OperationResult, RunHistory, ThreadResult};
pub use run::run;
pub use samples::{MAX_BINS, SAMPLES_PER_BIN, Sample};
pub use schedule::Arrivals;
pub use silence::Silence;
pub use source::{Acceptance, RequestSource, RequestSources, ThreadShare};
pub use stages::Stage;
pub use sweep::{SweepPoint, recommended, rule_holds, rule_of_thumb};
pub use timeline::{Interval, MAX_INTERVALS};
pub use times::Times;
pub use traces::{MAX_SLOWEST, MAX_TRACES, Trace, Traces};
pub use units::{parse_count, parse_duration};
pub use verdict::{Figures, Judgement, Verdict, judge};
pub use waits::ProcessorWaits;
pub use workload::{MAX_OPERATIONS, Settings, Workload};
pub use wrk2_timers::Pacer;

/// The largest number of bytes that one read takes from a socket; each thread has one buffer of
/// this size.
pub(crate) const READ_BUFFER_BYTES: usize = 64 * 1024;

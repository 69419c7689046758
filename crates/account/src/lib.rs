//! The account of a request: the time of each of its phases and parts.
//!
//! One [`Timeline`] travels with a request from the socket through the store and back. Each layer
//! that it passes takes a stamp or closes a lap, and nothing else on the hot path measures time.
//! When the request is done, the timeline becomes one fixed-size record in a ring that belongs to
//! its thread. All views (histograms, quantiles, phase shares, metrics) are derived from those
//! records off the hot path, so that no two views can disagree.
//!
//! The crate knows neither HTTP nor storage: operations, outcomes and the parts of `execute` are
//! names that the owner of the [`Account`] passes in.

mod account;
mod activity;
mod compact_duration;
mod current_second;
mod deferred_records;
mod histogram;
mod history;
mod in_flight;
mod interference;
mod packed_shapes;
mod phase;
mod probe;
mod queries;
mod record;
mod recorder;
mod request_monitor;
mod ring;
mod series;
mod shape;
mod slow_requests;
mod snapshot;
mod state;
mod timeline;
mod transport;
mod views;
mod work;

pub use account::Account;
pub use activity::{Activity, JOB_KINDS_MAX, JOBS_KEPT, Job, JobGuard, JobKind, JobTotals};
pub use deferred_records::LateParts;
pub use history::HISTORY_RECORDS;
pub use in_flight::InFlightGuard;
pub use interference::{INTERFERENCE_REQUESTS_MIN, INTERFERENCE_SLOW_MIN, Lift};
pub use phase::{PHASES, Part, Phase, STAMPS, Stamp};
pub use queries::RecentRequests;
pub use record::{Record, RequestFacts};
pub use recorder::Recorder;
pub use ring::RING_RECORDS;
pub use series::WINDOW_SECONDS_MAX;
pub use slow_requests::{CROSSED_KEPT, SLOW_QUANTILE, SLOW_REQUESTS_MIN, SLOWEST_KEPT};
pub use snapshot::{
    AROUND_QUANTILES, ClockFacts, Distribution, NamedDistribution, OperationAccount,
    QuantileBreakdown, SCHEMA, Share, Snapshot,
};
pub use state::{Accounting, Names};
pub use timeline::{EngineCounts, PARTS_MAX, Timeline};
pub use transport::{TRANSPORT_PARTS, TransportPart};
pub use views::{
    EngineView, InFlightView, InterferenceView, JobView, NamedDuration, RequestView, SlowOperation,
    WaitView, request_name,
};
pub use work::{EngineWork, LookupLocation};

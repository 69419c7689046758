//! The account of a request: where every microsecond of it went.
//!
//! One [`Timeline`] travels with a request from the socket through the store and back. Whoever it
//! passes writes a stamp or closes a lap there, and nothing else on the hot path measures time.
//! When the request is done, the timeline becomes one fixed-size record in a ring that belongs to
//! its thread. Everything that people look at (histograms, quantiles, phase shares, metrics) is
//! derived from those records off the hot path, so that no two views can disagree.
//!
//! The crate knows neither HTTP nor storage: operations, outcomes and the parts of `execute` are
//! names that the owner of the [`Account`] brings along.

mod phase;
mod timeline;

pub use phase::{PHASES, Part, Phase, STAMPS, Stamp};
pub use timeline::{EngineCounts, PARTS_MAX, Timeline};

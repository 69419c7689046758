//! Profiles of processor time, memory and waits, with the request in every sample.
//!
//! A profile that must not crash the server has to be taken with care, and one that nobody dares to
//! leave on is not there when it is wanted. This crate samples each thread on its own processor
//! clock, allocations by chance, and waits where there are any; keeps the last minutes of it; and
//! writes what `go tool pprof` and people read. What runs inside the profiled code is in
//! `pellucid-thread`.
#![allow(
    clippy::disallowed_types,
    reason = "a profiler that noted its own waits would do so while it notes one"
)]

mod component;
mod folded;
mod handler;
mod heap;
mod history;
mod moments;
mod pprof;
mod profile;
mod resolved;
mod ring;
mod sampler;
mod shares;
mod symbols;
mod system_calls;
mod timed;
mod timers;

pub use component::OTHER;
pub use folded::{folded, folded_beside, head_of};
pub use heap::{SAMPLE_BYTES, SampledAllocator, allocation_sampling, set_allocation_sampling};
pub use history::HISTORY_SAMPLES_MAX;
pub use moments::MOMENT_PAUSE;
pub use pprof::pprof;
pub use profile::{Kind, Profile, Sample};
pub use resolved::{Filter, Frame, NamedSample, Resolved};
pub use sampler::{Boost, HERTZ_MAX, Profiler, RECORDING_HERTZ, USUAL_HERTZ};
pub use shares::{Share, Shares, shares};
pub use symbols::{Function, Place};

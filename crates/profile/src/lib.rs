//! Profiles of processor time, memory and waits. Every sample is labelled with the operation and
//! the phase of its request.
//!
//! The profiler is safe and cheap enough to stay on in production, so a profile of an incident
//! exists when it is wanted. This crate samples the processor time of each thread with a timer on
//! its own processor clock, samples allocations at random, counts waits, keeps the last minutes of
//! samples, and writes files for `go tool pprof` and text for people. The code that runs inside the
//! profiled threads is in `pellucid-thread`.
#![allow(
    clippy::disallowed_types,
    reason = "a profiler that recorded its own waits would do so while it records one"
)]

mod component;
mod folded_stacks;
mod handler;
mod heap;
mod heap_snapshots;
mod history;
mod pprof;
mod profile;
mod resolved_profile;
mod ring;
mod sampler;
mod shares;
mod symbols;
mod system_calls;
mod timed_samples;
mod timers;

pub use component::OTHER;
pub use folded_stacks::{folded, folded_beside, head_of};
pub use heap::{SAMPLE_BYTES, SampledAllocator, allocation_sampling, set_allocation_sampling};
pub use heap_snapshots::MOMENT_PAUSE;
pub use history::HISTORY_SAMPLES_MAX;
pub use pprof::pprof;
pub use profile::{Kind, Profile, Sample};
pub use resolved_profile::{Filter, Frame, NamedSample, ResolvedProfile};
pub use sampler::{Boost, HERTZ_MAX, Profiler, RECORDING_HERTZ, USUAL_HERTZ};
pub use shares::{Share, Shares, shares};
pub use symbols::{Function, SourceLocation};

//! The activity of a thread, and its waits: the part of profiling that runs inside the profiled
//! code. Threads and locks of this crate can take part in a [`simulation`].
//!
//! This is a separate crate below all code that has threads or locks, because labels are set and
//! locks are taken everywhere. Sampling, symbols and charts concern only the server (the crate
//! `profile`). The hooks here do not allocate or log, and know nothing of requests: phases and
//! operations are numbers whose names their owners have.
#![allow(
    clippy::disallowed_types,
    reason = "the types of this crate are made of them, and waits are counted under them"
)]

mod activity;
mod code_range;
mod condvar;
mod containment;
mod contention;
mod early_operations;
mod lock;
mod parked_work;
mod periodic_thread;
mod random;
mod run_account;
mod rwlock;
mod scheduler;
mod scheduling;
pub mod simulation;
mod sites;
mod spawn;
mod stack;
mod wait_table;
mod waits;
pub use activity::{
    Job, JobGuard, LOOP_PHASE, Labels, begin_request, labels, number_early_request, resume_request,
    set_operation, set_phase, set_request, start_job, suspend_request,
};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use containment::{
    ContainedPanic, CriticalSection, contain, end_process_on_other_panics, run_contained,
};
pub use early_operations::{EARLY_MAX, early_operation, is_early_awaited};
pub use lock::{Mutex, MutexGuard};
pub use parked_work::{ParkedWork, ResumedWork};
pub use periodic_thread::PeriodicThread;
pub use random::exponential;
pub use run_account::{RunAccount, RunTimes};
pub use rwlock::{RwLock, RwLockGuard, RwLockReadGuard, RwLockWriteGuard};
pub use scheduling::{give_way, schedule_for_background, schedule_for_requests};
pub use sites::{Counts, SITES_MAX, Site, Sites};
pub use spawn::{JoinHandle, ScopedJoinHandle, spawn, spawn_scoped};
pub use stack::{Registers, STACK_DEPTH_MAX, capture, capture_interrupted, prepare_thread};
pub use wait_table::{WAITS_MAX, Wait, WaitGuard, WaitKind, monotonic_ns, waits};
pub use waits::{
    HOLDERS_ONE_IN, KeptWait, WAIT_SAMPLE_NS, WaitObserver, WaitSide, blocked, contended,
    holder_sampling, observe_waits, sample_waits, set_holder_sampling, set_wait_sampling,
    wait_sampling,
};

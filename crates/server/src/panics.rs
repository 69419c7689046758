//! Log lines of requests that ended with a panic.

use pellucid_account::{PHASES, RequestFacts, Timeline};
use pellucid_thread::ContainedPanic;

use crate::log::Log;
use crate::names::NAMES;

/// Logs the phases of the request so far and the panic with its stack. `panicked` is `None` if the
/// panic happened on another thread, which has printed the stack itself.
pub(crate) fn log_panic(
    log: &Log,
    panicked: Option<&ContainedPanic>,
    timeline: &Timeline,
    facts: &RequestFacts,
) {
    let clock = timeline.clock();
    let operation = NAMES.operations.get(usize::from(facts.operation)).unwrap_or(&"unknown");
    let phases = PHASES.into_iter().filter_map(|phase| {
        let duration_ms = clock.nanoseconds(timeline.phase_ticks(phase)) as f64 / 1e6;
        (duration_ms >= 0.001).then(|| format!("{}={duration_ms:.3}", phase.name()))
    });
    let phases = phases.collect::<Vec<_>>().join(" ");
    let panicked = panicked.map(ToString::to_string);
    let panicked = panicked.as_deref().unwrap_or("on another thread, which told the stack");
    log.with(|| {
        tracing::error!(
            target: "pellucid::panic",
            operation,
            phases_ms = phases.as_str(),
            request = format!("{:016x}", facts.request).as_str(),
            connection = facts.connection,
            request_bytes = facts.request_bytes,
            panic = panicked,
            "a panic ended a request"
        );
    });
}

//! The account of one request on its own response: the `Server-Timing` header.

use pellucid_account::{Names, PHASES, Part, Phase, Stamp, Timeline, TransportPart};
use pellucid_clock::SharedReading;
use pellucid_http::{Exchange, Request, Response};
use pellucid_thread::set_operation;

use crate::names::{NAMES, Operation, Outcome};

/// Notes the operation of a request, and takes the stamps of a handler that runs at once.
pub(crate) fn route<L>(exchange: &mut Exchange<'_, L>, operation: Operation) {
    exchange.facts.operation = operation as u8;
    exchange.timeline.set_operation(operation as u8);
    set_operation(operation as u8 + 1);
    exchange.facts.outcome = Outcome::Ok as u8;
    let at = exchange.timeline.stamp(Stamp::Routed);
    exchange.timeline.stamp_at(Stamp::Started, at);
}

/// Takes the stamp `executed` unless the store's answer has taken it.
pub(crate) fn end_execution(timeline: &mut Timeline) {
    if timeline.taken(Stamp::Executed).is_none() {
        timeline.stamp(Stamp::Executed);
    }
}

/// The request asks for its account: `Prefer: timing` (RFC 7240).
pub(crate) fn wants_timing(request: &Request<'_>) -> bool {
    request.headers.iter().any(|header| header.name.len() == 6)
        && request.header_has("prefer", "timing")
}

/// Adds, if the client asked for it, the phases that are over, in milliseconds with decimals down
/// to the microsecond, each followed by its parts (`decrypt` behind `receive`, the store's behind
/// `execute`), and `unaccounted` last. The phase `write` and the rest of `encode`, with `encrypt`
/// and `compress` in them, come after the header is written, and so are not in it: they are in the
/// account.
///
/// A second header, `Pellucid-Clock`, says when the request arrived, on a clock that a client on
/// the same machine reads as well: with it the phases have their place between sending and
/// receiving.
pub(crate) fn add_server_timing(response: &mut Response<'_>, timeline: &Timeline) {
    if !timeline.is_wanted || !timeline.is_on() {
        return;
    }
    let mut timeline = timeline.clone();
    timeline.stamp(Stamp::Encoded);
    let clock = timeline.clock();
    response.header_with("Server-Timing", |out| {
        for phase in PHASES.into_iter().filter(|phase| *phase != Phase::Write) {
            if phase == Phase::Unaccounted {
                write_metric(out, "total", clock.nanoseconds(timeline.total_ticks()));
            }
            write_metric(out, phase.name(), clock.nanoseconds(timeline.phase_ticks(phase)));
            if let Some(part) = TransportPart::of(phase) {
                let ticks = timeline.transport_ticks(part).min(timeline.phase_ticks(phase));
                write_part(out, part.name(), clock.nanoseconds(ticks));
            }
            if phase == Phase::Execute {
                let names = Names { parts: timeline.part_names(), ..NAMES };
                for (slot, name) in (0..).zip(names.parts_of(timeline.operation())) {
                    let ticks = timeline.part_ticks(Part::new(slot));
                    write_part(out, name, clock.nanoseconds(ticks));
                }
            }
        }
        // The separator after the last metric.
        out.truncate(out.len() - 2);
    });
    let arrived = timeline.taken(Stamp::Arrived);
    if let Some(reading) = arrived.and_then(|at| SharedReading::of(&clock, at)) {
        response.header("Pellucid-Clock", reading.to_string().as_bytes());
    }
}

/// Parts that did not occur are left out.
fn write_part(out: &mut Vec<u8>, name: &str, duration_ns: u64) {
    if duration_ns > 0 {
        write_metric(out, name, duration_ns);
    }
}

fn write_metric(out: &mut Vec<u8>, name: &str, duration_ns: u64) {
    let duration_us = (duration_ns + 500) / 1_000;
    let (whole, decimals) = (duration_us / 1_000, duration_us % 1_000);
    out.extend_from_slice(format!("{name};dur={whole}.{decimals:03}, ").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_milliseconds_with_microseconds() {
        let text = |duration_ns| {
            let mut out = Vec::new();
            write_metric(&mut out, "execute", duration_ns);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(0), "execute;dur=0.000, ");
        assert_eq!(text(1_499), "execute;dur=0.001, ");
        assert_eq!(text(12_345_678), "execute;dur=12.346, ");
    }
}

//! The timeline of a request on its own response: the headers `Server-Timing` and
//! `Pellucid-Clock`.

use pellucid_account::{Names, PHASES, Part, Phase, Stamp, Timeline, TransportPart};
use pellucid_clock::SharedReading;
use pellucid_http::{Exchange, Request, Response, write_decimal};
use pellucid_thread::set_operation as set_profiled_operation;

use crate::names::{NAMES, Operation, Outcome};

/// Sets the operation of a request, and the outcome `Ok` until something fails. Takes the stamps
/// `routed` and `started` with one reading of the clock; a request that is handed over takes
/// `started` again.
pub(crate) fn route<L>(exchange: &mut Exchange<'_, L>, operation: Operation) {
    exchange.facts.operation = operation as u8;
    exchange.timeline.set_operation(operation as u8);
    // Profiles number the operations from one: zero is no operation.
    set_profiled_operation(operation as u8 + 1);
    exchange.facts.outcome = Outcome::Ok as u8;
    let at = exchange.timeline.stamp(Stamp::Routed);
    exchange.timeline.stamp_at(Stamp::Started, at);
}

/// Takes the stamp `executed`, unless the store has taken it already.
pub(crate) fn end_execution(timeline: &mut Timeline) {
    if timeline.taken(Stamp::Executed).is_none() {
        timeline.stamp(Stamp::Executed);
    }
}

/// Returns true if the client asks for the timeline of its request: `Prefer: timing` (RFC 7240).
pub(crate) fn wants_timing(request: &Request<'_>) -> bool {
    request.header_has("prefer", "timing")
}

/// Adds the header `Server-Timing`, if the client asked for it. It has the phases so far in
/// milliseconds, with three decimals. Each phase is followed by its parts: `decrypt` after
/// `receive`, the store's parts after `execute`. `total`, from received to now, and `unaccounted`
/// come last. The phase `write` and the rest of `encode` (with their parts `encrypt` and
/// `compress`) are missing, because they happen after the header is written; the account has them.
///
/// A second header, `Pellucid-Clock`, has the time at which the request arrived, on a clock that a
/// client on the same machine can read, too. With it the client can place the phases between its
/// own sending and receiving.
pub(crate) fn add_server_timing(response: &mut Response<'_>, timeline: &Timeline) {
    if !timeline.is_wanted || !timeline.is_on() {
        return;
    }
    let timeline = timeline.with_stamp(Stamp::Encoded);
    let clock = timeline.clock();
    response.header_with("Server-Timing", |out| {
        for phase in PHASES.into_iter().filter(|phase| *phase != Phase::Write) {
            if phase == Phase::Unaccounted {
                write_metric(out, "total", clock.nanoseconds(timeline.total_ticks()));
            }
            write_metric(out, phase.name(), clock.nanoseconds(timeline.phase_ticks(phase)));
            if let Some(part) = TransportPart::of(phase) {
                // Noted with an error of 0.05 %, so it may exceed its phase.
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

/// Writes a part, unless it did not occur.
fn write_part(out: &mut Vec<u8>, name: &str, duration_ns: u64) {
    if duration_ns > 0 {
        write_metric(out, name, duration_ns);
    }
}

fn write_metric(out: &mut Vec<u8>, name: &str, duration_ns: u64) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b";dur=");
    write_fraction(out, (duration_ns + 500) / 1_000, 3);
    out.extend_from_slice(b", ");
}

/// Writes `value` with its last `decimals` digits behind the decimal point.
pub(crate) fn write_fraction(out: &mut Vec<u8>, value: u64, decimals: u32) {
    let one = 10_u64.pow(decimals);
    write_decimal(out, value / one);
    let point = out.len();
    // A leading one, replaced by the point, keeps the zeros behind it.
    write_decimal(out, one + value % one);
    out[point] = b'.';
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_milliseconds_with_three_decimals() {
        let text = |duration_ns| {
            let mut out = Vec::new();
            write_metric(&mut out, "execute", duration_ns);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(0), "execute;dur=0.000, ");
        assert_eq!(text(1_499), "execute;dur=0.001, ");
        assert_eq!(text(12_345_678), "execute;dur=12.346, ");
    }

    #[test]
    fn fractions_have_all_their_zeros() {
        for (value, decimals, expected) in [
            (0, 6, "0.000000"),
            (1_500_000, 6, "1.500000"),
            (7, 9, "0.000000007"),
            (1_000_000_042, 9, "1.000000042"),
            (u64::MAX, 9, "18446744073.709551615"),
        ] {
            let mut out = b"seconds ".to_vec();
            write_fraction(&mut out, value, decimals);
            assert_eq!(String::from_utf8(out).unwrap(), format!("seconds {expected}"));
        }
    }
}

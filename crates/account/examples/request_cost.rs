//! Measures the cost of the account: nanoseconds per request on the request's own thread, and on
//! the draining thread, over a loop of requests in memory.
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use pellucid_account::{Account, Accounting, Names, Part, RequestFacts, Stamp};
use pellucid_clock::Clock;

const REQUESTS: u64 = 10_000;
const ROUNDS: usize = 200;
const LEDGER: Part = Part::new(0);

fn main() {
    let names =
        Names { operations: &["get"], outcomes: &["ok"], parts: &["ledger"], other_parts: &[] };
    let clock = Clock::system();
    let account = Account::new(Accounting::Full, clock, names);
    let recorder = account.recorder();
    let (mut request_ns, mut drain_ns) = (f64::INFINITY, f64::INFINITY);
    let mut number = 0;
    for _ in 0..ROUNDS {
        let stopwatch = clock.stopwatch();
        for _ in 0..REQUESTS {
            number += 1;
            let arrived = recorder.now();
            let mut timeline = recorder.begin(arrived);
            timeline.identify(number, arrived);
            timeline.stamp(Stamp::Received);
            timeline.stamp(Stamp::Parsed);
            timeline.set_operation(0);
            let at = timeline.stamp(Stamp::Routed);
            timeline.stamp_at(Stamp::Started, at);
            timeline.lap(LEDGER);
            timeline.stamp_after_lap(Stamp::Executed);
            timeline.stamp(Stamp::Encoded);
            let facts = RequestFacts { request: number, ..RequestFacts::default() };
            if let Some(mut record) = recorder.seal(&timeline, facts) {
                recorder.record_sealed(&mut record, recorder.now());
            }
        }
        request_ns = request_ns.min(stopwatch.elapsed_ns() as f64 / REQUESTS as f64);
        let stopwatch = clock.stopwatch();
        account.drain();
        drain_ns = drain_ns.min(stopwatch.elapsed_ns() as f64 / REQUESTS as f64);
    }
    println!("{request_ns:.1} ns a request, seven readings of the clock among them");
    println!("{drain_ns:.1} ns a request for the draining thread");
}

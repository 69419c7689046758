//! Compares the conclusions of the original study with our runs.

use pellucid_report::{Estimate, Finding, Unit, both};

use super::client::RunFigures;
use super::original;
use super::plan::{HAND_OVERS, Operation, TRANSPORTS, Transport};
use crate::loads::has_times;

/// The factor up to which two figures count as the same.
const SAME_FACTOR: f64 = 1.25;
/// The share of the total below which a phase is negligible; the original calls 2 of 60 µs so.
const NEGLIGIBLE_SHARE: f64 = 0.05;
/// The share of the total above which hand-overs are a large part.
const HAND_OVER_SHARE: f64 = 0.2;
/// The factor up to which the sum of the phases' medians counts as the total's median.
const ADDITIVE_FACTOR: f64 = 1.1;

/// The runs of all rounds. Each round has its own servers.
#[derive(Clone, Copy)]
pub(super) struct Rounds<'a>(pub(super) &'a [Vec<RunFigures>]);

type Figure<'a> = &'a dyn Fn(&RunFigures) -> f64;

impl<'a> Rounds<'a> {
    /// For each round, the run of this operation over this transport; `None` if its verdict makes
    /// its times unusable.
    fn runs(
        self,
        operation: Operation,
        transport: Transport,
    ) -> impl Iterator<Item = Option<&'a RunFigures>> {
        self.0.iter().map(move |runs| {
            let key = (operation, transport, HAND_OVERS[0]);
            let is_it = |run: &&RunFigures| {
                (run.key.operation, run.key.transport, run.key.hand_over) == key
            };
            runs.iter().find(is_it).filter(|run| has_times(&run.judged))
        })
    }

    fn of(
        self,
        (name, unit): (&str, Unit),
        (operation, transport): (Operation, Transport),
        of: Figure<'_>,
    ) -> Estimate {
        Estimate::of_runs(name, unit, self.runs(operation, transport).map(|run| run.map(of)))
    }

    /// Estimates a figure of `/_api/version` over plain HTTP/1.1.
    fn version(self, name: &str, unit: Unit, of: Figure<'_>) -> Estimate {
        self.of((name, unit), (Operation::Version, TRANSPORTS[0]), of)
    }

    /// Estimates a figure from pairs of runs of `/_api/version`: over plain HTTP/1.1, and over
    /// another transport.
    fn beside(
        self,
        (name, unit): (&str, Unit),
        transport: Transport,
        of: impl Fn(&RunFigures, &RunFigures) -> f64,
    ) -> Estimate {
        let plain = self.runs(Operation::Version, TRANSPORTS[0]);
        let pairs = plain.zip(self.runs(Operation::Version, transport));
        Estimate::of_runs(name, unit, pairs.map(|(plain, other)| Some(of(plain?, other?))))
    }
}

pub(super) fn findings(rounds: Rounds<'_>) -> Vec<Finding> {
    vec![
        total(rounds),
        before(rounds),
        hand_over(rounds),
        execute(rounds),
        write(rounds),
        jitter(rounds),
        additivity(rounds),
        tls(rounds),
        http2(rounds),
        entities(rounds),
    ]
}

fn median(run: &RunFigures, phase: &str) -> f64 {
    run.server.phase(phase).p50_ns as f64
}

fn total_median(run: &RunFigures) -> f64 {
    run.server.total.p50_ns as f64
}

fn share(run: &RunFigures, phase: &str) -> f64 {
    median(run, phase) / total_median(run).max(1.0)
}

fn total(rounds: Rounds<'_>) -> Finding {
    let total = rounds.version("median of the total", Unit::Nanoseconds, &total_median);
    let client = rounds.version("median that the client waits", Unit::Nanoseconds, &|run| {
        run.client.p50_ns as f64
    });
    let times = total.value().map_or(0.0, |here| original::TOTAL_NS / here.max(1.0));
    Finding::new(
        "total",
        "Over HTTP/1.1 a request for /_api/version takes 60 µs in the server.",
        format!(
            "/_api/version takes {total} at the median here, {times:.1} times less, on another \
             machine; the client waits {client}."
        ),
        total.is_near(original::TOTAL_NS, SAME_FACTOR),
        [total, client],
    )
}

fn before(rounds: Rounds<'_>) -> Finding {
    let [[parse, _], [route, _]] = ["parse", "route"].map(|name| phase(rounds, name));
    let each = rounds.version("share of the total, mean of both", Unit::Share, &|run| {
        (share(run, "parse") + share(run, "route")) / 2.0
    });
    Finding::new(
        "before_the_handler",
        "Three phases before the hand-over take 2.5, 1.9 and 2.0 µs, each negligible beside 60.",
        format!("Parsing takes {parse} and routing {route}, {each} of the total each in the mean."),
        each.is_below(NEGLIGIBLE_SHARE),
        [parse, route, each],
    )
}

fn hand_over(rounds: Rounds<'_>) -> Finding {
    let [queue, part] = phase(rounds, "queue");
    let sentence = match queue.value() {
        Some(0.0) => "There is no hand-over: the thread that reads a request answers it, and its \
                      queue takes no time."
            .to_owned(),
        _ => format!("The queue takes {queue}, {part} of the total."),
    };
    Finding::new(
        "hand_overs",
        "Two hand-overs between threads take 8 and 11 µs, a third of the total.",
        sentence,
        part.is_above(HAND_OVER_SHARE),
        [queue, part],
    )
}

/// The median of a phase, and its share of the total.
fn phase(rounds: Rounds<'_>, name: &str) -> [Estimate; 2] {
    let of =
        |what: &str, unit, of: Figure<'_>| rounds.version(&format!("{name}, {what}"), unit, of);
    [
        of("median", Unit::Nanoseconds, &|run| median(run, name)),
        of("of the total", Unit::Share, &|run| share(run, name)),
    ]
}

fn execute(rounds: Rounds<'_>) -> Finding {
    let [here, part] = phase(rounds, "execute");
    Finding::new(
        "execute",
        "The handler takes 18 µs, 30 % of the total; 13 of them compress an answer of 60 bytes.",
        format!(
            "The handler takes {here}, {part} of the total; an answer as short is not compressed."
        ),
        part.is_near(original::EXECUTE_NS / original::TOTAL_NS, SAME_FACTOR),
        [here, part],
    )
}

fn write(rounds: Rounds<'_>) -> Finding {
    let [here, part] = phase(rounds, "write");
    Finding::new(
        "write",
        "Writing the response takes 15 µs, a quarter of the total.",
        format!(
            "Writing takes {here}, {part} of the total: what is left is mostly the system call."
        ),
        part.is_near(original::WRITE_NS / original::TOTAL_NS, SAME_FACTOR),
        [here, part],
    )
}

fn jitter(rounds: Rounds<'_>) -> Finding {
    let p99_9 = rounds
        .version("p99.9 of the total", Unit::Nanoseconds, &|run| run.server.total.p99_9_ns as f64);
    let times = rounds.version("p99.9 over the median", Unit::Ratio, &|run| {
        run.server.total.p99_9_ns as f64 / total_median(run).max(1.0)
    });
    Finding::new(
        "jitter",
        "The jitter is pretty bad: 0.1 % take more than 136 µs, 2.3 times the median.",
        format!("0.1 % of the requests take more than {p99_9}, {times} times the median."),
        times.is_near(original::TOTAL_P99_9_NS / original::TOTAL_NS, SAME_FACTOR),
        [p99_9, times],
    )
}

fn additivity(rounds: Rounds<'_>) -> Finding {
    let names = ["parse", "route", "queue", "execute", "encode", "write", "unaccounted"];
    let ratio = rounds.version("sum of medians over the total's", Unit::Ratio, &|run| {
        names.iter().map(|name| share(run, name)).sum()
    });
    Finding::new(
        "additivity",
        "The medians of the phases add up to the median of the total.",
        format!(
            "The medians of the phases add up to {ratio} of the total's; that quantiles do so is \
             chance, so what is stacked here are means."
        ),
        ratio.is_near(1.0, ADDITIVE_FACTOR),
        [ratio],
    )
}

/// The cost of a transport: the median of its total, the difference to plain HTTP/1.1, and the
/// ratio to it.
fn added(rounds: Rounds<'_>, transport: Transport) -> [Estimate; 3] {
    let name = transport.title();
    let of = (Operation::Version, transport);
    let total = rounds.of((&format!("{name}, median"), Unit::Nanoseconds), of, &total_median);
    let more = rounds.beside(
        (&format!("{name}, added to HTTP/1.1"), Unit::Nanoseconds),
        transport,
        |plain, other| total_median(other) - total_median(plain),
    );
    let times = rounds.beside(
        (&format!("{name}, over HTTP/1.1"), Unit::Ratio),
        transport,
        |plain, other| total_median(other) / total_median(plain).max(1.0),
    );
    [total, more, times]
}

fn tls(rounds: Rounds<'_>) -> Finding {
    let [total, more, times] = added(rounds, Transport::Tls);
    let in_write =
        rounds.beside(("of that in write", Unit::Nanoseconds), Transport::Tls, |plain, other| {
            median(other, "write") - median(plain, "write")
        });
    let sentence = format!(
        "Over TLS the total is {total}, {more} more than without; {in_write} of that is in the \
         phase write. That is {times} times the plain one, and {:.2} there.",
        original::TOTAL_TLS_NS / original::TOTAL_NS
    );
    Finding::new(
        "tls",
        "TLS adds 15 to 17 µs, all of it in writing: 77 µs.",
        sentence,
        times.is_near(original::TOTAL_TLS_NS / original::TOTAL_NS, SAME_FACTOR),
        [total, more, in_write, times],
    )
}

fn http2(rounds: Rounds<'_>) -> Finding {
    let [total, more, times] = added(rounds, Transport::Http2);
    let tls = added(rounds, Transport::Tls)[2].clone();
    let sentence = format!(
        "HTTP/2 over TLS takes {total}, {more} more than HTTP/1.1 without TLS. That is {times} \
         times the plain one, and {:.2} there.",
        original::TOTAL_HTTP2_NS / original::TOTAL_NS
    );
    let there = original::TOTAL_HTTP2_NS / original::TOTAL_NS;
    let is_near_tls = tls.value().and_then(|tls| times.is_near(tls, SAME_FACTOR));
    Finding::new(
        "http2",
        "HTTP/2 over TLS takes 79 µs, hardly more than HTTP/1.1 over TLS.",
        sentence,
        both(times.is_near(there, SAME_FACTOR), is_near_tls),
        [total, more, times, tls],
    )
}

/// The finding about the cost of the store, which the original did not measure.
fn entities(rounds: Rounds<'_>) -> Finding {
    let of = |operation: Operation| {
        let title = operation.title();
        let of = (operation, TRANSPORTS[0]);
        let total = rounds.of((&format!("{title}, median"), Unit::Nanoseconds), of, &total_median);
        let name = format!("{title}, in the store");
        let store = rounds.of((&name, Unit::Nanoseconds), of, &|run| median(run, "execute"));
        [total, store]
    };
    let ([get, get_store], [put, put_store]) = (of(Operation::Get), of(Operation::Put));
    let sentence = format!(
        "A GET of 100 bytes takes {get}, {get_store} of them in the store, a PUT {put} and \
         {put_store}."
    );
    let original = "The storage engine is not looked at: /_api/version does not touch it.";
    let figures = [get, get_store, put, put_store];
    Finding::new("entities", original, sentence, None, figures).not_asked()
}

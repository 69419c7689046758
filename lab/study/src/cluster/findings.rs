//! Compares the conclusions of the original study with our runs.

use pellucid_report::{Estimate, Finding, Unit, both, either};

use super::load::{LoadKind, P99};
use super::nodes::RoutingVariant;
use super::run::{ClusterRun, Row};
use crate::loads::{has_times, has_work};

/// Forwarding dominates if a forwarded request costs more than this many times a local one.
const EVERYTHING: f64 = 2.5;
/// Three nodes cost more than one if a request costs more than this many times as much.
const MORE: f64 = 1.25;
/// Missing keys are slow if their 99th percentile is above this many times that of present keys.
const SLOW: f64 = 1.2;
/// The largest deviation of a node's share from a third, relative to a third, that counts as even.
const EVEN: f64 = 0.05;

/// A function that returns a figure of a row; `None` if the load's verdict makes it unusable.
type Figure = fn(&Row) -> Option<f64>;

fn processor_ns(row: &Row) -> Option<f64> {
    has_work(&row.loaded.judged).then_some(row.processor_ns)
}

fn p99_ns(row: &Row) -> Option<f64> {
    has_times(&row.loaded.judged).then(|| row.loaded.at(P99))
}

impl ClusterRun {
    /// The ratio of a figure between two loads, estimated over all rounds.
    fn ratio(&self, name: String, of: Figure, pair: [(LoadKind, RoutingVariant); 2]) -> Estimate {
        let ratios = self.rounds.iter().map(|rows| {
            let [one, other] = pair.map(|(work, whose)| {
                of(rows.iter().find(|row| (row.work, row.whose) == (work, whose))?)
            });
            Some(one? / other?)
        });
        Estimate::of_runs(name, Unit::Ratio, ratios)
    }

    fn against(
        &self,
        (name, of): (&str, Figure),
        work: LoadKind,
        pair: [RoutingVariant; 2],
    ) -> Estimate {
        let [one, other] = pair.map(|whose| (work, whose));
        self.ratio(format!("{}: {name}", work.title()), of, [one, other])
    }

    /// The 99th percentile with missing keys divided by that without, estimated over all rounds. Of
    /// each round, the median over the kinds of load is taken.
    fn missing(&self) -> Estimate {
        let ratios = self.rounds.iter().map(|rows| {
            let p99 = |work, whose| {
                p99_ns(rows.iter().find(|row| (row.work, row.whose) == (work, whose))?)
            };
            let of = |whose| Some(p99(LoadKind::GetMissing, whose)? / p99(LoadKind::Get, whose)?);
            let mut ratios: Vec<f64> = RoutingVariant::ALL.into_iter().filter_map(of).collect();
            ratios.sort_by(f64::total_cmp);
            ratios.get(ratios.len() / 2).copied()
        });
        Estimate::of_runs("p99 with missing keys over p99 without", Unit::Ratio, ratios)
    }
}

pub(super) fn findings(measured: &ClusterRun) -> Vec<Finding> {
    vec![forwarding(measured), three_and_one(measured), missing(measured), shares(measured)]
}

fn forwarding(measured: &ClusterRun) -> Finding {
    let pair = [RoutingVariant::Others, RoutingVariant::Own];
    let of =
        |figure| [LoadKind::Put, LoadKind::Get].map(|work| measured.against(figure, work, pair));
    let [put, get] = of(("processor time, forwarded over own", processor_ns));
    let [put_p99, get_p99] = of(("p99, forwarded over own", p99_ns));
    let sentence = format!(
        "A forwarded PUT costs {put} times the processor time of one of the node's own, all nodes \
         together, and a GET {get} times. {}",
        told_percentiles(&put_p99, &get_p99)
    );
    Finding::new(
        "forwarding_is_everything",
        "The local write took 2.67 % of the samples; the client of HTTP that forwards took most \
         of the processor time and 80 % of the allocations.",
        sentence,
        either(put.is_above(EVERYTHING), get.is_above(EVERYTHING)),
        [put, get, put_p99, get_p99],
    )
}

/// A sentence about the ratios of the 99th percentiles, if they differ from one.
fn told_percentiles(put: &Estimate, get: &Estimate) -> String {
    match [put, get].iter().any(|ratio| ratio.is_above(1.0).is_some()) {
        true => format!("p99: {} for PUT, {} for GET.", told_ratio(put), told_ratio(get)),
        false => "No run tells the 99th percentiles apart.".to_owned(),
    }
}

/// The ratio in words, or that it does not differ from one.
fn told_ratio(ratio: &Estimate) -> String {
    match ratio.is_above(1.0) {
        Some(_) => format!("{ratio} times"),
        None => "no difference can be told".to_owned(),
    }
}

fn three_and_one(measured: &ClusterRun) -> Finding {
    let of = |name, whose| {
        let figure = (name, processor_ns as Figure);
        [LoadKind::Put, LoadKind::Get]
            .map(|work| measured.against(figure, work, [whose, RoutingVariant::Alone]))
    };
    let [direct_put, direct_get] =
        of("processor time, each owner directly over one node alone", RoutingVariant::Direct);
    let [put, get] = of("processor time, all keys of one over one node alone", RoutingVariant::All);
    let sentence = format!(
        "Against a node alone, three that share the keys take {direct_put} (PUT) and {direct_get} \
         (GET) times the processor time of a request if each owner is asked directly, and {put} \
         and {get} times if one is asked for all."
    );
    Finding::new(
        "three_cost_more_than_one",
        "Latencies of PUT were higher than those of the node alone before, because of the \
         requests to the other nodes.",
        sentence,
        both(put.is_above(MORE), get.is_above(1.0)),
        [direct_put, direct_get, put, get],
    )
}

fn missing(measured: &ClusterRun) -> Finding {
    let missing = measured.missing();
    Finding::new(
        "missing_keys_are_slow",
        "With 30 % of the keys missing, the 99th percentile of GET was 203 ms instead of 2 ms.",
        match missing.value() {
            Some(_) => format!(
                "With 30 % of the keys missing, the 99th percentile is {missing} times that of \
                 keys that are there, in the middle one of the kinds of load."
            ),
            None => "No run tells the 99th percentile with missing keys and without.".to_owned(),
        },
        missing.is_above(SLOW),
        [missing],
    )
}

fn shares(measured: &ClusterRun) -> Finding {
    let keys: u64 = measured.shares.iter().sum();
    let thirds = measured.shares.iter().map(|share| *share as f64 * 3.0 / keys.max(1) as f64);
    let furthest = thirds.map(|third| (third - 1.0).abs()).fold(0.0, f64::max);
    let furthest = Estimate::counted("furthest from a third", Unit::Share, furthest);
    Finding::new(
        "nodes_share_evenly",
        "Each of the three nodes held about 507 MB of 1.5 GB.",
        format!("No node's share is further than {furthest} from a third."),
        furthest.is_below(EVEN),
        [furthest],
    )
}

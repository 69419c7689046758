//! The way of a request from its intended start to its answer: the steps of client and server in
//! one sequence.
//!
//! Only durations are compared, so no common clock is needed. The time that the server reports lies
//! somewhere between the last byte sent and the first byte received. The rest of that span is
//! network and kernel, in both directions. How it divides between the directions is unknown: the
//! server's part may lie up to half of the rest away from where it is drawn.
//!
//! If both read the same clock, on one machine, the position of the server's part is known, and
//! each direction is a step of its own.

use crate::traces::{Trace, Traces};

/// The names of the client's steps, and of the steps between client and server.
const WAIT: &str = "wait for a connection";
const GENERATOR: &str = "generator";
const CONNECT: &str = "connect";
const TLS: &str = "TLS";
const SEND: &str = "send";
const NETWORK: &str = "network and kernel";
const NETWORK_THERE: &str = "network and kernel, there";
const NETWORK_BACK: &str = "network and kernel, back";
const AWAY: &str = "network, kernel and server";
const RECEIVE: &str = "receive answer";
/// The metric that includes all others, if a server sends it.
const TOTAL: &str = "total";
/// Pellucid's metric for the part of its total that no phase explains; no other server sends it. In
/// Pellucid's account, a metric that is no phase is a part of the phase that it follows.
const UNACCOUNTED: &str = "unaccounted";
/// Pellucid's phases, in their order.
const PHASES: [&str; 8] =
    ["receive", "parse", "route", "queue", "execute", "encode", "write", UNACCOUNTED];
/// The largest time that is lost by rounding in `Server-Timing`, over all metrics.
const ROUNDING_NS: u64 = 2_000;
/// The largest time that rounding adds to one of Pellucid's metrics.
const ROUNDING_EACH_NS: u64 = 500;

/// A step of a way. The steps of one way follow one another.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyStep {
    /// The name; that of a server's step begins with `server: `.
    pub name: String,
    /// The length in nanoseconds; in a mean way, the mean.
    pub ns: f64,
}

/// The way of a request, or the mean way of several.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyBreakdown {
    /// The number of requests that it is the mean of.
    pub requests: u64,
    /// The number of these requests for which the server reported its time.
    pub told: u64,
    /// From the intended start to the whole answer.
    pub response_ns: f64,
    /// The number of these requests for which the position of the server's part is known, by a
    /// clock that both sides read.
    pub placed: u64,
    /// The steps in their order. Steps of length zero are left out.
    pub steps: Vec<LatencyStep>,
    /// The largest possible distance between the server's steps and where they are drawn, in either
    /// direction.
    pub placement_ns: f64,
}

impl LatencyBreakdown {
    /// The way of one request.
    #[must_use]
    pub fn of(trace: &Trace, traces: &Traces) -> LatencyBreakdown {
        let mut steps = Steps::default();
        steps.add(WAIT, trace.wait_ns);
        steps.add(GENERATOR, trace.generator_ns);
        steps.add(CONNECT, trace.connect_ns);
        steps.add(TLS, trace.tls_ns);
        let server = server_steps(trace, traces);
        let mut placement_ns = 0.0;
        let placed = arrival(trace, &server);
        if server.is_empty() {
            steps.add(SEND, trace.send_ns);
            steps.add(AWAY, trace.away_ns);
        } else if let Some(arrival_ns) = placed {
            steps.add_placed(trace, &server, arrival_ns);
        } else {
            placement_ns = steps.add_between(trace, &server);
        }
        steps.add(RECEIVE, trace.receive_ns);
        LatencyBreakdown {
            requests: 1,
            told: u64::from(!trace.server.is_empty()),
            placed: u64::from(placed.is_some()),
            response_ns: trace.response_ns as f64,
            steps: steps.0,
            placement_ns,
        }
    }

    /// The mean way of several requests; `None` without any. If the server reported its time for
    /// only some of them, the mean is over those, because the others cannot be divided.
    #[must_use]
    pub fn mean(requests: &[&Trace], traces: &Traces) -> Option<LatencyBreakdown> {
        let any_told = requests.iter().any(|trace| !trace.server.is_empty());
        let taken = requests.iter().filter(|trace| !any_told || !trace.server.is_empty());
        let ways: Vec<LatencyBreakdown> =
            taken.map(|trace| LatencyBreakdown::of(trace, traces)).collect();
        let count = ways.len() as f64;
        let mut steps: Vec<LatencyStep> = Vec::new();
        for way in &ways {
            // A step that is new is inserted behind the step before it.
            let mut at = 0;
            for step in &way.steps {
                let known = steps.iter().position(|known| known.name == step.name);
                let place = known.unwrap_or_else(|| {
                    steps.insert(at, LatencyStep { name: step.name.clone(), ns: 0.0 });
                    at
                });
                steps[place].ns += step.ns / count;
                at = place + 1;
            }
        }
        let mean = |of: fn(&LatencyBreakdown) -> f64| ways.iter().map(of).sum::<f64>() / count;
        (!ways.is_empty()).then(|| LatencyBreakdown {
            requests: ways.len() as u64,
            told: ways.iter().map(|way| way.told).sum(),
            placed: ways.iter().map(|way| way.placed).sum(),
            response_ns: mean(|way| way.response_ns),
            placement_ns: mean(|way| way.placement_ns),
            steps,
        })
    }

    /// The mean way of the requests around a quantile of the response time: the two percent of the
    /// watched requests that are next to it, or fewer near the ends.
    #[must_use]
    pub fn around(traces: &Traces, quantile: f64) -> Option<LatencyBreakdown> {
        let mut sorted: Vec<&Trace> = traces.some.iter().collect();
        sorted.sort_unstable();
        let count = sorted.len() as f64;
        let beyond = ((1.0 - quantile).clamp(0.0, 0.02) / 2.0).min(quantile / 2.0);
        let half = (count * beyond).max(0.5);
        let middle = (count * quantile).min(count - 0.5);
        let from = (middle - half).floor().max(0.0) as usize;
        let to = ((middle + half).ceil() as usize).clamp(from, sorted.len());
        LatencyBreakdown::mean(&sorted[from..to], traces)
    }
}

#[derive(Default)]
struct Steps(Vec<LatencyStep>);

impl Steps {
    fn add(&mut self, name: &str, ns: u64) {
        if ns > 0 {
            self.0.push(LatencyStep { name: name.to_owned(), ns: ns as f64 });
        }
    }

    /// Adds the server's steps, scaled down to `room_ns` if they are longer.
    fn add_server(&mut self, server: &[(String, u64)], room_ns: u64) {
        let fits = room_ns as f64 / sum_ns(server).max(1) as f64;
        for (name, ns) in server {
            self.add(&format!("server: {name}"), (*ns as f64 * fits.min(1.0)) as u64);
        }
    }

    /// Adds the steps from the send to the first byte of the answer, with a known arrival at the
    /// server.
    fn add_placed(&mut self, trace: &Trace, server: &[(String, u64)], arrival_ns: u64) {
        let room_ns = trace.send_ns + trace.away_ns - arrival_ns;
        // The request may arrive before the call that sends has returned.
        let send_ns = trace.send_ns.min(arrival_ns);
        self.add(SEND, send_ns);
        self.add(NETWORK_THERE, arrival_ns - send_ns);
        self.add_server(server, room_ns);
        self.add(NETWORK_BACK, room_ns.saturating_sub(sum_ns(server)));
    }

    /// Adds the same steps without a known arrival. Returns how far the server's part may lie from
    /// where it is drawn, in nanoseconds.
    fn add_between(&mut self, trace: &Trace, server: &[(String, u64)]) -> f64 {
        let between_ns = trace.send_ns + trace.away_ns;
        let server_ns = sum_ns(server);
        // The server may begin before the call that sends has returned.
        let send_ns = trace.send_ns.min(between_ns.saturating_sub(server_ns));
        let network_ns = between_ns.saturating_sub(server_ns + send_ns);
        self.add(SEND, send_ns);
        self.add(NETWORK, network_ns);
        self.add_server(server, between_ns);
        network_ns as f64 / 2.0
    }
}

fn sum_ns(steps: &[(String, u64)]) -> u64 {
    steps.iter().map(|(_, ns)| ns).sum()
}

/// The time from the send to the arrival at the server, if it is known and plausible: the server's
/// steps must end before the answer was received.
fn arrival(trace: &Trace, server: &[(String, u64)]) -> Option<u64> {
    let between_ns = trace.send_ns + trace.away_ns;
    let rounded_ns = ROUNDING_EACH_NS * server.len() as u64;
    let fits = |at: &u64| {
        *at <= between_ns && at.saturating_add(sum_ns(server)) <= between_ns + rounded_ns
    };
    trace.arrival_ns.filter(|at| !server.is_empty() && fits(at))
}

/// The metrics of the server, as steps that follow one another.
fn server_steps(trace: &Trace, traces: &Traces) -> Vec<(String, u64)> {
    let named = trace.server.iter().filter_map(|(place, ns)| {
        traces.metrics.get(usize::from(*place)).map(|name| (name.as_str(), *ns))
    });
    let named: Vec<(&str, u64)> = named.collect();
    let total = named.iter().find(|(name, _)| *name == TOTAL).map(|(_, ns)| *ns);
    if named.iter().any(|(name, _)| *name == UNACCOUNTED) {
        return own_steps(&named);
    }
    let others: Vec<(&str, u64)> =
        named.iter().filter(|(name, _)| *name != TOTAL).copied().collect();
    let sum: u64 = others.iter().map(|(_, ns)| ns).sum();
    let whole = total.unwrap_or(trace.send_ns + trace.away_ns);
    // Metrics of other servers may overlap: then only the longest one is certain.
    if !others.is_empty() && sum <= whole + ROUNDING_NS {
        let rest = total.map_or(0, |total| total.saturating_sub(sum));
        let steps = others.into_iter().chain([("other", rest)]);
        return steps.map(|(name, ns)| (name.to_owned(), ns)).collect();
    }
    let longest = others.into_iter().max_by_key(|(_, ns)| *ns);
    let sure = total.map(|ns| (TOTAL, ns)).or(longest);
    sure.map(|(name, ns)| (name.to_owned(), ns)).into_iter().collect()
}

/// Pellucid's phases, each divided into the parts that follow it.
fn own_steps(named: &[(&str, u64)]) -> Vec<(String, u64)> {
    let named: Vec<&(&str, u64)> = named.iter().filter(|(name, _)| *name != TOTAL).collect();
    let mut steps = Vec::new();
    for phase in named.chunk_by(|_, (name, _)| !PHASES.contains(name)) {
        let Some(((name, ns), parts)) = phase.split_first() else { continue };
        let parts_ns: u64 = parts.iter().map(|(_, ns)| ns).sum();
        let fits = (*ns as f64 / parts_ns.max(1) as f64).min(1.0);
        for (part, part_ns) in parts {
            steps.push((format!("{name}, {part}"), (*part_ns as f64 * fits) as u64));
        }
        steps.push(((*name).to_owned(), ns.saturating_sub(parts_ns)));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traces(metrics: &[&str]) -> Traces {
        let metrics = metrics.iter().map(|name| (*name).to_owned()).collect();
        Traces { metrics, ..Traces::default() }
    }

    /// A request of 100 µs, 70 of them between the first byte sent and the first byte received.
    fn trace(server: &[u64]) -> Trace {
        Trace {
            response_ns: 100_000,
            wait_ns: 20_000,
            generator_ns: 5_000,
            send_ns: 10_000,
            away_ns: 60_000,
            receive_ns: 5_000,
            server: server.iter().enumerate().map(|(place, ns)| (place as u16, *ns)).collect(),
            ..Trace::default()
        }
    }

    fn told(way: &LatencyBreakdown) -> Vec<(&str, u64)> {
        let sum: f64 = way.steps.iter().map(|step| step.ns).sum();
        assert!((sum - way.response_ns).abs() < 2.0, "the steps add up: {way:?}");
        way.steps.iter().map(|step| (step.name.as_str(), step.ns as u64)).collect()
    }

    #[test]
    fn without_server_timing_only_the_clients_steps_are_known() {
        let way = LatencyBreakdown::of(&trace(&[]), &traces(&[]));
        let expected =
            [(WAIT, 20_000), (GENERATOR, 5_000), (SEND, 10_000), (AWAY, 60_000), (RECEIVE, 5_000)];
        assert_eq!(told(&way), expected);
        assert_eq!((way.told, way.placement_ns), (0, 0.0));
    }

    #[test]
    fn pellucids_phases_and_parts_stand_between_network_and_answer() {
        let of_execute = ["execute", "ledger", "journal_read"];
        let names =
            [&["receive", "decrypt", "parse"], &of_execute[..], &["total", UNACCOUNTED]].concat();
        let told_ns = [4_000, 1_500, 6_000, 20_000, 5_000, 7_000, 30_000, 4_000];
        let way = LatencyBreakdown::of(&trace(&told_ns), &traces(&names));
        let server: Vec<_> =
            told(&way).into_iter().filter(|(name, _)| name.starts_with("server")).collect();
        let expected = [
            ("server: receive, decrypt", 1_500),
            ("server: receive", 2_500),
            ("server: parse", 6_000),
            ("server: execute, ledger", 5_000),
            ("server: execute, journal_read", 7_000),
            ("server: execute", 8_000),
            ("server: unaccounted", 4_000),
        ];
        assert_eq!(server, expected);
        // 70 from the first byte sent to the first received, 10 of it sending, 34 the server's.
        assert_eq!(told(&way)[3], (NETWORK, 26_000));
        assert!((way.placement_ns - 13_000.0).abs() < 1.0);
    }

    /// On one machine, the step of network and kernel is divided by direction, without uncertainty.
    /// A reading that cannot be true changes nothing.
    #[test]
    fn a_common_clock_separates_the_two_directions() {
        let metrics = traces(&["receive", "execute", "total", UNACCOUNTED]);
        let told_ns = [4_000, 30_000, 30_000, 0];
        let at = |arrival_ns| Trace { arrival_ns, ..trace(&told_ns) };
        let apart = LatencyBreakdown::of(&at(None), &metrics);
        assert_eq!((told(&apart)[3], apart.placement_ns), ((NETWORK, 26_000), 13_000.0));
        let placed = LatencyBreakdown::of(&at(Some(22_000)), &metrics);
        let steps = told(&placed);
        assert_eq!(steps[2..4], [(SEND, 10_000), (NETWORK_THERE, 12_000)]);
        assert_eq!(steps[4].0, "server: receive");
        assert_eq!(steps[6], (NETWORK_BACK, 14_000));
        assert_eq!((placed.placed, placed.placement_ns), (1, 0.0));
        let early = LatencyBreakdown::of(&at(Some(6_000)), &metrics);
        assert_eq!(told(&early)[2..4], [(SEND, 6_000), ("server: receive", 4_000)]);
        let rounded = LatencyBreakdown::of(&at(Some(36_500)), &metrics);
        assert_eq!(rounded.placed, 1, "half a microsecond is of the decimals");
        told(&rounded);
        for impossible in [37_501, 71_000, u64::MAX] {
            assert_eq!(
                LatencyBreakdown::of(&at(Some(impossible)), &metrics),
                apart,
                "{impossible}"
            );
        }
        let silent = Trace { arrival_ns: Some(10), ..trace(&[]) };
        assert_eq!(LatencyBreakdown::of(&silent, &traces(&[])).placed, 0);
    }

    #[test]
    fn implausible_metrics_of_other_servers_are_reduced() {
        let steps = |names: &[&str], ns: &[u64]| {
            let way = LatencyBreakdown::of(&trace(ns), &traces(names));
            told(&way)
                .iter()
                .filter(|(name, _)| name.starts_with("server"))
                .map(|(n, ns)| (n.trim_start_matches("server: ").to_owned(), *ns))
                .collect::<Vec<_>>()
        };
        let pair = |name: &str, ns| (name.to_owned(), ns);
        assert_eq!(
            steps(&["db", "app"], &[30_000, 20_000]),
            [pair("db", 30_000), pair("app", 20_000)]
        );
        assert_eq!(
            steps(&["db", "total"], &[30_000, 40_000]),
            [pair("db", 30_000), pair("other", 10_000)]
        );
        // The metrics overlap, or are longer than the time there was.
        assert_eq!(steps(&["app", "db"], &[60_000, 50_000]), [pair("app", 60_000)]);
        assert_eq!(steps(&["total"], &[90_000]), [pair("total", 70_000)]);
    }

    #[test]
    fn the_mean_around_a_quantile_is_of_the_requests_there() {
        let mut traces = traces(&["db"]);
        for number in 1..=1_000_u64 {
            let slow = number > 980;
            let wait_ns = if slow { 900_000 } else { number };
            let server = vec![(0, 1_000)];
            let away_ns = 10_000;
            let response_ns = wait_ns + away_ns;
            traces.some.push(Trace { response_ns, wait_ns, away_ns, server, ..Trace::default() });
        }
        let median = LatencyBreakdown::around(&traces, 0.5).unwrap();
        assert!((median.response_ns - 10_500.0).abs() < 20.0 && median.requests >= 10);
        told(&median);
        let tail = LatencyBreakdown::around(&traces, 0.99).unwrap();
        assert_eq!((told(&tail)[0], tail.requests >= 5), ((WAIT, 900_000), true));
        let most = LatencyBreakdown::around(&traces, 1.0).unwrap();
        assert_eq!(most.requests, 1);
        assert_eq!(LatencyBreakdown::around(&Traces::default(), 0.5), None);
    }
}

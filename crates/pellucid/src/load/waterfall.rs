//! A waterfall chart: the steps of a request from its intended start to its answer, those of client
//! and server in one bar.
//!
//! The bars stack means, because means add up. The server's phases come from its accounts of all
//! operations. The rest of the service time was spent between the two: in the network, in the
//! kernel, and waiting for a core.

use pellucid_account::OperationAccount;
use pellucid_load::LoadResult;
use pellucid_report::{Chart, ChartForm, Series, Unit};

/// The server's phases with a part of their own in the bar, and the names of those parts.
const PHASES: [(&str, &str); 4] = [
    ("receive", "server: receive"),
    ("queue", "server: queue"),
    ("execute", "server: execute"),
    ("write", "server: write"),
];
/// The name of the service time where the server has no account, so that it cannot be divided.
const UNDIVIDED: &str = "service time";

/// A part of a bar: its name and its mean in nanoseconds.
type Part = (&'static str, f64);

/// Makes the chart, with a bar for each run and its accounts.
pub(crate) fn waterfall(runs: &[(&LoadResult, &[OperationAccount])]) -> Chart {
    let bars: Vec<Vec<Part>> = runs.iter().map(|(run, accounts)| parts(run, accounts)).collect();
    let mut names: Vec<&str> = Vec::new();
    // The undivided service time follows all steps.
    let divided = bars.iter().filter(|bar| !is_undivided(bar));
    for (name, _) in divided.chain(&bars).flatten() {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let of = |bar: &[Part], wanted: &str| {
        bar.iter().find(|(name, _)| *name == wanted).map(|(_, mean_ns)| *mean_ns)
    };
    let series =
        names.iter().map(|name| Series::new(*name, bars.iter().map(|bar| of(bar, name)).collect()));
    let rows = runs.iter().map(|(run, _)| format!("{} connections", run.load.connections));
    Chart::new(
        (
            "waterfall",
            "The way of a request",
            "Mean times from the intended start to the whole answer; means add up. What lies \
             between client and server is what is left of the service time.",
        ),
        Unit::Nanoseconds,
        ChartForm::Bars { rows: rows.collect() },
        series,
    )
}

fn is_undivided(bar: &[Part]) -> bool {
    bar.last().is_some_and(|(name, _)| *name == UNDIVIDED)
}

/// The parts of a bar.
fn parts(run: &LoadResult, accounts: &[OperationAccount]) -> Vec<Part> {
    let LoadResult { load, times, .. } = run;
    let service_ns = times.service.mean();
    let connect_ns = if load.keep_alive { 0.0 } else { times.connect.mean() };
    let mut parts = vec![
        ("wait for a connection", times.connection_wait.mean()),
        ("generator", times.generator_delay.mean()),
        ("connect", connect_ns),
    ];
    let requests: u64 = accounts.iter().map(|account| account.count).sum();
    if requests == 0 {
        parts.push((UNDIVIDED, service_ns));
        return parts;
    }
    // The mean of all operations, as the service time is.
    let mean = |of: &dyn Fn(&OperationAccount) -> f64| {
        let sums = accounts.iter().map(|account| account.count as f64 * of(account));
        sums.sum::<f64>() / requests as f64
    };
    let mean_of = |wanted: &str| {
        mean(&|account| {
            let phase = account.phases.iter().find(|phase| phase.name == wanted);
            phase.map_or(0.0, |phase| phase.distribution.mean_ns)
        })
    };
    // An account's total starts after the receive phase.
    let server_ns = mean_of("receive") + mean(&|account| account.total.mean_ns);
    let own = PHASES.map(|(phase, name)| (name, mean_of(phase)));
    let other_ns = server_ns - own.iter().map(|(_, mean_ns)| mean_ns).sum::<f64>();
    parts.push(("network and kernel", (service_ns - server_ns).max(0.0)));
    parts.extend(own);
    parts.push(("server: other", other_ns.max(0.0)));
    parts
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pellucid_account::{Distribution, EngineWork, NamedDistribution};
    use pellucid_load::simulation::{HttpServer, Reply, Simulation};
    use pellucid_load::{Limit, LoadOptions, Target, run};

    use super::*;

    fn account(count: u64, total_ns: u64) -> OperationAccount {
        let constant = |mean_ns| Distribution { count, mean_ns, ..Distribution::default() };
        let named = |(name, share): (&str, f64)| NamedDistribution {
            name: name.to_owned(),
            distribution: constant(total_ns as f64 * share),
        };
        OperationAccount {
            operation: "entity_get".to_owned(),
            outcome: "ok".to_owned(),
            count,
            total: constant(total_ns as f64),
            phases: [("receive", 0.0), ("execute", 0.75)].map(named).to_vec(),
            loop_wait: Distribution::default(),
            transport_parts: Vec::new(),
            parts: Vec::new(),
            around: Vec::new(),
            engine: EngineWork::default(),
        }
    }

    /// Regression: the server's time of one operation was set against the service time of all, and
    /// the service time of a run without an account was called network and kernel.
    #[test]
    fn the_bars_are_means_of_all_operations() {
        let server = HttpServer::new(|_| Reply::ok().after(Duration::from_millis(5)));
        let target = Target::parse("http://simulated/").unwrap();
        let options = LoadOptions {
            simulation: Some(Simulation::new(server)),
            limit: Limit::Requests(100),
            threads: 1,
            ..LoadOptions::new(target)
        };
        let result = run(&options, &mut |_| {}).unwrap();
        let accounts = [account(300, 1_000_000), account(100, 5_000_000)];
        let chart = waterfall(&[(&result, &[]), (&result, &accounts)]);
        let of = |name: &str| {
            let series = chart.series.iter().find(|series| series.name == name).unwrap();
            series
                .values
                .iter()
                .map(|ns| ns.map(|ns| (ns / 1e5).round() / 10.0))
                .collect::<Vec<_>>()
        };
        assert_eq!(of("network and kernel"), [None, Some(3.0)]);
        assert_eq!(of("server: execute"), [None, Some(1.5)]);
        assert_eq!(of("server: other"), [None, Some(0.5)]);
        assert_eq!(of("service time"), [Some(5.0), None]);
    }
}

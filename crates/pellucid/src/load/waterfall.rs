//! A waterfall chart: the steps of a request from its intended start to its answer, those of client
//! and server in one bar.
//!
//! The bars stack means, because means add up. The server's phases come from its account. The rest
//! of the service time was spent between the two: in the network, in the kernel, and waiting for a
//! core.

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

/// Makes the chart, with a bar for each run.
pub(crate) fn waterfall(runs: &[(&LoadResult, Option<&OperationAccount>)]) -> Chart {
    let with_account = runs.iter().any(|(_, account)| account.is_some());
    let mut names = vec!["wait for a connection", "generator", "connect"];
    match with_account {
        true => {
            names.push("network and kernel");
            names.extend(PHASES.iter().map(|(_, name)| *name));
            names.push("server: other");
        }
        false => names.push("service time"),
    }
    let bars: Vec<Vec<f64>> =
        runs.iter().map(|(run, account)| parts(run, *account, with_account)).collect();
    let series = names.iter().enumerate().map(|(place, name)| {
        Series::new(*name, bars.iter().map(|bar| bar.get(place).copied()).collect())
    });
    Chart {
        name: "waterfall".to_owned(),
        title: "The way of a request".to_owned(),
        how_to_read: "Mean times from the intended start to the whole answer; means add up. What \
                      lies between client and server is what is left of the service time."
            .to_owned(),
        unit: Unit::Nanoseconds,
        form: ChartForm::Bars {
            rows: runs
                .iter()
                .map(|(run, _)| format!("{} connections", run.load.connections))
                .collect(),
        },
        series: series.collect(),
        moments: Vec::new(),
        spans: Vec::new(),
    }
}

/// The parts of a bar in nanoseconds.
fn parts(run: &LoadResult, account: Option<&OperationAccount>, with_account: bool) -> Vec<f64> {
    let LoadResult { load, times, .. } = run;
    let service_ns = times.service.mean();
    let connect_ns = if load.keep_alive { 0.0 } else { times.connect.mean() };
    let mut parts = vec![times.connection_wait.mean(), times.generator_delay.mean(), connect_ns];
    let Some(account) = account else {
        // Without an account, the service time cannot be divided further.
        parts.push(service_ns);
        return parts;
    };
    assert!(with_account, "the chart has names for the server's phases");
    let mean_of = |wanted: &str| {
        let phase = account.phases.iter().find(|phase| phase.name == wanted);
        phase.map_or(0.0, |phase| phase.distribution.mean_ns)
    };
    let own: Vec<f64> = PHASES.iter().map(|(phase, _)| mean_of(phase)).collect();
    // The account's total starts after the receive phase.
    let server_ns = mean_of("receive") + account.total.mean_ns;
    let other_ns = server_ns - own.iter().sum::<f64>();
    parts.push((service_ns - server_ns).max(0.0));
    parts.extend(own);
    parts.push(other_ns.max(0.0));
    parts
}

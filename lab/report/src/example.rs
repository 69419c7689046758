//! An account with round figures, for the tests of all views.

use pellucid_account::{
    Distribution, EngineWork, NamedDistribution, OperationAccount, QuantileBreakdown, Share,
};

const PHASES: [&str; 8] =
    ["receive", "parse", "route", "queue", "execute", "encode", "write", "unaccounted"];

/// A distribution in which all values are the same.
pub(crate) fn constant(count: u64, value_ns: u64) -> Distribution {
    Distribution {
        count,
        // As it is read from JSON, which has no sum.
        sum_ns: 0,
        min_ns: value_ns,
        q1_ns: value_ns,
        mean_ns: value_ns as f64,
        q3_ns: value_ns,
        max_ns: value_ns,
        p50_ns: value_ns,
        p90_ns: value_ns,
        p99_ns: value_ns,
        p99_9_ns: value_ns,
        p99_99_ns: value_ns,
        log2: vec![(1 << value_ns.max(1).ilog2(), count)],
        buckets: Vec::new(),
    }
}

fn share(name: &str, mean_ns: f64, total_ns: f64) -> Share {
    Share { name: name.to_owned(), mean_ns, share: mean_ns / total_ns }
}

fn around(quantile: f64, write_ns: f64) -> QuantileBreakdown {
    let phases_ns = [1e3, 1e3, 0.0, 6e3, 1e3, write_ns, 1e3];
    let total_ns: f64 = phases_ns.iter().sum();
    let named = PHASES[1..].iter().zip(phases_ns);
    QuantileBreakdown {
        quantile,
        count: 20,
        total_mean_ns: total_ns,
        phases: named.map(|(name, mean_ns)| share(name, mean_ns, total_ns)).collect(),
        receive_mean_ns: 1e3,
        transport_parts: Vec::new(),
        parts: vec![share("look_up", 4e3, total_ns), share("value_read", 2e3, total_ns)],
    }
}

/// An account of 1,000 requests of 20 µs each, of which 10 µs are in `write`. Around p99, writing
/// takes 30 µs.
pub(crate) fn account() -> OperationAccount {
    let durations_ns = [1_000, 1_000, 1_000, 0, 6_000, 1_000, 10_000, 1_000];
    let named = |name: &str, count, value_ns| NamedDistribution {
        name: name.to_owned(),
        distribution: constant(count, value_ns),
    };
    let phases = PHASES.iter().zip(durations_ns);
    let mut total = constant(1_000, 20_000);
    total.p99_ns = 40_000;
    total.max_ns = 40_000;
    total.buckets = vec![(19_968, 20_095, 980), (39_936, 40_191, 20)];
    OperationAccount {
        operation: "entity_get".to_owned(),
        outcome: "ok".to_owned(),
        count: 1_000,
        total,
        phases: phases.map(|(name, value_ns)| named(name, 1_000, value_ns)).collect(),
        loop_wait: constant(1_000, 500),
        transport_parts: Vec::new(),
        parts: vec![named("look_up", 1_000, 4_000), named("value_read", 500, 4_000)],
        around: vec![around(0.5, 10e3), around(0.99, 30e3)],
        engine: EngineWork::default(),
    }
}

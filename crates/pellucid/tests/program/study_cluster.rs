//! Tests of `pellucid study cluster`: a tiny run has every chart, with figures in it.

use crate::common::charts::Charts;
use crate::common::profile_checks::{every_load_has_a_verdict, has_three_profiles_of_each};
use crate::common::study;
use serde_json::Value;

/// The names of the kinds of loads in rows and columns.
const LOADS: [&str; 5] = [
    "one node alone",
    "three, each owner directly",
    "three, keys of the one asked",
    "three, all forwarded",
    "three, all keys of one",
];

fn figures(series: &Value) -> Vec<f64> {
    series["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

#[test]
fn a_tiny_cluster_study_has_every_chart_with_figures() {
    let (report, _folder, out) = study("cluster", &[]);
    assert_eq!(report["findings"].as_array().unwrap().len(), 4);
    let charts = Charts::of(&report);
    let series = |name: &str| charts.chart(name)["series"].as_array().unwrap();
    for work in ["put", "get", "get_missing"] {
        assert_eq!(charts.rows(&format!("{work}_times")), LOADS);
        for load in series(&format!("{work}_times")) {
            let figures = figures(load);
            assert!(figures.iter().all(|figure| *figure > 0.0), "{load}");
            assert!(figures[..8].is_sorted(), "percentiles grow: {load}");
        }
        for load in series(&format!("{work}_histogram")) {
            let sum: f64 = figures(load).iter().sum();
            assert!((sum - 1.0).abs() < 1e-6, "the bars of a load are all of it: {sum}");
        }
        let curves = series(&format!("{work}_curves"));
        assert!(curves.len() == LOADS.len() && curves.iter().all(|of| figures(of).is_sorted()));
        let parts = charts.rows(&format!("{work}_account"));
        for part in ["peer_wait", "network", "owner_queue", "write"] {
            assert!(parts.contains(&part), "{part}: {parts:?}");
        }
    }
    every_load_has_a_verdict(&report, LOADS.len() * 3);
    let shares = series("shares");
    let keys: f64 = shares.iter().map(|series| figures(series)[0]).sum();
    assert_eq!((shares.len(), keys), (3, 20_000.0));
    let loads = ["PUT", "GET", "GET, 30 % missing"];
    has_three_profiles_of_each(&report, &loads.map(|work| format!("{work}, three, all forwarded")));
    for file in ["cluster.html", "cluster.json"] {
        assert!(out.join(file).metadata().unwrap().len() > 10_000, "{file}");
    }
}

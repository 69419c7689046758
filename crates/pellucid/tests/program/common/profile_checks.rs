//! Checks of the profiles and verdicts that the report of every study has.

use serde_json::Value;

const KINDS: [&str; 3] =
    ["processor time", "allocations", "waits for locks and conditions, by who waited"];

/// Checks that the report has three profiles of each of these loads, and no others. The name is
/// empty in a study that profiles only one load.
pub(crate) fn has_three_profiles_of_each(report: &Value, loads: &[String]) {
    let profiles = report["profiles"].as_array().unwrap();
    let titles: Vec<String> =
        profiles.iter().map(|profile| profile["title"].as_str().unwrap().to_lowercase()).collect();
    let expected = loads.iter().flat_map(|load| {
        let before = if load.is_empty() { String::new() } else { format!("{load}: ") };
        KINDS.map(|kind| format!("{before}{kind}").to_lowercase())
    });
    assert_eq!(titles, expected.collect::<Vec<_>>(), "{}", report["notes"]);
    for profile in profiles.iter().step_by(KINDS.len()).filter(|profile| !has_few(profile)) {
        let shares = profile["shares"].as_array().unwrap();
        let sum: f64 = shares.iter().map(|share| share["share"].as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{}: the shares are all of it: {sum}", profile["title"]);
        let is_labelled = |share: &Value| share["phase"] != "unlabelled";
        assert!(shares.iter().any(is_labelled), "{}: {shares:?}", profile["title"]);
        assert!(!profile["stacks"].as_array().unwrap().is_empty(), "{}", profile["title"]);
    }
}

/// Returns the number of loads whose profiles say that they have too few samples of processor time.
/// A fast processor may finish a few hundred requests before the first sample.
pub(crate) fn with_few_samples(report: &Value) -> usize {
    let profiles = report["profiles"].as_array().unwrap();
    profiles.iter().filter(|profile| has_few(profile)).count()
}

fn has_few(profile: &Value) -> bool {
    let notes = profile["notes"].as_array();
    notes.is_some_and(|notes| notes.iter().any(|note| note.as_str().unwrap().contains("a hint")))
}

/// Returns the names of the loads of a study that profiles only one: the empty name.
pub(crate) fn one_load() -> Vec<String> {
    vec![String::new()]
}

/// Checks that there are at least `at_least` loads, that each has a verdict with its evidence, and
/// that each judged finding has a figure from a count or from at least three runs.
pub(crate) fn every_load_has_a_verdict(report: &Value, at_least: usize) {
    let loads = report["loads"].as_array().unwrap();
    assert!(loads.len() >= at_least, "{} loads, not {at_least}", loads.len());
    for load in loads {
        let [verdict, evidence] = ["verdict", "evidence"].map(|name| load[name].as_str().unwrap());
        assert!(!verdict.is_empty() && !evidence.is_empty() && load["run"] != 0, "{load}");
    }
    for finding in report["findings"].as_array().unwrap() {
        let figures = finding["figures"].as_array().unwrap();
        assert!(!figures.is_empty(), "{finding}");
        let is_enough = |figure: &Value| {
            let values = figure["values"].as_array().unwrap().len();
            figure["source"] == "count" && values == 1 || values >= 3
        };
        let is_judged = ["confirmed", "not_confirmed"].iter().any(|of| finding["judgement"] == *of);
        assert!(!is_judged || figures.iter().any(is_enough), "{finding}");
    }
    let answer = report["answer"].as_array().unwrap();
    assert!((1..=5).contains(&answer.len()) && report["picture"].is_object(), "{answer:?}");
}

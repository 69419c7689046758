//! Tests with runs whose difference is known.

use super::*;

/// A run of 100 stretches; `time_us` gives the response time of request n of stretch s.
fn run(time_us: impl Fn(u64, u64) -> u64) -> ComparedRun {
    let mut response_time = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
    let mut timeline = Vec::new();
    for stretch in 0..100 {
        let mut times: Vec<(u64, u64)> =
            (0..200).map(|request| (time_us(stretch, request) * 1_000, 1)).collect();
        times.sort_unstable();
        times.iter().for_each(|(time_ns, _)| response_time.record(*time_ns).unwrap());
        timeline.push(TimelineInterval {
            response_times: times,
            answered: 200,
            ..TimelineInterval::default()
        });
    }
    ComparedRun {
        response_time,
        timeline,
        throughput_per_second: 10_000.0,
        error_share: 0.0,
        phases: vec![("parse".to_owned(), 1_000.0), ("queue".to_owned(), 2_000.0)],
        steps: vec![("send".to_owned(), 500.0), ("network".to_owned(), 5_000.0)],
        verdict: Some("stable".to_owned()),
        ended_early: None,
    }
}

/// Times around 1 ms, spread without a pattern.
fn noise(stretch: u64, request: u64) -> u64 {
    900 + (stretch * 7_919 + request * 104_729) % 211
}

#[test]
fn the_same_work_has_not_changed() {
    let comparison = compare(&run(noise), &run(|s, r| noise(s + 13, r + 5)), &[]);
    for delta in &comparison.quantiles {
        assert_eq!(delta.direction(), Change::Same, "{delta:?}");
        assert!(delta.change.low <= delta.change.value && delta.change.value <= delta.change.high);
    }
    assert!(comparison.sentence.contains("did not change beyond chance"));
    let bars = Bars::parse("p99>+1%,p50>+1%,throughput<-1%,errors>0%").unwrap();
    assert!(bars.crossed(&comparison).is_empty());
}

#[test]
fn a_tail_that_grew_is_found_and_the_median_is_unchanged() {
    let slower = |s, r| if r % 40 == 3 { noise(s, r) * 3 } else { noise(s, r) };
    let mut after = run(slower);
    after.phases[1].1 = 40_000.0;
    after.throughput_per_second = 9_000.0;
    let comparison = compare(&run(noise), &after, &[]);
    let at = |q: f64| comparison.quantiles.iter().find(|delta| delta.quantile == q).unwrap();
    assert_eq!((at(0.5).direction(), at(0.99).direction()), (Change::Same, Change::Rose));
    assert!(at(0.99).change.low > 1.0, "{:?}", at(0.99));
    assert_eq!(comparison.phases[0].name, "queue");
    for word in ["p99 rose by", "p50 did not change", "Throughput fell by 10 %", "'queue'"] {
        assert!(comparison.sentence.contains(word), "{word}: {}", comparison.sentence);
    }
    let crossed = |bars| Bars::parse(bars).unwrap().crossed(&comparison).len();
    assert_eq!(crossed("p99>+10%"), 1);
    assert_eq!(crossed("p99 > 2ms, p50 > 2ms"), 1);
    assert_eq!(crossed("throughput<-5%,throughput<8000"), 1);
    assert_eq!(crossed("p99<-10%,max>10s,mean>+300%"), 0);
    assert_eq!(crossed("p99.999>+1%"), 1, "what cannot be told must not pass");
}

/// The same number of slow requests, spread over the run or all in one stretch: in one stretch they
/// may be chance, and only blocks of time show that.
#[test]
fn one_bad_interval_is_less_certain_than_a_slow_run() {
    let spread = run(|s, r| if (s * 200 + r) % 50 == 0 { 5_000 } else { noise(s, r) });
    let bunched = run(|s, r| if s < 2 { 5_000 } else { noise(s, r) });
    let width = |after: &ComparedRun| {
        let comparison = compare(&run(noise), after, &[]);
        let delta = comparison.quantiles.iter().find(|delta| delta.quantile == 0.99).unwrap();
        (delta.change.high - delta.change.low, delta.direction())
    };
    assert_eq!(width(&spread).1, Change::Rose);
    assert_eq!(width(&bunched).1, Change::Same);
    assert!(width(&bunched).0 > 10.0 * width(&spread).0);
}

#[test]
fn runs_without_a_timeline_or_answers_are_compared_as_far_as_it_goes() {
    let mut bare = run(noise);
    bare.timeline.clear();
    let mut slow = run(|s, r| noise(s, r) * 2);
    slow.timeline.clear();
    let comparison = compare(&bare, &slow, &[]);
    // Without a timeline, nothing is known about the uncertainty of the maximum.
    let mut within = comparison.quantiles.iter().filter(|delta| delta.quantile < 1.0);
    assert!(within.all(|delta| delta.direction() == Change::Rose));
    slow.response_time.clear();
    slow.verdict = Some("saturated".to_owned());
    let comparison = compare(&bare, &slow, &[]);
    assert!(comparison.quantiles.is_empty());
    assert!(comparison.sentence.contains("the second run was saturated"));
}

#[test]
fn bars_that_cannot_be_read_say_what_is_allowed() {
    for text in ["", "p99", "p99>", "p99>10%", "p99>+x%", "q>+1%", "p200>+1%", "errors>3", "mean<5"]
    {
        let error = Bars::parse(text).unwrap_err();
        assert!(error.contains("p99>+10%"), "{text}: {error}");
    }
    assert!(Bars::parse(&"p99>+1%,".repeat(100)).is_err());
}

/// Regression: a bar for p95 failed whatever the runs were, because p95 was not among the six
/// quantiles.
#[test]
fn a_bar_of_any_quantile_is_judged() {
    let (before, after) = (run(noise), run(|s, r| noise(s, r) * 2));
    let bars = Bars::parse("p95>+10%,p12.5>+10%,p99.97>+10%,p100>+10%,p95>1s").unwrap();
    let same = compare(&before, &before, &bars.quantiles());
    assert_eq!(bars.crossed(&same), Vec::<String>::new());
    let crossed = bars.crossed(&compare(&before, &after, &bars.quantiles()));
    let names: Vec<&str> = crossed.iter().map(|text| text.split('>').next().unwrap()).collect();
    assert_eq!(names[..3], ["p95", "p12.5", "p99.97"], "{crossed:?}");
}

#[test]
fn the_curve_rises_and_each_point_has_a_confidence_interval() {
    let comparison = compare(&run(noise), &run(|s, r| noise(s, r) + 50), &[0.95, 0.333]);
    let quantiles: Vec<f64> = comparison.quantiles.iter().map(|delta| delta.quantile).collect();
    assert!(quantiles.len() > 20 && quantiles.is_sorted(), "{quantiles:?}");
    assert_eq!(quantiles.iter().filter(|q| (**q - 0.95).abs() < 1e-6).count(), 1);
    for pair in comparison.quantiles.windows(2) {
        assert!(pair[0].before_ns.value <= pair[1].before_ns.value, "{pair:?}");
    }
    for delta in &comparison.quantiles {
        let ConfidenceInterval { value, low, high } = delta.after_ns;
        assert!(low <= value && value <= high, "{delta:?}");
    }
}

/// Other servers keep no account: then the client's steps are compared.
#[test]
fn without_phases_of_both_servers_the_way_is_compared() {
    let (mut before, mut after) = (run(noise), run(noise));
    assert_eq!(compare(&before, &after, &[]).phases_of, PhaseSource::Server);
    before.phases.clear();
    after.steps[1].1 = 9_000.0;
    let comparison = compare(&before, &after, &[]);
    assert_eq!((comparison.phases_of, comparison.phases.len()), (PhaseSource::Way, 2));
    assert_eq!(comparison.phases[0].name, "network");
    let expected = "Of the steps of a request around p50, 'network' changed most";
    assert!(comparison.sentence.contains(expected), "{}", comparison.sentence);
}

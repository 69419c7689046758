//! The search for the highest rate, over whole runs against a server of known capacity, in virtual
//! time. The tests of the command check that it drives the search in the same way.

use std::time::Duration;

use crate::support::{ServerCapacity, load, paced_in};
use pellucid_load::simulation::Simulation;
use pellucid_load::{Knee, KneeSearch, Objectives, SearchOptions, Step};

fn search(bucket: ServerCapacity, slo: &str) -> Knee {
    let simulation = Simulation::new(bucket.server());
    let objectives = Objectives::parse(slo).unwrap();
    let mut search = KneeSearch::new(SearchOptions {
        start_per_second: 125.0,
        repeats: 2,
        ..SearchOptions::default()
    });
    loop {
        match search.step() {
            Step::Try { rate_per_second, confirm } => {
                let seconds = if confirm { 30 } else { 4 };
                let options = paced_in(&simulation, rate_per_second.round() as u64, 32, seconds);
                search.report(objectives.check(&load(&options)).is_ok());
                // The rest of the backlog drains before the next trial.
                options.pause(Duration::from_secs(30));
            }
            Step::Done(knee) => return knee,
        }
    }
}

#[test]
fn a_known_capacity_is_found_within_five_percent() {
    for capacity in [317, 1_000] {
        let knee = search(ServerCapacity::of(capacity), "p99=20ms");
        let ratio = knee.median_per_second().unwrap() / f64::from(capacity);
        assert!((0.95..=1.05).contains(&ratio), "{ratio} of {capacity}");
        let (least, greatest) = knee.spread_per_second();
        assert!(greatest / least < 1.05, "{knee:?}");
    }
}

/// An objective can be missed below the capacity: from half of it on, one request in fifty takes 50
/// ms.
#[test]
fn an_objective_that_is_missed_before_the_capacity_decides() {
    let bucket = ServerCapacity { slow_above_per_second: Some(500), ..ServerCapacity::of(1_000) };
    let found = search(bucket, "p99=20ms").median_per_second().unwrap();
    assert!((475.0..=525.0).contains(&found), "{found}");
}

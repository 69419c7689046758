//! `bench death`: one of three nodes is killed or hangs under load. Measures the effect on requests
//! for the keys of the other nodes, the answers to requests for its own keys, and the time until it
//! is back.

mod round;
mod samples;

use self::round::{NodeFailure, Round, round};
use crate::RunSettings;
use crate::bars::{Bar, judge};
use crate::peers::{CLUSTER_WAIT, LOAD_CORE, pin_to};
use crate::quiet_rounds::rounds;

/// Runs rounds in which a node falls, for each kind of fall; returns for each bar whether it holds.
pub fn run(effort: RunSettings) -> Result<Vec<bool>, String> {
    pin_to(LOAD_CORE)?;
    let mut held = Vec::new();
    for fall in NodeFailure::ALL {
        held.extend(run_one(fall, effort)?);
    }
    Ok(held)
}

fn run_one(fall: NodeFailure, effort: RunSettings) -> Result<Vec<bool>, String> {
    let mut faults = Faults::default();
    let figures = rounds(effort.runs.div_ceil(3), |_| {
        let figures = round(fall)?;
        println!("{}: {figures}", fall.title());
        // Faults are counted here, because `rounds` drops rounds that the host disturbed. Such a
        // round is run again for its times, but no disturbance excuses a wrong answer.
        faults.add(&figures);
        Ok(figures)
    })?;
    let all = |of: fn(&Round) -> f64| figures.iter().map(of).collect::<Vec<_>>();
    // The bar is for the longest refusal of all rounds, which a median would hide.
    let longest_s = all(|round| round.refused_s).into_iter().fold(0.0, f64::max);
    let name = |bar: &str| format!("cluster_{}_{bar}", fall.name());
    let wait_s = CLUSTER_WAIT.as_secs_f64();
    Ok(vec![
        judge(&name("errors_of_other_owners"), &[faults.others], Bar::AtMost(0.0)),
        judge(&name("failures_but_504_with_name"), &[faults.unexpected], Bar::AtMost(0.0)),
        judge(&name("least_504s_of_a_round"), &[faults.refused_least], Bar::AtLeast(1.0)),
        judge(&name("longest_504_seconds"), &[longest_s], Bar::AtMost(wait_s)),
        judge(&name("back_seconds"), &all(|round| round.back_s), Bar::AtMost(2.0)),
        judge(&name("p99_others_from_a_second_on"), &all(|round| round.later), Bar::AtMost(2.0)),
        judge(&name("p99_others_after_return"), &all(|round| round.again), Bar::AtMost(2.0)),
    ])
}

/// The number of wrong answers of all rounds, and the smallest number of right refusals of a round.
struct Faults {
    others: f64,
    unexpected: f64,
    refused_least: f64,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults { others: 0.0, unexpected: 0.0, refused_least: f64::INFINITY }
    }
}

impl Faults {
    fn add(&mut self, round: &Round) {
        self.others += round.others;
        self.unexpected += round.unexpected;
        self.refused_least = self.refused_least.min(round.refused);
    }
}

//! The search for the highest rate that a service holds, as a state machine without a clock or a
//! socket: it proposes the next rate, and is told whether the service held it.
//!
//! It raises the rate in steps until one is not held, bisects until the distance is small, and
//! confirms the result in a long trial, because a short one can miss a backlog that grows slowly.
//! All of this is repeated, because two searches never find quite the same rate: the spread is a
//! part of the result.

/// The largest number of trials of a search; usually it takes 20 to 40.
const TRIALS_MAX: usize = 200;
/// A rate that was not confirmed is lowered by this share, then by twice as much, and so on.
const BACK_OFF: f64 = 0.02;
/// A repetition begins at this share of the last result, and continues in steps of [`REPEAT_STEP`].
const REPEAT_FROM: f64 = 0.75;
const REPEAT_STEP: f64 = 1.2;

/// The options of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchOptions {
    /// The first rate that is tried, in requests per second.
    pub start_per_second: f64,
    /// The highest rate that is tried.
    pub most_per_second: f64,
    /// The largest distance between the rate that is held and the one that is not, as a share, at
    /// which the bisection ends.
    pub tolerance: f64,
    /// The number of searches.
    pub repeats: usize,
}

impl Default for SearchOptions {
    fn default() -> SearchOptions {
        SearchOptions {
            start_per_second: 1_000.0,
            most_per_second: 1e9,
            tolerance: 0.03,
            repeats: 3,
        }
    }
}

/// The next step of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Try a rate.
    Try {
        /// The rate, in requests per second.
        rate_per_second: f64,
        /// True if it is the long trial of a rate that was held in a short one.
        confirm: bool,
    },
    /// The search is over.
    Done(Knee),
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Knee {
    /// The highest rate that was confirmed in each repetition, in requests per second. Empty if not
    /// even the lowest rate was held.
    pub found_per_second: Vec<f64>,
    /// The number of trials.
    pub trials: usize,
}

impl Knee {
    /// The median of the rates found; `None` if no rate is held.
    #[must_use]
    pub fn median_per_second(&self) -> Option<f64> {
        let mut found = self.found_per_second.clone();
        found.sort_by(f64::total_cmp);
        found.get(found.len() / 2).copied()
    }

    /// The lowest and the highest rate found; infinity and 0 if no rate is held.
    #[must_use]
    pub fn spread_per_second(&self) -> (f64, f64) {
        let found = self.found_per_second.iter().copied();
        (found.clone().fold(f64::INFINITY, f64::min), found.fold(0.0, f64::max))
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Raising the rate in steps, or lowering it if no rate was held yet.
    Ramp {
        rate: f64,
        step: f64,
    },
    /// Bisecting between a rate that is held and one that is not.
    Bisect {
        low: f64,
        high: f64,
    },
    /// Confirming a rate in a long trial. If it fails, the rate is lowered by the share `back_off`.
    Confirm {
        rate: f64,
        back_off: f64,
    },
    Done,
}

/// A search for the highest rate.
#[derive(Clone, Debug)]
pub struct KneeSearch {
    options: SearchOptions,
    state: State,
    /// The highest rate that was held in this repetition, or 0.
    low: f64,
    /// The lowest rate that was not held, or infinity.
    high: f64,
    knee: Knee,
}

impl KneeSearch {
    /// A search at its beginning.
    #[must_use]
    pub fn new(options: SearchOptions) -> KneeSearch {
        let rate = options.start_per_second.clamp(1.0, options.most_per_second.max(1.0));
        let state = State::Ramp { rate, step: 2.0 };
        KneeSearch { options, state, low: 0.0, high: f64::INFINITY, knee: Knee::default() }
    }

    /// The next step.
    #[must_use]
    pub fn step(&self) -> Step {
        match self.state {
            State::Ramp { rate, .. } => Step::Try { rate_per_second: rate, confirm: false },
            State::Bisect { low, high } => {
                Step::Try { rate_per_second: (low * high).sqrt(), confirm: false }
            }
            State::Confirm { rate, .. } => Step::Try { rate_per_second: rate, confirm: true },
            State::Done => Step::Done(self.knee.clone()),
        }
    }

    /// The result so far; complete after [`Step::Done`].
    #[must_use]
    pub fn knee(&self) -> &Knee {
        &self.knee
    }

    /// Takes the outcome of the last step: `held` is true if its rate was held.
    pub fn report(&mut self, held: bool) {
        self.knee.trials += 1;
        self.state = match self.state {
            State::Ramp { rate, step } => self.after_ramp(rate, step, held),
            State::Bisect { low, high } => {
                let rate = (low * high).sqrt();
                if held { self.narrow(rate, high) } else { self.narrow(low, rate) }
            }
            State::Confirm { rate, .. } if held => self.found(rate),
            State::Confirm { rate, back_off } => {
                let lower = rate * (1.0 - back_off.min(0.5));
                match lower >= 1.0 {
                    true => State::Confirm { rate: lower, back_off: back_off * 2.0 },
                    false => State::Done,
                }
            }
            State::Done => State::Done,
        };
        if self.knee.trials >= TRIALS_MAX {
            self.state = State::Done;
        }
    }

    fn after_ramp(&mut self, rate: f64, step: f64, held: bool) -> State {
        if held {
            self.low = self.low.max(rate);
            if self.high.is_finite() {
                return self.narrow(self.low, self.high);
            }
            let next = (rate * step).min(self.options.most_per_second);
            return match next > rate {
                true => State::Ramp { rate: next, step },
                false => State::Confirm { rate, back_off: BACK_OFF },
            };
        }
        self.high = self.high.min(rate);
        match self.low > 0.0 {
            true => self.narrow(self.low, self.high),
            false if rate / step < 1.0 => State::Done,
            false => State::Ramp { rate: rate / step, step },
        }
    }

    fn narrow(&mut self, low: f64, high: f64) -> State {
        match high / low > 1.0 + self.options.tolerance {
            true => State::Bisect { low, high },
            false => State::Confirm { rate: low, back_off: BACK_OFF },
        }
    }

    fn found(&mut self, rate: f64) -> State {
        self.knee.found_per_second.push(rate);
        if self.knee.found_per_second.len() >= self.options.repeats {
            return State::Done;
        }
        (self.low, self.high) = (0.0, f64::INFINITY);
        State::Ramp { rate: (rate * REPEAT_FROM).max(1.0), step: REPEAT_STEP }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use pellucid_io::SeededRandom;

    fn search(options: SearchOptions, mut holds: impl FnMut(f64, bool) -> bool) -> Knee {
        let mut search = KneeSearch::new(options);
        loop {
            match search.step() {
                Step::Try { rate_per_second, confirm } => {
                    search.report(holds(rate_per_second, confirm));
                }
                Step::Done(knee) => return knee,
            }
        }
    }

    #[test]
    fn a_known_capacity_is_found_in_few_trials() {
        let knee = search(SearchOptions::default(), |rate, _| rate <= 37_000.0);
        let found = knee.median_per_second().unwrap();
        assert!((found / 37_000.0 - 1.0).abs() < 0.05 && found <= 37_000.0, "{found}");
        assert_eq!(knee.found_per_second.len(), 3);
        assert!(knee.trials < 45, "{} trials", knee.trials);
    }

    /// A short trial misses a backlog that grows slowly; only the long one shows it.
    #[test]
    fn a_rate_that_is_not_confirmed_is_lowered() {
        let holds = |rate: f64, confirm| rate <= if confirm { 9_000.0 } else { 10_000.0 };
        let knee = search(SearchOptions::default(), holds);
        for found in knee.found_per_second {
            assert!((8_200.0..=9_000.0).contains(&found), "{found}");
        }
    }

    #[test]
    fn noise_shows_as_spread() {
        let mut random = SeededRandom::of_stream(5, 5);
        let knee = search(SearchOptions { repeats: 5, ..SearchOptions::default() }, |rate, _| {
            rate <= 20_000.0 * (0.95 + 0.1 * random.unit())
        });
        let (least, greatest) = knee.spread_per_second();
        assert!(least > 17_000.0 && greatest < 21_100.0 && least < greatest, "{least} {greatest}");
    }

    #[test]
    fn the_limits_of_the_range_are_kept() {
        assert_eq!(search(SearchOptions::default(), |_, _| false).median_per_second(), None);
        let options = SearchOptions { most_per_second: 5_000.0, ..SearchOptions::default() };
        assert_eq!(search(options, |_, _| true).median_per_second(), Some(5_000.0));
        let slow = search(SearchOptions::default(), |rate, _| rate <= 3.0);
        assert!((2.7..=3.0).contains(&slow.median_per_second().unwrap()));
    }

    proptest! {
        #[test]
        fn any_capacity_is_found_within_five_percent(capacity in 20.0_f64..5e6) {
            let knee = search(SearchOptions::default(), |rate, _| rate <= capacity);
            let found = knee.median_per_second().unwrap();
            prop_assert!(found <= capacity && found >= capacity * 0.95, "{}", found);
        }

        #[test]
        fn a_search_ends_for_any_outcomes(
            answers in proptest::collection::vec(any::<bool>(), 1..50),
        ) {
            let mut at = 0;
            let knee = search(SearchOptions::default(), |_, _| {
                at += 1;
                answers[at % answers.len()]
            });
            prop_assert!(knee.trials <= TRIALS_MAX);
        }
    }
}

//! Repetition: a study repeats its measurements until all findings are certain enough ("can be
//! told"), or its time is over.

use std::time::{Duration, Instant};

use pellucid_report::RUNS_MIN;

use crate::error::StudyError;
use crate::study::Scale;

/// The limits of a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RepeatLimits {
    /// The fewest rounds.
    least: usize,
    /// The most rounds.
    most: usize,
    /// The longest time. After the fewest rounds, no round starts that would probably exceed it.
    time: Duration,
}

impl Scale {
    /// The limits of a study of this size.
    pub(crate) fn repeats(self) -> RepeatLimits {
        let (most, seconds) = match self {
            Scale::Quick => (5, 40),
            Scale::Default => (9, 8 * 60),
            Scale::Full => (9, 4 * 3_600),
        };
        RepeatLimits { least: RUNS_MIN, most, time: Duration::from_secs(seconds) }
    }
}

/// The outcome of a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RepeatOutcome {
    rounds: usize,
    is_told: bool,
}

impl RepeatLimits {
    /// The limits for runs that are divided into stretches: one run may be enough.
    pub(crate) fn of_long_runs(self) -> RepeatLimits {
        RepeatLimits { least: 1, ..self }
    }

    /// Runs rounds until one returns true, which means that all findings can be told, or a limit is
    /// reached. `round` gets the number of the round, from 0.
    pub(crate) fn run(
        self,
        mut round: impl FnMut(usize) -> Result<bool, StudyError>,
    ) -> Result<RepeatOutcome, StudyError> {
        let begun = Instant::now();
        for number in 0.. {
            let is_told = round(number)?;
            let rounds = number + 1;
            let next_ends = begun.elapsed() * (rounds + 1) as u32 / rounds as u32;
            let is_over = rounds >= self.most || next_ends > self.time;
            if rounds >= self.least && (is_told || is_over) {
                return Ok(RepeatOutcome { rounds, is_told });
            }
        }
        Err(StudyError::Step("there are no more rounds".to_owned()))
    }
}

impl RepeatOutcome {
    /// A sentence for the report.
    pub(crate) fn note(self) -> String {
        let RepeatOutcome { rounds, is_told } = self;
        let why = match is_told {
            true => "then every finding could be told",
            false => "then its time was over, and some findings cannot be told",
        };
        let times = if rounds == 1 { "once".to_owned() } else { format!("{rounds} times") };
        format!("Everything was measured {times}; {why}.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeats(least: usize, most: usize, time: Duration) -> RepeatLimits {
        RepeatLimits { least, most, time }
    }

    #[test]
    fn repetition_ends_when_all_findings_can_be_told_or_at_a_limit() {
        let long = Duration::from_secs(3_600);
        let told_from = |first: usize| move |round: usize| Ok(round + 1 >= first);
        let ended = repeats(3, 9, long).run(told_from(1)).unwrap();
        assert_eq!(ended, RepeatOutcome { rounds: 3, is_told: true });
        let ended = repeats(3, 9, long).run(told_from(5)).unwrap();
        assert_eq!(ended, RepeatOutcome { rounds: 5, is_told: true });
        let ended = repeats(3, 9, long).run(told_from(99)).unwrap();
        assert_eq!(ended, RepeatOutcome { rounds: 9, is_told: false });
        assert!(ended.note().contains("cannot be told"));
        let ended = repeats(3, 9, Duration::ZERO).run(told_from(99)).unwrap();
        assert_eq!(ended, RepeatOutcome { rounds: 3, is_told: false });
        let failed = |_| Err(StudyError::Step("no".to_owned()));
        assert!(repeats(3, 9, long).run(failed).is_err());
    }
}

//! Repetition: a study measures again until all of its findings can be told, or its time is over.

use std::time::{Duration, Instant};

use pellucid_report::RUNS_MIN;

use crate::error::StudyError;
use crate::study::Scale;

/// The limits of a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repeats {
    /// Rounds that are done in any case.
    least: usize,
    /// Rounds that are done at most.
    most: usize,
    /// No round begins of which the end would lie beyond, once the least number is done.
    time: Duration,
}

impl Scale {
    /// The limits of a study of this size.
    pub(crate) fn repeats(self) -> Repeats {
        let (most, seconds) = match self {
            Scale::Quick => (5, 40),
            Scale::Default => (9, 8 * 60),
            Scale::Full => (9, 4 * 3_600),
        };
        Repeats { least: RUNS_MIN, most, time: Duration::from_secs(seconds) }
    }
}

/// The end of a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repeated {
    rounds: usize,
    is_told: bool,
}

impl Repeats {
    /// The same for runs that are long enough to be cut into stretches: one may tell all.
    pub(crate) fn of_long_runs(self) -> Repeats {
        Repeats { least: 1, ..self }
    }

    /// Does rounds, by their numbers from 0, until one says that all can be told.
    pub(crate) fn run(
        self,
        mut round: impl FnMut(usize) -> Result<bool, StudyError>,
    ) -> Result<Repeated, StudyError> {
        let begun = Instant::now();
        for number in 0.. {
            let is_told = round(number)?;
            let rounds = number + 1;
            let next_ends = begun.elapsed() * (rounds + 1) as u32 / rounds as u32;
            let is_over = rounds >= self.most || next_ends > self.time;
            if rounds >= self.least && (is_told || is_over) {
                return Ok(Repeated { rounds, is_told });
            }
        }
        Err(StudyError::Step("there are no more rounds".to_owned()))
    }
}

impl Repeated {
    /// A sentence for the report.
    pub(crate) fn note(self) -> String {
        let Repeated { rounds, is_told } = self;
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

    fn repeats(least: usize, most: usize, time: Duration) -> Repeats {
        Repeats { least, most, time }
    }

    #[test]
    fn it_ends_when_all_is_told_or_with_its_limits() {
        let long = Duration::from_secs(3_600);
        let told_from = |first: usize| move |round: usize| Ok(round + 1 >= first);
        let ended = repeats(3, 9, long).run(told_from(1)).unwrap();
        assert_eq!(ended, Repeated { rounds: 3, is_told: true });
        let ended = repeats(3, 9, long).run(told_from(5)).unwrap();
        assert_eq!(ended, Repeated { rounds: 5, is_told: true });
        let ended = repeats(3, 9, long).run(told_from(99)).unwrap();
        assert_eq!(ended, Repeated { rounds: 9, is_told: false });
        assert!(ended.note().contains("cannot be told"));
        let ended = repeats(3, 9, Duration::ZERO).run(told_from(99)).unwrap();
        assert_eq!(ended, Repeated { rounds: 3, is_told: false });
        let failed = |_| Err(StudyError::Step("no".to_owned()));
        assert!(repeats(3, 9, long).run(failed).is_err());
    }
}

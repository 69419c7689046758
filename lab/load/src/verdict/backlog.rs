//! The backlog of a run: whether it grew, from when to when, and what became of it.

use super::figures::Figures;

/// A backlog of at most this share of all requests that were due does not count as growing.
const SHARE: f64 = 0.002;
/// The smallest number of intervals that show whether a backlog grows.
pub(super) const MIN_INTERVALS: usize = 8;
/// A backlog at the end counts as growing to the end if it lasted for at least the run's length
/// divided by this. A later one may be a pause that the end of the run cut off.
const TO_THE_END_PART: usize = 4;

/// A period in which the backlog was above both the number of connections and [`SHARE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BacklogPeriod {
    /// The index of the first interval in which the backlog rose.
    begin: usize,
    /// The index of the interval at whose end the backlog was greatest.
    peak: usize,
    /// The index of the interval by whose end the backlog was worked off; `None` if it never was.
    end: Option<usize>,
    /// The backlog at the peak, in requests.
    requests: u64,
}

impl BacklogPeriod {
    /// The excursion that lasts to the end of the run, or else the greatest one; `None` without
    /// any.
    pub(super) fn of(figures: &Figures) -> Option<BacklogPeriod> {
        let due = figures.requests + figures.unanswered;
        let counts = (figures.connections as f64).max(due as f64 * SHARE);
        let mut closed: Vec<BacklogPeriod> = Vec::new();
        let mut open: Option<BacklogPeriod> = None;
        for (place, requests) in figures.backlog.iter().copied().enumerate() {
            if requests as f64 <= counts {
                closed.extend(open.take().map(|open| BacklogPeriod { end: Some(place), ..open }));
                continue;
            }
            let mut now = open.unwrap_or_else(|| BacklogPeriod {
                begin: begin_of_rise(&figures.backlog, place),
                peak: place,
                end: None,
                requests,
            });
            if requests > now.requests {
                (now.peak, now.requests) = (place, requests);
            }
            open = Some(now);
        }
        open.or_else(|| closed.into_iter().max_by_key(|excursion| excursion.requests))
    }

    /// True if the backlog grew to the end of the run, for too long to be a short pause.
    pub(super) fn grew_to_the_end(&self, figures: &Figures) -> bool {
        let long = MIN_INTERVALS.max(figures.backlog.len() / TO_THE_END_PART);
        let since_it_rose = &figures.backlog[self.begin..];
        let grew = |stretch: &[u64]| stretch.len() >= long && rises(stretch);
        self.end.is_none() && (grew(since_it_rose) || grew(&figures.backlog))
    }

    /// True if the backlog grew for long enough to show a lack of capacity, and not because of a
    /// silence.
    pub(super) fn grew_for_a_while(&self, figures: &Figures) -> bool {
        let growing = self.peak + 1 - self.begin;
        let silent = figures.silence.length_ns >= growing as u64 * figures.interval_ns / 2;
        growing >= MIN_INTERVALS && !silent
    }

    /// The time at which the backlog began to grow, in seconds since the start of the run.
    pub(super) fn begin_seconds(&self, figures: &Figures) -> f64 {
        seconds(figures, self.begin)
    }

    /// The excursion in words, as a part of a sentence.
    pub(super) fn told(&self, figures: &Figures) -> String {
        let after = match self.end {
            Some(end) => format!("was worked off by second {:.1}", seconds(figures, end + 1)),
            None => format!(
                "stood at {} when the run ended",
                figures.backlog.last().copied().unwrap_or_default()
            ),
        };
        format!(
            "the backlog rose to {} requests from second {:.1} to {:.1}, and {after}",
            self.requests,
            self.begin_seconds(figures),
            seconds(figures, self.peak + 1)
        )
    }
}

/// The time at which the first `stretches` intervals are over, in seconds.
fn seconds(figures: &Figures, stretches: usize) -> f64 {
    stretches as f64 * figures.interval_ns as f64 / 1e9
}

/// The index of the first interval of the rise of the backlog up to the end of interval `place`.
fn begin_of_rise(backlog: &[u64], place: usize) -> usize {
    let before = |at: usize| at.checked_sub(1).map_or(0, |before| backlog[before]);
    (0..=place).rev().find(|at| before(*at) >= backlog[*at]).map_or(0, |at| at + 1)
}

/// True if the mean of each quarter is greater than that of the quarter before it.
fn rises(backlog: &[u64]) -> bool {
    let quarters: Vec<f64> = (0..4).map(|quarter| mean_of_quarter(backlog, quarter)).collect();
    quarters.windows(2).all(|pair| pair[0] < pair[1])
}

fn mean_of_quarter(backlog: &[u64], quarter: usize) -> f64 {
    let bound = |index: usize| backlog.len() * index / 4;
    let part = &backlog[bound(quarter)..bound(quarter + 1)];
    part.iter().map(|count| *count as f64).sum::<f64>() / part.len().max(1) as f64
}

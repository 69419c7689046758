//! An experiment: the same load on a store with memory for the directories of all its tables.
//!
//! The original made look-ups in files faster, with other filters that are queried without a
//! message, and with a small cache. The look-ups became much faster, but the whole hardly did. In
//! this engine the fastest look-up uses a directory in memory, and the available memory decides how
//! many tables have one.

use pellucid_report::{Chart, ChartForm, ChartSection, Estimate, Finding, Series, Unit, both};

use super::child::LOAD_THREAD;
use super::sample::Sample;
use super::sample_interval::{STRETCHES, SampleInterval};
use super::sample_series::{operation, processor_ns, ratio};
use super::source::Source;

/// The factor by which the engine's memory is increased.
pub(super) const MEMORY_TIMES: u64 = 4;
/// Look-ups became faster if they take less than this share of the time before.
const FASTER: f64 = 0.8;
/// The whole hardly became faster if it takes more than this share of the time before.
const HARDLY: f64 = 0.9;

type Figure = fn(&SampleInterval<'_>) -> Option<f64>;

const FIGURES: [(&str, Unit, Figure); 4] = [
    ("requests to files by filter and index", Unit::Share, by_index),
    ("to learn that a key is missing", Unit::Nanoseconds, missing),
    ("HEAD", Unit::Nanoseconds, head),
    ("processor time of a GET or PUT with its HEADs", Unit::Nanoseconds, transaction),
];

fn by_index(stretch: &SampleInterval<'_>) -> Option<f64> {
    let of = |path: &str| stretch.levels("/reads/levels", path);
    ratio(of("/by_index"), of("/asked"))
}

fn missing(stretch: &SampleInterval<'_>) -> Option<f64> {
    stretch.sampled("/reads/look_ups/missing/time")
}

fn head(stretch: &SampleInterval<'_>) -> Option<f64> {
    let of = |value: fn(&super::sample::OperationSums) -> f64| {
        let both = ["head ok", "head missing"];
        stretch.grown(|sample| both.iter().map(|name| value(&operation(sample, name))).sum())
    };
    ratio(of(|sums| sums.total_ns), of(|sums| sums.count as f64))
}

fn transaction(stretch: &SampleInterval<'_>) -> Option<f64> {
    let names = ["get ok", "get missing", "put ok", "put_disk ok"];
    let count = |sample: &Sample| {
        names.iter().map(|name| operation(sample, name).count as f64).sum::<f64>()
    };
    ratio(stretch.grown(|sample| processor_ns(sample, LOAD_THREAD)), stretch.grown(count))
}

/// The run before and the run after.
pub(super) struct Experiment<'a> {
    before: Vec<SampleInterval<'a>>,
    after: Vec<SampleInterval<'a>>,
}

impl<'a> Experiment<'a> {
    pub(super) fn new(before: &Source<'a>, after: &Source<'a>) -> Experiment<'a> {
        let [before, after] =
            [before, after].map(|source| SampleInterval::cut(source.track.samples(), STRETCHES));
        Experiment { before, after }
    }

    fn both(&self, (name, unit, of): (&str, Unit, Figure)) -> [Estimate; 2] {
        [("before", &self.before), ("after", &self.after)].map(|(when, stretches)| {
            Estimate::of_runs(format!("{name}, {when}"), unit, stretches.iter().map(of))
                .in_stretches()
        })
    }

    /// The ratio of a figure after to that before, estimated over pairs of stretches.
    fn change(&self, (name, _, of): (&str, Unit, Figure)) -> Estimate {
        let pairs = self.before.iter().zip(&self.after);
        let changes = pairs.map(|(before, after)| ratio(of(after)?, of(before)?));
        let name = format!("{name}, after over before");
        Estimate::of_runs(name, Unit::Ratio, changes).in_stretches()
    }

    /// The finding. If a run did not keep up with the load, nothing is concluded: then the machine
    /// may have changed, and not the store.
    pub(super) fn finding(&self, keeps_up: bool) -> Finding {
        let [_, look_ups, _, whole] = FIGURES.map(|figure| self.change(figure));
        let [before, after] = self.both(FIGURES[0]);
        let sentence = format!(
            "With memory for more directories, {after} instead of {before} of the requests to \
             files go by filter and index; to learn that a key is missing takes {look_ups} times \
             as long, and the processor time of the whole is {whole} times that before."
        );
        Finding::new(
            "faster_look_ups",
            "With other filters and a small cache look-ups became faster by more than 100 µs, and \
             the throughput of the whole by 2 to 5 %: the final difference is marginal.",
            sentence,
            both(look_ups.is_below(FASTER), whole.is_above(HARDLY)).filter(|_| keeps_up),
            [before, after, look_ups, whole],
        )
    }

    pub(super) fn section(&self) -> ChartSection {
        let rows = FIGURES[1..].iter().map(|(name, ..)| (*name).to_owned());
        let pairs: Vec<_> = FIGURES[1..].iter().map(|figure| self.both(*figure)).collect();
        let series = ["before", "after"].into_iter().enumerate().map(|(at, name)| {
            Series::new(name, pairs.iter().map(|pair| pair[at].value()).collect())
        });
        let how_to_read = "Medians of the stretches of one run each, under the same load.";
        let bars = Chart::new(
            ("experiment", "Before and after", how_to_read),
            Unit::Nanoseconds,
            ChartForm::Groups { rows: rows.collect() },
            series,
        );
        ChartSection::new(
            "An experiment: directories of all tables",
            format!(
                "The same load on a store whose engine has {MEMORY_TIMES} times the memory, so \
                 that more tables have a directory in memory, which says at once where a key is or \
                 that it is not."
            ),
            vec![bars],
        )
    }
}

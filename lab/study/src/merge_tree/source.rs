//! The data of all charts, and helpers to make a chart from it.

use pellucid_report::{Chart, ChartEvent, ChartForm, Series, Unit};

use super::sample_series::{SampleSeries, Values, number};

/// The label of the moment that charts mark.
const OUTGROWN: &str = "the store outgrows memory";

/// The data of all charts.
pub(super) struct Source<'a> {
    pub(super) track: SampleSeries<'a>,
    /// The limit of memory, if there was one.
    pub(super) memory_bytes: Option<u64>,
    /// The time at which the store's files and the process's memory first exceeded that limit.
    pub(super) outgrown_seconds: Option<f64>,
}

impl Source<'_> {
    fn moments(&self) -> Vec<ChartEvent> {
        let moment = |at_seconds| ChartEvent { at_seconds, label: OUTGROWN.to_owned() };
        self.outgrown_seconds.map(moment).into_iter().collect()
    }

    pub(super) fn chart(
        &self,
        (name, title): (&str, &str),
        how_to_read: &str,
        unit: Unit,
        form: ChartForm,
        series: Vec<Series>,
    ) -> Chart {
        let moments = match form {
            ChartForm::Lines { .. } | ChartForm::Areas { .. } => self.moments(),
            _ => Vec::new(),
        };
        Chart { moments, ..Chart::new((name, title, how_to_read), unit, form, series) }
    }

    pub(super) fn areas(
        &self,
        names: (&str, &str),
        how_to_read: &str,
        unit: Unit,
        series: Vec<Series>,
    ) -> Chart {
        let form = ChartForm::Areas { seconds: self.track.seconds() };
        self.chart(names, how_to_read, unit, form, series)
    }

    pub(super) fn lines(
        &self,
        names: (&str, &str),
        how_to_read: &str,
        unit: Unit,
        series: Vec<Series>,
    ) -> Chart {
        let form = ChartForm::Lines { seconds: self.track.seconds(), is_logarithmic: false };
        self.chart(names, how_to_read, unit, form, series)
    }

    /// Lines of durations on a logarithmic scale.
    pub(super) fn times(
        &self,
        names: (&str, &str),
        how_to_read: &str,
        series: Vec<Series>,
    ) -> Chart {
        let form = ChartForm::Lines { seconds: self.track.seconds(), is_logarithmic: true };
        self.chart(names, how_to_read, Unit::Nanoseconds, form, series)
    }

    /// The growth of a number of the engine's account over the whole run.
    pub(super) fn grown(&self, path: &str) -> f64 {
        let Some((first, last)) = self.track.ends() else { return 0.0 };
        number(last, path) - number(first, path)
    }

    /// The rate of a number of the engine's account.
    pub(super) fn rate(&self, path: &str) -> Values {
        self.track.rate(|sample| number(sample, path))
    }
}

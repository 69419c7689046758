//! Jitter plots: single requests over time.

use pellucid_report::{Chart, ChartForm, Series, Span, Unit};

/// The height of a zoomed plot, as a multiple of the 99.9th percentile.
pub(crate) const ZOOM_MARGIN: f64 = 1.1;

/// The contents of a jitter plot.
pub(crate) struct Jitter<'a> {
    /// The prefix of the charts' names.
    pub(crate) name: &'a str,
    /// The owner of the requests for the title, if there are several plots; otherwise empty.
    pub(crate) whose: &'a str,
    /// The name of the series.
    pub(crate) series: &'a str,
    /// The legend.
    pub(crate) how_to_read: &'a str,
    /// For each request: when it started, in seconds, and its response time in nanoseconds.
    pub(crate) points: &'a [(f64, u64)],
    /// The background jobs to mark.
    pub(crate) spans: &'a [Span],
}

impl Jitter<'_> {
    /// The chart of all points.
    pub(crate) fn whole(&self) -> Chart {
        self.chart(("", "Jitter"), self.how_to_read, None)
    }

    /// The chart of the points up to `ceiling_ns`, usually [`ZOOM_MARGIN`] times the 99.9th
    /// percentile.
    pub(crate) fn zoomed(&self, ceiling_ns: f64) -> Chart {
        let how_to_read = "The same up to a little above the 99.9th percentile.";
        self.chart(("_zoomed", "Jitter, zoomed"), how_to_read, Some(ceiling_ns))
    }

    fn chart(&self, (suffix, title): (&str, &str), how: &str, ceiling: Option<f64>) -> Chart {
        let seconds = self.points.iter().map(|(at, _)| *at).collect();
        let title = match self.whose {
            "" => title.to_owned(),
            whose => format!("{title}: {whose}"),
        };
        let words = (format!("{}_jitter{suffix}", self.name), title, how);
        let values = self.points.iter().map(|(_, ns)| Some(*ns as f64)).collect();
        let series = [Series::new(self.series, values)];
        let form = ChartForm::Points { seconds, ceiling };
        let chart = Chart::new(words, Unit::Nanoseconds, form, series);
        Chart { spans: self.spans.to_vec(), ..chart }
    }
}

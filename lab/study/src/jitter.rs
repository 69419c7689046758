//! Jitter: single requests over time, of a study that has kept them.

use pellucid_report::{Chart, Form, Series, Span, Unit};

/// The zoomed plot ends this far above the 99.9th percentile.
pub(crate) const ZOOM_MARGIN: f64 = 1.1;

/// The chart to draw.
pub(crate) struct Jitter<'a> {
    /// The prefix of the charts' names.
    pub(crate) name: &'a str,
    /// Whose requests they are, where several are side by side; or nothing.
    pub(crate) whose: &'a str,
    /// The unit of the values.
    pub(crate) series: &'a str,
    /// The legend.
    pub(crate) how_to_read: &'a str,
    /// The time at which each request was, in seconds, and its time in nanoseconds.
    pub(crate) points: &'a [(f64, u64)],
    /// The spans beside it.
    pub(crate) spans: &'a [Span],
}

impl Jitter<'_> {
    /// The chart of all points.
    pub(crate) fn whole(&self) -> Chart {
        self.chart(("", "Jitter"), self.how_to_read, None)
    }

    /// The same up to `ceiling_ns`, usually [`ZOOM_MARGIN`] times the 99.9th percentile.
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
        let form = Form::Points { seconds, ceiling };
        let chart = Chart::new(words, Unit::Nanoseconds, form, series);
        Chart { spans: self.spans.to_vec(), ..chart }
    }
}

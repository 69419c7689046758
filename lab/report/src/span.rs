//! Spans of time that a chart marks: activities beside the figures that are drawn.

use serde::{Deserialize, Serialize};

/// A span of time in which an activity ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// The begin, in seconds since the beginning of the chart; negative if it was before.
    pub from_seconds: f64,
    /// The end, in seconds since the beginning of the chart.
    pub to_seconds: f64,
    /// The activity. Spans with the same label share a lane.
    pub label: String,
}

impl Span {
    /// True if the span has a moment in common with the time from `begin` to `end` seconds.
    #[must_use]
    pub fn overlaps(&self, begin: f64, end: f64) -> bool {
        self.from_seconds <= end && self.to_seconds >= begin
    }
}

/// The part of the time from `begin` to `end` seconds that the spans cover, in seconds. Time that
/// several spans cover counts once.
#[must_use]
pub fn covered_seconds<'span>(
    spans: impl IntoIterator<Item = &'span Span>,
    begin: f64,
    end: f64,
) -> f64 {
    let within = spans.into_iter().filter(|span| span.overlaps(begin, end));
    let mut within: Vec<_> =
        within.map(|span| (span.from_seconds.max(begin), span.to_seconds.min(end))).collect();
    within.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut sum, mut at) = (0.0, begin);
    for (from, to) in within {
        sum += (to - from.max(at)).max(0.0);
        at = at.max(to);
    }
    sum
}

/// The labels of spans, each once, in the order of their first spans.
#[must_use]
pub fn span_labels(spans: &[Span]) -> Vec<&str> {
    let mut labels: Vec<&str> = Vec::new();
    for span in spans {
        if !labels.contains(&span.label.as_str()) {
            labels.push(&span.label);
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from_seconds: f64, to_seconds: f64, label: &str) -> Span {
        Span { from_seconds, to_seconds, label: label.to_owned() }
    }

    #[test]
    fn time_that_several_spans_cover_counts_once() {
        let spans = [
            span(1.0, 3.0, "flush"),
            span(-1.0, 0.5, "compaction"),
            span(2.0, 4.0, "compaction"),
            span(2.5, 2.75, "flush"),
            span(9.0, 11.0, "compaction"),
        ];
        assert_eq!(covered_seconds(&spans, 0.0, 10.0), 0.5 + 3.0 + 1.0);
        assert_eq!(covered_seconds(&spans, 5.0, 8.0), 0.0);
        assert_eq!(covered_seconds(&spans[..1], 1.5, 2.0), 0.5);
        assert_eq!(span_labels(&spans), ["flush", "compaction"]);
        assert!(spans[1].overlaps(0.0, 1.0) && !spans[1].overlaps(0.6, 1.0));
    }
}

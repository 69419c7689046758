//! The interval log of HdrHistogram (`.hlog`): a histogram for each interval of a run, for tools
//! that merge and plot them.

use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;

use crate::model::TimelineInterval;

/// Nanoseconds in a millisecond, the unit of the column of maximum values.
const UNIT_NS: f64 = 1e6;

/// The interval log of a run that began at a time. Values are in nanoseconds; the maximum of each
/// line is also given in milliseconds.
///
/// # Errors
/// The error of a histogram that cannot be encoded; the histograms of a run always can.
pub fn hlog(started_unix_ms: u64, timeline: &[TimelineInterval]) -> Result<Vec<u8>, String> {
    let started = SystemTime::UNIX_EPOCH + Duration::from_millis(started_unix_ms);
    let (mut log, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment("Response times in nanoseconds, from the intended start");
    builder.with_start_time(started).with_base_time(started).with_max_value_divisor(UNIT_NS);
    let writer = builder.begin_log_with(&mut log, &mut serializer);
    let mut writer = writer.map_err(|error| error.to_string())?;
    for stretch in timeline {
        let begin = Duration::from_nanos(stretch.begin_ns);
        let length = Duration::from_nanos(stretch.length_ns);
        let written = writer.write_histogram(&stretch.histogram(), begin, length, None);
        written.map_err(|error| error.to_string())?;
    }
    Ok(log)
}

impl TimelineInterval {
    /// The response times as a histogram.
    #[must_use]
    pub fn histogram(&self) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3)
            .expect("the bounds are constants that the histogram accepts");
        for (time_ns, count) in &self.response_times {
            histogram.saturating_record_n(*time_ns, *count);
        }
        histogram
    }
}

/// The longest time that a histogram distinguishes: a day.
const LONGEST_NS: u64 = 24 * 3_600 * 1_000_000_000;

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    #[test]
    fn the_log_is_read_back() {
        let stretch = |begin_ns, time_ns| TimelineInterval {
            begin_ns,
            length_ns: 100_000_000,
            answered: 3,
            response_times: vec![(time_ns, 2), (2_000_000, 1)],
            ..TimelineInterval::default()
        };
        let timeline = [stretch(0, 1_000), stretch(100_000_000, 5_000)];
        let log = hlog(1_767_225_600_000, &timeline).unwrap();
        let entries: Vec<LogEntry<'_>> =
            IntervalLogIterator::new(&log).map(|entry| entry.unwrap()).collect();
        let mut histograms = Vec::new();
        for entry in &entries {
            if let LogEntry::Interval(interval) = entry {
                use base64::Engine as _;
                let engine = base64::engine::general_purpose::STANDARD;
                let bytes = engine.decode(interval.encoded_histogram()).unwrap();
                let read: Histogram<u64> =
                    Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
                histograms.push((interval.start_timestamp(), read));
            }
        }
        assert_eq!(histograms.len(), 2);
        assert_eq!(histograms[1].0, Duration::from_millis(100));
        assert_eq!(histograms[1].1, timeline[1].histogram());
        let text = String::from_utf8(log).unwrap();
        assert!(text.contains("#[StartTime: 1767225600.000"), "{text}");
    }
}

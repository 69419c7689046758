//! Histograms as text: HdrHistogram's compressed V2 encoding in Base64. Interval logs (`.hlog`)
//! have the same form, so that histograms of several runs can be merged instead of averaged.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// Returns the text of a histogram; `None` if its counts are beyond what the encoding holds.
#[must_use]
pub fn encoded(histogram: &Histogram<u64>) -> Option<String> {
    let mut bytes = Vec::new();
    let written = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
    written.is_ok().then(|| STANDARD.encode(&bytes))
}

/// Reads what [`encoded`] wrote.
///
/// # Errors
/// The error in the text.
pub fn decoded(text: &str) -> Result<Histogram<u64>, String> {
    let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;

    use super::*;

    /// The interval log of HdrHistogram itself has the same text for the same histogram.
    #[test]
    fn histograms_are_encoded_as_in_interval_logs() {
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        (1..=1_000).for_each(|value_us| histogram.record(value_us * 1_000).unwrap());
        let (mut log, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
        let mut writer =
            IntervalLogWriterBuilder::new().begin_log_with(&mut log, &mut serializer).unwrap();
        let span = Duration::from_secs(1);
        writer.write_histogram(&histogram, span, span, None).unwrap();
        let log = String::from_utf8(log).unwrap();
        let text = encoded(&histogram).unwrap();
        assert!(text.starts_with("HISTF"), "{text}");
        assert_eq!(log.trim_end().rsplit(',').next(), Some(text.as_str()));
        assert_eq!(decoded(&text).unwrap(), histogram);
    }
}

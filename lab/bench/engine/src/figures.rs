//! Figures by name, as a child prints them and the parent reads them.

use std::collections::BTreeMap;

use crate::peer::{Outcome, text};
use crate::workload::Latencies;

/// The figures of one run of one peer.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    numbers: BTreeMap<String, f64>,
    notes: BTreeMap<String, String>,
}

impl Figures {
    /// Sets a figure.
    pub fn set(&mut self, name: &str, value: f64) {
        self.numbers.insert(name.to_owned(), value);
    }

    /// Sets a text.
    pub fn note(&mut self, name: &str, value: &str) {
        self.notes.insert(name.to_owned(), value.to_owned());
    }

    /// Sets the figures of an operation: rate, processor time and latencies.
    pub fn operation(&mut self, name: &str, per_second: f64, cpu_us: f64, latencies: &Latencies) {
        self.set(&format!("{name}_per_s"), per_second);
        self.set(&format!("{name}_cpu_us"), cpu_us);
        for (quantile, share) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)] {
            let ns = latencies.value_at_quantile(share) as f64;
            self.set(&format!("{name}_{quantile}_us"), ns / 1e3);
        }
    }

    /// The figure called `name`, if it was measured.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.numbers.get(name).copied().filter(|number| number.is_finite())
    }

    /// The text called `name`.
    pub fn text_of(&self, name: &str) -> Option<&str> {
        self.notes.get(name).map(String::as_str)
    }

    /// Adds all figures and texts of `other`, with `prefix` before their names.
    pub fn merge(&mut self, prefix: &str, other: &Figures) {
        for (name, value) in &other.numbers {
            self.set(&format!("{prefix}{name}"), *value);
        }
        for (name, value) in &other.notes {
            self.note(&format!("{prefix}{name}"), value);
        }
    }

    /// Encodes the figures as one line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::json!({ "numbers": self.numbers, "notes": self.notes }).to_string()
    }

    /// Parses a line of [`Figures::to_json`].
    pub fn from_json(line: &str) -> Outcome<Figures> {
        let value: serde_json::Value = serde_json::from_str(line).map_err(text)?;
        let mut figures = Figures::default();
        for (name, number) in value["numbers"].as_object().into_iter().flatten() {
            figures.set(name, number.as_f64().unwrap_or(f64::NAN));
        }
        for (name, note) in value["notes"].as_object().into_iter().flatten() {
            figures.note(name, note.as_str().unwrap_or_default());
        }
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::Figures;

    #[test]
    fn figures_round_trip() {
        let mut figures = Figures::default();
        figures.set("get_per_s", 1.5);
        figures.note("version", "1 \"two\"");
        let read = Figures::from_json(&figures.to_json()).unwrap();
        assert_eq!(read.get("get_per_s"), Some(1.5));
        assert_eq!(read.text_of("version"), Some("1 \"two\""));
        assert_eq!(read.get("put_per_s"), None);
    }
}

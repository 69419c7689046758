//! Records the background work of a Pellucid server during a load, second by second. A separate
//! thread asks the server, so that the load and its timing are not disturbed.

use std::ops::Range;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pellucid_load::LoadOptions;
use pellucid_report::{Chart, ChartForm, Series, Unit};
use serde_json::{Value, json};

/// The interval at which the server is asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// The most answers that are kept; the rest of a longer run is not shown.
const SAMPLES_MAX: usize = 7_200;
const PATH: &str = "/_admin/engine";

/// The figures that are shown: names, and paths in the server's document. A `*` in a path stands
/// for a sum over all elements of an array. The first [`TIMES`] figures are times, the others
/// bytes.
const FIGURES: [(&str, &str); 7] = [
    ("flushes", "/background/flush/duration_ns"),
    ("merges", "/background/compactions/*/duration_ns"),
    ("writes waited for memtables", "/writes/waits/memtables_full/sum_ns"),
    ("writes waited for merges", "/writes/waits/merges_behind/sum_ns"),
    ("flushed", "/background/flush/bytes_out"),
    ("merged", "/background/compactions/*/bytes_out"),
    ("collected", "/background/collection/copied_bytes"),
];
const TIMES: usize = 4;

/// The server's counters at one moment of the run.
struct Sample {
    seconds: f64,
    figures: [f64; FIGURES.len()],
}

/// The running thread that asks the server.
pub(super) struct BackgroundWatcher {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Sample>>,
}

/// The server's background work during a run.
#[derive(Default)]
pub(super) struct BackgroundWork {
    samples: Vec<Sample>,
}

impl BackgroundWatcher {
    /// Starts to ask the loaded server every second. If it does not report its background work, the
    /// thread gives up at once.
    pub(super) fn start(options: &LoadOptions) -> BackgroundWatcher {
        let (stop, stopped) = channel::<()>();
        let options = options.clone();
        let thread = std::thread::spawn(move || {
            let begin = Instant::now();
            let mut samples = Vec::new();
            let mut is_over = false;
            while samples.len() < SAMPLES_MAX {
                let seconds = begin.elapsed().as_secs_f64();
                let Some(sample) = question(&options, seconds) else { break };
                samples.push(sample);
                // The last sample is made at the end of the run, so that its last interval is
                // complete.
                if is_over {
                    break;
                }
                let waited = stopped.recv_timeout(INTERVAL);
                is_over = !matches!(waited, Err(RecvTimeoutError::Timeout));
            }
            samples
        });
        BackgroundWatcher { stop, thread }
    }

    /// Stops the thread and returns its samples.
    pub(super) fn finish(self) -> BackgroundWork {
        // Sending fails if the thread has ended already, which is fine.
        let _ = self.stop.send(());
        BackgroundWork { samples: self.thread.join().unwrap_or_default() }
    }
}

fn question(options: &LoadOptions, seconds: f64) -> Option<Sample> {
    let (status, answer) = options.ask(PATH).ok()?;
    let document: Value = serde_json::from_slice(&answer.body).ok().filter(|_| status == 200)?;
    document.get("background")?;
    Some(Sample { seconds, figures: FIGURES.map(|(_, path)| sum(&document, path)) })
}

/// The number at a path; with a `*`, the sum over all elements of the array.
fn sum(document: &Value, path: &str) -> f64 {
    let Some((before, after)) = path.split_once("/*") else {
        return document.pointer(path).and_then(Value::as_f64).unwrap_or(0.0);
    };
    let all = document.pointer(before).and_then(Value::as_array);
    all.into_iter().flatten().map(|value| sum(value, after)).sum()
}

impl BackgroundWork {
    /// Charts over time: the share of each second that background work and waits of writes took,
    /// and the bytes written. Empty if the server reports nothing.
    pub(super) fn charts(&self) -> Vec<Chart> {
        if self.samples.len() < 2 {
            return Vec::new();
        }
        let seconds: Vec<f64> = self.samples[1..].iter().map(|sample| sample.seconds).collect();
        let rate = |pair: &[Sample], place: usize| {
            let length = (pair[1].seconds - pair[0].seconds).max(1e-3);
            Some(((pair[1].figures[place] - pair[0].figures[place]) / length).max(0.0))
        };
        let series = |places: Range<usize>, scale: f64| -> Vec<Series> {
            let of = |place: usize| {
                let rates = self.samples.windows(2).map(|pair| Some(rate(pair, place)? * scale));
                Series::new(FIGURES[place].0, rates.collect())
            };
            places.map(of).collect()
        };
        let lines = || ChartForm::Lines { seconds: seconds.clone(), is_logarithmic: false };
        vec![
            Chart::new(
                (
                    "background_work",
                    "What ran in the server's background",
                    "Of each second, how much the server's flushes and merges worked, and how \
                     long writes together waited for them. Where a line rises with the response \
                     time above, it is a suspect.",
                ),
                Unit::Ratio,
                lines(),
                series(0..TIMES, 1e-9),
            ),
            Chart::new(
                (
                    "background_bytes",
                    "What the server's background wrote",
                    "Bytes that flushes, merges and collections wrote in each second.",
                ),
                Unit::BytesPerSecond,
                lines(),
                series(TIMES..FIGURES.len(), 1.0),
            ),
        ]
    }

    /// The counters at each moment, as JSON.
    pub(super) fn json(&self) -> Value {
        let samples = self.samples.iter().map(|sample| {
            let named = (0..).zip(FIGURES).zip(sample.figures);
            let mut members: serde_json::Map<String, Value> = named
                .map(|((place, (name, _)), figure)| {
                    let unit = if place < TIMES { "ns" } else { "bytes" };
                    (format!("{}_{unit}", name.replace(' ', "_")), json!(figure))
                })
                .collect();
            members.insert("seconds".to_owned(), json!(sample.seconds));
            Value::Object(members)
        });
        samples.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_and_become_rates() {
        let document = json!({
            "background": {
                "flush": { "duration_ns": 5, "bytes_out": 7 },
                "compactions": [{ "duration_ns": 10 }, { "duration_ns": 20 }],
            },
        });
        let figures = FIGURES.map(|(_, path)| sum(&document, path));
        assert_eq!(figures, [5.0, 30.0, 0.0, 0.0, 7.0, 0.0, 0.0]);
        let sample = |seconds, ns, b| Sample { seconds, figures: [ns, ns, ns, ns, b, b, b] };
        let samples = vec![sample(0.0, 0.0, 0.0), sample(1.0, 5e8, 10.0), sample(3.0, 5e8, 30.0)];
        let background = BackgroundWork { samples };
        let charts = background.charts();
        assert_eq!(charts[0].series[1].values, [Some(0.5), Some(0.0)]);
        assert_eq!(charts[1].series[0].values, [Some(10.0), Some(10.0)]);
        assert_eq!(background.json()[1]["merges_ns"], 5e8);
        assert!(BackgroundWork::default().charts().is_empty());
    }
}

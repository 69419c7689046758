//! The log: events of `tracing` for the operator. The library itself prints nothing.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use pellucid_clock::Clock;
use pellucid_store::StoreError;
use pellucid_thread::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Subscriber, dispatcher};

use crate::line_limit::LineLimit;

/// The limit of damages that are each logged once in any case.
const DAMAGES_MAX: usize = 1_000;
/// The target of the server's events.
const TARGET: &str = "pellucid";

/// The destination of a server's events.
#[derive(Clone)]
pub struct Log {
    dispatch: Option<Dispatch>,
    failures: Arc<Mutex<FailureLines>>,
}

/// The lines about failed requests: up to a limit in each second, and one for each damage.
struct FailureLines {
    limit: LineLimit,
    /// The texts about damage that were logged, up to [`DAMAGES_MAX`].
    damages: HashSet<String>,
}

impl Log {
    /// The destination of the process's own events.
    #[must_use]
    pub fn of_process() -> Log {
        Log::to(None)
    }

    /// A separate log that passes the text of each event to `write`.
    #[must_use]
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Log {
        Log::to(Some(Dispatch::new(Lines { write })))
    }

    fn to(dispatch: Option<Dispatch>) -> Log {
        let limit = LineLimit::new(Clock::monotonic());
        let lines = FailureLines { limit, damages: HashSet::new() };
        Log { dispatch, failures: Arc::new(Mutex::new(lines)) }
    }

    /// Sends the events that `emit` creates to this log. `emit` calls the macros of `tracing`, so
    /// that an event can have fields.
    pub fn with(&self, emit: impl FnOnce()) {
        match &self.dispatch {
            Some(dispatch) => dispatcher::with_default(dispatch, emit),
            None => emit(),
        }
    }

    /// Logs a failure that should not happen, at level `ERROR`.
    pub fn error(&self, text: &str) {
        self.with(|| tracing::error!(target: TARGET, "{text}"));
    }

    /// Logs the failure of a request, at level `ERROR` and up to a limit in each second. The first
    /// line after that second has the number of those left out. Damage that was not logged before
    /// is logged in any case: its text names the place.
    pub(crate) fn failed_request(&self, what: &str, error: &StoreError) {
        let text = format!("{what}: {error}");
        let mut lines = self.failures.lock();
        let is_new_damage = matches!(error, StoreError::Corruption(_))
            && lines.damages.len() < DAMAGES_MAX
            && lines.damages.insert(text.clone());
        if is_new_damage {
            drop(lines);
            return self.error(&text);
        }
        let limit = &mut lines.limit;
        let (left_out, seconds) = if limit.left_ns() == 0 { limit.end_interval() } else { (0, 0) };
        let is_within = limit.admit();
        drop(lines);
        if left_out > 0 {
            self.error(&format!("{left_out} further failed requests within {seconds} s"));
        }
        if is_within {
            self.error(&text);
        }
    }

    /// Logs an event that may need action by the operator, at level `WARN`.
    pub fn write(&self, text: &str) {
        self.with(|| tracing::warn!(target: TARGET, "{text}"));
    }

    /// Logs a normal event, at level `INFO`.
    pub fn info(&self, text: &str) {
        self.with(|| tracing::info!(target: TARGET, "{text}"));
    }
}

/// A failure that may repeat. It is logged again only if its text has changed.
#[derive(Default)]
pub(crate) struct RepeatedFailure(String);

impl RepeatedFailure {
    pub(crate) fn tell(&mut self, log: &Log, text: String) {
        if text != self.0 {
            log.write(&text);
            self.0 = text;
        }
    }
}

/// A subscriber that takes the text of events and ignores spans.
struct Lines<W> {
    write: W,
}

impl<W: Fn(&str) + Send + Sync + 'static> Subscriber for Lines<W> {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        // One id is enough for all spans, since they are ignored.
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        (self.write)(&format!("{}{}", line.message, line.fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// An event as one line: the message, followed by the fields.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.fields += &format!(" {}={value:?}", field.name());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Log {
        /// A separate log, and the lines that it keeps.
        pub(crate) fn kept() -> (Log, Arc<Mutex<Vec<String>>>) {
            let lines = Arc::new(Mutex::new(Vec::new()));
            let kept = Arc::clone(&lines);
            (Log::new(move |line| kept.lock().push(line.to_owned())), lines)
        }
    }

    #[test]
    fn events_become_lines_of_their_own_log() {
        let (log, lines) = Log::kept();
        log.info("first");
        log.with(|| tracing::warn!(operation = "get", count = 3, "second"));
        tracing::info!("elsewhere");
        assert_eq!(*lines.lock(), ["first", "second operation=\"get\" count=3"]);
    }

    /// Regression: on a full disk, each refused write was a line.
    #[test]
    fn failed_requests_are_logged_up_to_a_limit_in_each_second_and_all_others_counted() {
        let (log, lines) = Log::kept();
        let age = Clock::monotonic().stopwatch();
        let full = StoreError::Failed("no room".to_owned());
        (0..1_000).for_each(|_| log.failed_request("put", &full));
        let seconds = (age.elapsed_ns() / 1_000_000_000) as usize;
        let lines = lines.lock();
        let written = lines.iter().filter(|line| *line == "put: no room").count();
        assert!(written <= 20 * (seconds + 1), "{written} in {seconds} s");
        let counts = lines.iter().filter_map(|line| line.split_once(" further failed requests"));
        let counted: u64 = counts.map(|(count, _)| count.parse::<u64>().unwrap()).sum();
        let (uncounted, _) = log.failures.lock().limit.end_interval();
        assert_eq!(written as u64 + counted + uncounted, 1_000);
    }

    /// Regression: damage that cut a range short left no line behind twenty other failures, and the
    /// same damage, asked for again and again, was logged without a limit.
    #[test]
    fn each_damage_is_logged_and_the_same_one_again_within_the_limit() {
        let (log, lines) = Log::kept();
        let age = Clock::monotonic().stopwatch();
        let full = StoreError::Failed("no room".to_owned());
        (0..1_000).for_each(|_| log.failed_request("put", &full));
        let damage = |place| StoreError::Corruption(format!("damaged at offset {place}"));
        (0..1_000).for_each(|_| log.failed_request("get", &damage(8)));
        log.failed_request("get", &damage(9));
        let seconds = (age.elapsed_ns() / 1_000_000_000) as usize;
        let count = |end| lines.lock().iter().filter(|line| line.ends_with(end)).count();
        assert_eq!(count("offset 9"), 1);
        assert!((1..=1 + 20 * (seconds + 1)).contains(&count("offset 8")), "{}", count("offset 8"));
    }
}

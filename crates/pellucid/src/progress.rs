//! Shows the progress of long work on standard error.

use std::io::{IsTerminal, stderr, stdout};
use std::time::{Duration, Instant};

/// Entries between two lines of progress if standard error is no terminal.
const ENTRIES_PER_LINE: u64 = 100_000;
/// The shortest interval between two updates of the line on a terminal.
const DRAWN_EVERY: Duration = Duration::from_millis(100);
/// Erases the line on a terminal.
const ERASED: &str = "\r\x1b[K";

/// A progress display. On a terminal it is one line, which is updated and erased at the end.
pub(crate) struct Progress {
    /// The words before the figures.
    what: String,
    place: ProgressMode,
    begun: Instant,
    drawn: Option<Instant>,
    /// The number of entries at which the next line is printed.
    next_line: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ProgressMode {
    Nowhere,
    Terminal,
    /// A file or a pipe, which gets a line every [`ENTRIES_PER_LINE`].
    Lines,
}

impl Progress {
    /// Shows progress on a terminal, or as lines elsewhere; shows nothing if `is_silent`.
    pub(crate) fn everywhere(what: String, is_silent: bool) -> Progress {
        let place = match stderr().is_terminal() {
            _ if is_silent => ProgressMode::Nowhere,
            true => ProgressMode::Terminal,
            false => ProgressMode::Lines,
        };
        Progress::at(place, what)
    }

    /// Shows progress only on a terminal. If `has_output`, the command writes data to standard
    /// output, and nothing is shown if that is a terminal too: the two would mix.
    pub(crate) fn on_terminal(what: String, has_output: bool) -> Progress {
        let is_shown = stderr().is_terminal() && !(has_output && stdout().is_terminal());
        Progress::at(if is_shown { ProgressMode::Terminal } else { ProgressMode::Nowhere }, what)
    }

    fn at(place: ProgressMode, what: String) -> Progress {
        let next_line = ENTRIES_PER_LINE;
        Progress { what, place, begun: Instant::now(), drawn: None, next_line }
    }

    /// Shows the number of entries and bytes that are done.
    pub(crate) fn show(&mut self, entries: u64, bytes: u64) {
        match self.place {
            ProgressMode::Nowhere => {}
            ProgressMode::Terminal => self.draw(|since| figures(entries, bytes, since)),
            ProgressMode::Lines => {
                if entries >= self.next_line {
                    eprintln!("{} {entries} entries", self.what);
                    self.next_line = entries + ENTRIES_PER_LINE;
                }
            }
        }
    }

    /// Shows on a terminal the bytes that are done, and the bytes of the whole.
    pub(crate) fn show_share(&mut self, done_bytes: u64, total_bytes: u64) {
        if self.place == ProgressMode::Terminal {
            self.draw(|since| {
                let (done, total) = (mebibytes(done_bytes), mebibytes(total_bytes));
                let rate = done / seconds(since);
                format!("{done:.1} of {total:.1} MiB, {rate:.1} MiB/s")
            });
        }
    }

    fn draw(&mut self, figures: impl Fn(Duration) -> String) {
        if self.drawn.is_none_or(|drawn| drawn.elapsed() >= DRAWN_EVERY) {
            self.drawn = Some(Instant::now());
            eprint!("{ERASED}{} {}", self.what, figures(self.begun.elapsed()));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            eprint!("{ERASED}");
        }
    }
}

fn figures(entries: u64, bytes: u64, since: Duration) -> String {
    let (mebibytes, seconds) = (mebibytes(bytes), seconds(since));
    let (per_second, rate) = (entries as f64 / seconds, mebibytes / seconds);
    format!("{entries} entries, {mebibytes:.1} MiB, {per_second:.0}/s, {rate:.1} MiB/s")
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn seconds(since: Duration) -> f64 {
    since.as_secs_f64().max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_totals_and_rates() {
        let text = figures(3_000, 6 << 20, Duration::from_secs(2));
        assert_eq!(text, "3000 entries, 6.0 MiB, 1500/s, 3.0 MiB/s");
    }
}

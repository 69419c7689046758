//! Silences of a server: times in which no answer came although one was awaited.

use pellucid_clock::{Clock, Ticks};

/// The longest silence of a run, by thread: no answer came to a thread that awaited one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Silence {
    /// The end of the silence, since the start of the run.
    pub end_ns: u64,
    /// The length of the silence.
    pub length_ns: u64,
    /// The length of the silence in which the run ended; 0 if nothing was awaited then.
    pub at_end_ns: u64,
}

impl Silence {
    /// The longer silence of two threads, and the longer one at the end.
    fn longer(self, other: Silence) -> Silence {
        let longest = if other.length_ns > self.length_ns { other } else { self };
        Silence { at_end_ns: self.at_end_ns.max(other.at_end_ns), ..longest }
    }
}

/// The notes of one thread on silence.
#[derive(Debug, Default)]
pub(crate) struct SilenceRecorder {
    start: Ticks,
    last_answer: Ticks,
    /// The longest silence; in ticks of the clock until [`SilenceRecorder::end`].
    longest: Silence,
}

impl SilenceRecorder {
    pub(crate) fn begin(&mut self, start: Ticks) {
        self.start = start;
        self.last_answer = start;
    }

    /// Ends the current silence: it began at `waiting_since` or at the last answer, whichever is
    /// later.
    #[inline]
    pub(crate) fn heard(&mut self, now: Ticks, waiting_since: Ticks) {
        let waited = now.since(self.last_answer.max(waiting_since));
        if waited > self.longest.length_ns {
            self.longest = Silence { end_ns: now.0, length_ns: waited, at_end_ns: 0 };
        }
        self.last_answer = now;
    }

    /// Ends the recording and converts ticks to nanoseconds. `waiting_since` is the time since
    /// which the thread waits for an answer, if it waits for one.
    pub(crate) fn end(&mut self, clock: &Clock, end: Ticks, waiting_since: Option<Ticks>) {
        let mut at_end = 0;
        if let Some(since) = waiting_since {
            at_end = end.since(self.last_answer.max(since));
            self.heard(end, since);
        }
        let Silence { end_ns: last, length_ns: length, .. } = self.longest;
        self.longest = Silence {
            end_ns: clock.nanoseconds(last.saturating_sub(self.start.0)),
            length_ns: clock.nanoseconds(length),
            at_end_ns: clock.nanoseconds(at_end),
        };
    }

    /// Merges the notes of another thread; both have ended.
    pub(crate) fn merge(&mut self, other: &SilenceRecorder) {
        self.longest = self.longest.longer(other.longest);
    }

    pub(crate) fn finish(self) -> Silence {
        self.longest
    }
}

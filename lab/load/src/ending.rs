//! The end of a thread's run: what is without an answer then, and since when nothing was heard.
//!
//! Histograms hold answers alone. A server that falls silent in the middle of a run would leave
//! them as they were before, so what still waits at the end is noted beside them.

use pellucid_clock::Ticks;

use crate::connection::Link;
use crate::worker::Worker;

/// Requests that are due and not sent whose waits are noted one by one; later ones, which have
/// waited for less, are counted alone.
const NOTED_APART_MAX: u64 = 1_000_000;

impl Worker {
    /// Notes all that was due by `end` and is not answered, and returns how many that are, with
    /// those whose connection broke.
    pub(crate) fn note_end(&mut self, end: Ticks) -> u64 {
        self.note_backlog(end);
        let waiting_since = self.waiting_since(end);
        let mut outstanding = 0;
        let in_flight = self.connections.iter().flat_map(|connection| &connection.in_flight);
        for request in in_flight.chain(&self.left_out) {
            outstanding += 1;
            self.recorder.unanswered(request.intended, end);
        }
        for intended in self.connections.iter().filter_map(|connection| connection.pending) {
            outstanding += 1;
            self.recorder.unanswered(intended, end);
        }
        let due = self.due_by(end);
        if let Some(schedule) = &mut self.schedule {
            let per_send = self.work.requests_per_send as u64;
            for number in 0..due.min(NOTED_APART_MAX) {
                if schedule.next() >= end {
                    break;
                }
                self.recorder.unanswered(schedule.next(), end);
                if (number + 1) % per_send == 0 {
                    schedule.advance();
                }
            }
        }
        self.recorder.finish(end, waiting_since);
        self.recorder.failed + outstanding + due
    }

    /// Requests that are due by then and not sent.
    pub(crate) fn due_by(&self, end: Ticks) -> u64 {
        let due = self.schedule.as_ref().map_or(0, |schedule| schedule.requests_until(end));
        due.min(self.quota_left)
    }

    /// Since when, at the latest, an answer is waited for.
    fn waiting_since(&self, end: Ticks) -> Option<Ticks> {
        let oldest = self.connections.iter().filter_map(|connection| connection.in_flight.front());
        let sent = oldest.chain(&self.left_out).map(|request| request.sent);
        let pending = self.connections.iter().filter_map(|connection| connection.pending);
        let due = self.schedule.as_ref().filter(|_| self.due_by(end) > 0).map(|s| s.next());
        let earliest = sent.chain(pending).chain(due).min();
        earliest.or_else(|| self.cannot_ask().then_some(self.start))
    }

    /// Whether a closed loop would go on and has a connection that is not there.
    fn cannot_ask(&self) -> bool {
        let is_down = |index: usize| self.connections[index].link != Link::Up;
        let lacks_one = (0..self.connections.len()).any(|i| self.is_in_use(i) && is_down(i));
        self.schedule.is_none() && self.quota_left > 0 && lacks_one
    }
}

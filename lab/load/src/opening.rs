//! The life of a socket: opened, secured, given up and replaced.

use std::time::Duration;

use pellucid_clock::Ticks;

use crate::connection::Link;
use crate::http2::Http2;
use crate::loss::Loss;
use crate::worker::{Worker, nanoseconds};
use pellucid_client::http::agreed;

/// How long a connection that was refused, or ended before it carried an answer, stays closed.
const RETRY_DELAY: Duration = Duration::from_millis(50);

impl Worker {
    /// Opens the socket of a connection.
    pub(crate) fn open(&mut self, index: usize) {
        let now = self.clock.now();
        let opening = &self.work.opening;
        let address = match &self.work.directions {
            None => opening.address,
            Some(directions) => directions.address(index % directions.width()),
        };
        let connection = &mut self.connections[index];
        if let Err(error) = connection.open(opening, address, &self.poller, index, now) {
            self.lose(index, Loss::Connect(error));
        }
    }

    /// Goes on with opening a connection; true if it can carry requests now.
    pub(crate) fn finish_opening(&mut self, index: usize) -> bool {
        let connection = &mut self.connections[index];
        let Some(stream) = &mut connection.stream else { return false };
        if let Link::Connecting { since } = connection.link {
            if let Some(error) = stream.socket().take_error().transpose() {
                let error = error.unwrap_or_else(|error| error);
                self.lose(index, Loss::Connect(error));
                return false;
            }
            connection.link = Link::Securing { since, connected: self.clock.now() };
        }
        let http2 = self.work.opening.http2_streams.is_some();
        let secured = match (stream.is_plain(), stream.shake_hands()) {
            (true, _) => Ok(true),
            (false, Ok(None)) => Ok(false),
            (false, Ok(Some(session))) => agreed(session, http2).map(|()| true),
            (false, Err(error)) => Err(error),
        };
        match secured {
            Ok(true) => self.begin_use(index),
            Ok(false) => false,
            Err(error) => {
                self.lose(index, Loss::Connect(error));
                false
            }
        }
    }

    /// Lets a connection carry requests from now on.
    fn begin_use(&mut self, index: usize) -> bool {
        let now = self.clock.now();
        let connection = &mut self.connections[index];
        if let Link::Securing { since, connected } = connection.link {
            let is_tls = self.work.opening.tls.is_some();
            connection.opened = [since, if is_tls { connected } else { now }, now];
            if self.running {
                self.recorder.connected(connection.opened, is_tls);
            }
        }
        connection.link = Link::Up;
        if self.work.keep_alive {
            connection.free_since = now;
        }
        let Some(streams) = self.work.opening.http2_streams else { return true };
        let Some(socket) = connection.stream.take() else { return false };
        match Http2::begin(socket, self.clock, streams, self.work.opening.capture) {
            Ok(http2) => connection.http2 = Some(Box::new(http2)),
            Err(error) => self.lose(index, Loss::Connect(error)),
        }
        self.connections[index].link == Link::Up
    }

    /// Counts why a socket is given up, and replaces it, at once if it was of use.
    pub(crate) fn lose(&mut self, index: usize, loss: Loss) {
        let errors = &mut self.recorder.errors;
        let text = match &loss {
            Loss::Connect(error) => count(&mut errors.connect, format!("connect: {error}")),
            Loss::Read(error) => count(&mut errors.read, format!("read: {error}")),
            Loss::Write(error) => count(&mut errors.write, format!("write: {error}")),
            Loss::Malformed(malformed) => {
                errors.malformed += 1;
                count(&mut errors.read, format!("read: {}", malformed.text()))
            }
            Loss::Abandoned => Some("timeout: no answer came at all".to_owned()),
            Loss::Ended => None,
        };
        if let Some(text) = text {
            self.recorder.explain(|| text);
        }
        let retry_ticks = self.clock.ticks(nanoseconds(RETRY_DELAY));
        let retry_at = Ticks(self.clock.now().0 + retry_ticks);
        let connection = &mut self.connections[index];
        self.recorder.failed += connection.in_flight.len() as u64;
        let useful = connection.proven && !matches!(loss, Loss::Connect(_));
        if !self.work.keep_alive {
            self.recorder.failed += u64::from(connection.pending.take().is_some());
            connection.abort();
            connection.close(if useful { Ticks::default() } else { retry_at });
            if useful && !connection.queued {
                connection.queued = true;
                self.free.push_back(index);
            }
            return;
        }
        connection.close(retry_at);
        if useful && self.is_in_use(index) {
            self.open(index);
        }
    }
}

fn count(counter: &mut u64, text: String) -> Option<String> {
    *counter += 1;
    Some(text)
}

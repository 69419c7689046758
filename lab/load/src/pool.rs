//! The connections of a thread: opened, secured, taken by requests, given up and replaced.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pellucid_client::http::agreed;
use pellucid_clock::{Clock, Ticks};

use crate::connection::{Connection, ConnectionSettings, SocketState};
use crate::disconnect_reason::DisconnectReason;
use crate::http2::Http2;
use crate::poller::Poller;
use crate::recorder::Recorder;
use crate::request_routing::RequestRouting;
use crate::stages::Profile;
use crate::units::nanoseconds;

/// The time for which a connection stays closed if it was refused, or ended before it carried an
/// answer.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// The plan of a thread's connections.
pub(crate) struct PoolPlan {
    pub(crate) opening: ConnectionSettings,
    /// The nodes, if each request goes to the owner of its key.
    pub(crate) directions: Option<RequestRouting>,
    /// The places of this thread's connections in the order of all connections.
    pub(crate) places: Vec<usize>,
    /// The number of connections in use over time.
    pub(crate) profile: Arc<Profile>,
    /// True if connections carry many requests; otherwise, every request opens its own.
    pub(crate) keep_alive: bool,
}

/// The connections of a thread.
pub(crate) struct Pool {
    pub(crate) plan: PoolPlan,
    pub(crate) poller: Poller,
    clock: Clock,
    pub(crate) connections: Vec<Connection>,
    /// Connections that can take a request, in the order in which they became free, so that all are
    /// used evenly. Some may have been lost since.
    free: VecDeque<usize>,
    /// True if connections wait in `free` for requests.
    queues: bool,
    /// The number of connections in use now, over all threads.
    in_use: usize,
    pub(crate) is_running: bool,
}

impl Pool {
    /// A pool of connections none of which is open. If `is_paced`, they queue for requests.
    /// `in_flight_limit` is the room for requests on each.
    pub(crate) fn new(
        plan: PoolPlan,
        clock: Clock,
        in_flight_limit: usize,
        is_paced: bool,
    ) -> io::Result<Pool> {
        let poller = match plan.opening.simulation.clone() {
            Some(simulation) => Poller::simulated(simulation),
            None => Poller::new(),
        }?;
        let capture = plan.opening.capture;
        let width = plan.directions.as_ref().map_or(1, RequestRouting::width);
        let sockets = plan.places.len() * width;
        Ok(Pool {
            poller,
            clock,
            connections: (0..sockets).map(|_| Connection::new(capture, in_flight_limit)).collect(),
            free: VecDeque::with_capacity(plan.places.len()),
            queues: is_paced || !plan.keep_alive,
            in_use: plan.profile.connections_at(0.0),
            is_running: false,
            plan,
        })
    }

    /// The number of sockets of each connection: one or, with `--direct`, one for each node.
    fn width(&self) -> usize {
        self.plan.directions.as_ref().map_or(1, RequestRouting::width)
    }

    /// The first socket of each connection.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = usize> + use<> {
        (0..self.connections.len()).step_by(self.width())
    }

    /// The sockets of the connection to which the socket `index` belongs.
    pub(crate) fn sockets_of(&self, index: usize) -> Range<usize> {
        let width = self.width();
        let first = index / width * width;
        first..first + width
    }

    /// The first socket of the connection to which `index` belongs; it represents the connection in
    /// the queue.
    #[inline]
    pub(crate) fn first_of(&self, index: usize) -> usize {
        match &self.plan.directions {
            None => index,
            Some(_) => self.sockets_of(index).start,
        }
    }

    /// The socket for a request: the one to the owner of its key or, if that is not open, another
    /// open one.
    pub(crate) fn way_of(&mut self, sockets: Range<usize>, request: &[u8]) -> usize {
        let Some(directions) = &mut self.plan.directions else { return sockets.start };
        let owner = sockets.start + directions.owner(request);
        let is_up = |index: &usize| self.connections[*index].link == SocketState::Up;
        let taken = match is_up(&owner) {
            true => owner,
            false => sockets.clone().find(is_up).unwrap_or(owner),
        };
        directions.note(taken - sockets.start, taken != owner || !is_up(&owner));
        taken
    }

    /// True if a connection is in use in the current stage. The first one always is: the thread's
    /// share of the requests needs one, also at the begin of a ramp.
    pub(crate) fn is_in_use(&self, index: usize) -> bool {
        let connection = index / self.width();
        connection == 0 || self.plan.places[connection] < self.in_use
    }

    /// Sets the number of connections in use to that of `elapsed_ns` after the start. Returns true
    /// if it grew.
    pub(crate) fn use_as_at(&mut self, elapsed_ns: u64) -> bool {
        let in_use = self.plan.profile.connections_at(elapsed_ns as f64);
        std::mem::replace(&mut self.in_use, in_use) < in_use
    }

    /// True if a connection can take another request.
    #[inline]
    pub(crate) fn has_room(&self, index: usize) -> bool {
        if self.plan.directions.is_none() {
            return self.connections[index].has_room();
        }
        let sockets = &self.connections[self.sockets_of(index)];
        sockets.iter().any(|socket| socket.link == SocketState::Up)
            && sockets.iter().all(|socket| socket.in_flight.is_empty() && !socket.has_unwritten())
    }

    /// True if a request can begin on a connection at `now`.
    #[inline]
    fn can_take(&self, index: usize, now: Ticks) -> bool {
        match self.plan.directions {
            None => self.connections[index].can_take(self.plan.keep_alive, now),
            Some(_) => self.has_room(index),
        }
    }

    /// Queues a connection that can take a request.
    #[inline]
    pub(crate) fn queue(&mut self, index: usize) {
        let index = self.first_of(index);
        if !self.connections[index].queued && self.has_room(index) {
            self.connections[index].queued = true;
            self.free.push_back(index);
        }
    }

    /// Queues the connections that can take a request and are not queued yet.
    pub(crate) fn refill(&mut self, now: Ticks) {
        if !self.queues {
            return;
        }
        for index in self.firsts() {
            let can_take = self.is_in_use(index) && self.can_take(index, now);
            let connection = &mut self.connections[index];
            if can_take && !connection.queued {
                if !self.plan.keep_alive {
                    // Until now, it was to stay closed, or it was not in use.
                    connection.free_since = now;
                }
                connection.queued = true;
                self.free.push_back(index);
            }
        }
    }

    /// True if a connection waits for a request.
    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Takes the connection that has been free for the longest time.
    pub(crate) fn take_free(&mut self) -> Option<usize> {
        while let Some(index) = self.free.pop_front() {
            self.connections[index].queued = false;
            // A connection in the queue can take a request unless it was lost meanwhile.
            if self.is_in_use(index) && self.can_take(index, Ticks(u64::MAX)) {
                return Some(index);
            }
        }
        None
    }

    /// True if a connection that is in use is not open.
    pub(crate) fn lacks_one(&self) -> bool {
        let is_down = |index: usize| self.connections[index].link != SocketState::Up;
        (0..self.connections.len()).any(|index| self.is_in_use(index) && is_down(index))
    }

    /// The number of connections that are being opened.
    pub(crate) fn count_connecting(&self) -> usize {
        let connecting = |connection: &&Connection| match connection.link {
            SocketState::Connecting { .. } | SocketState::Securing { .. } => true,
            SocketState::Up => connection.http2.as_ref().is_some_and(|http2| !http2.is_ready()),
            SocketState::Down { .. } => false,
        };
        self.connections.iter().filter(connecting).count()
    }

    /// Opens the socket of a connection.
    pub(crate) fn open(&mut self, index: usize, recorder: &mut Recorder) {
        let now = self.clock.now();
        let opening = &self.plan.opening;
        let address = match &self.plan.directions {
            None => &opening.address,
            Some(directions) => directions.address(index % directions.width()),
        };
        let connection = &mut self.connections[index];
        if let Err(error) = connection.open(opening, address, &self.poller, index, now) {
            self.lose(index, DisconnectReason::Connect(error), recorder);
        }
    }

    /// Goes on with opening a connection. Returns true if it can carry requests now.
    pub(crate) fn finish_opening(&mut self, index: usize, recorder: &mut Recorder) -> bool {
        match self.secure(index) {
            Ok(true) => self.begin_use(index, recorder),
            Ok(false) => return false,
            Err(error) => self.lose(index, DisconnectReason::Connect(error), recorder),
        }
        self.connections[index].link == SocketState::Up
    }

    /// Goes on with the TLS handshake. Returns true if it is done, or if there is no TLS.
    fn secure(&mut self, index: usize) -> io::Result<bool> {
        let connection = &mut self.connections[index];
        let Some(stream) = &mut connection.stream else { return Ok(false) };
        if let SocketState::Connecting { since } = connection.link {
            if let Some(error) = stream.socket().take_error()? {
                return Err(error);
            }
            connection.link = SocketState::Securing { since, connected: self.clock.now() };
        }
        if stream.is_plain() {
            return Ok(true);
        }
        let Some(session) = stream.shake_hands()? else { return Ok(false) };
        agreed(session, self.plan.opening.http2_streams.is_some()).map(|()| true)
    }

    /// Makes a connection ready to carry requests, and starts HTTP/2 on it if it is used.
    fn begin_use(&mut self, index: usize, recorder: &mut Recorder) {
        let now = self.clock.now();
        let connection = &mut self.connections[index];
        if let SocketState::Securing { since, connected } = connection.link {
            let is_tls = self.plan.opening.tls.is_some();
            connection.opened = [since, if is_tls { connected } else { now }, now];
            if self.is_running {
                recorder.connected(connection.opened, is_tls);
            }
        }
        connection.link = SocketState::Up;
        if self.plan.keep_alive {
            connection.free_since = now;
        }
        let Some(streams) = self.plan.opening.http2_streams else { return };
        let Some(socket) = connection.stream.take() else { return };
        match Http2::begin(socket, self.clock, streams, self.plan.opening.capture) {
            Ok(http2) => connection.http2 = Some(Box::new(http2)),
            Err(error) => self.lose(index, DisconnectReason::Connect(error), recorder),
        }
    }

    /// Gives up a socket and counts the reason. A socket that has carried an answer is replaced at
    /// once, any other after [`RETRY_DELAY`].
    pub(crate) fn lose(&mut self, index: usize, loss: DisconnectReason, recorder: &mut Recorder) {
        let useful =
            self.connections[index].proven && !matches!(loss, DisconnectReason::Connect(_));
        let is_abandoned = matches!(loss, DisconnectReason::Abandoned);
        recorder.lost(loss);
        let now = self.clock.now();
        let retry_at = Ticks(now.0 + self.clock.ticks(nanoseconds(RETRY_DELAY)));
        let connection = &mut self.connections[index];
        for request in &connection.in_flight {
            match is_abandoned {
                true => recorder.abandoned(request, now),
                false => recorder.lost_request(request.timed_out),
            }
        }
        if !self.plan.keep_alive {
            if connection.pending.take().is_some() {
                recorder.lost_request(false);
            }
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
            self.open(index, recorder);
        }
    }

    /// Writes the pending bytes of an HTTP/1.1 connection, as far as its socket takes them.
    pub(crate) fn flush(&mut self, index: usize, recorder: &mut Recorder) {
        match self.connections[index].flush() {
            Ok(()) => self.note_written(index),
            Err(error) => self.lose(index, DisconnectReason::Write(error), recorder),
        }
    }

    /// Notes the time at which watched requests were written, when nothing waits for the socket.
    #[inline]
    pub(crate) fn note_written(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if !connection.notes_write || connection.has_unwritten() {
            return;
        }
        connection.notes_write = false;
        let now = self.clock.now();
        for watch in connection.in_flight.iter_mut().filter_map(|r| r.watch.as_mut()) {
            watch.written.get_or_insert(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use pellucid_client::http::Address;

    use super::*;
    use crate::simulation::{HttpServer, Reply, Simulation};
    use crate::stages::Stage;

    /// Regression: at the begin of a ramp, a thread without a connection in use sent nothing of its
    /// share.
    #[test]
    fn the_first_connection_of_a_thread_is_always_in_use() {
        let simulation = Simulation::new(HttpServer::new(|_| Reply::ok()));
        let clock = simulation.clock();
        let (duration, rate_per_second) = (Duration::from_secs(1), Some(1));
        let stage = Stage { duration, rate_per_second, ramp: true, connections: None };
        let opening = ConnectionSettings {
            address: Address::Tcp(([192, 0, 2, 1], 80).into()),
            tls: None,
            http2_streams: None,
            capture: false,
            simulation: Some(simulation),
        };
        let plan = PoolPlan {
            opening,
            directions: None,
            places: vec![3, 7],
            profile: Arc::new(Profile::new(&[stage], 8)),
            keep_alive: true,
        };
        let mut pool = Pool::new(plan, clock, 1, true).unwrap();
        let in_use = |pool: &Pool| [0, 1].map(|index| pool.is_in_use(index));
        assert_eq!(in_use(&pool), [true, false]);
        assert!(pool.use_as_at(1_000_000_000));
        assert_eq!(in_use(&pool), [true, true]);
    }
}

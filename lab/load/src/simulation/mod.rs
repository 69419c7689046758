//! A run in virtual time against a simulated server in the same process.
//!
//! Two real clocks on a busy machine never agree: a thread that is not scheduled for 50 ms measures
//! 50 ms that neither side has caused. Proof that the generator measures what the server did
//! therefore needs virtual time. It passes only when both sides have nothing left to do, and by
//! exactly as much as the next of them asks for. All the rest is the ordinary generator: its
//! threads, its event loop, its sockets (pairs of them instead of TCP, because these pass bytes on
//! within the call).
//!
//! The simulation replaces two things: opening a connection, and waiting where a thread would
//! block.
#![allow(clippy::disallowed_types, reason = "nothing here serves requests, and time is simulated")]

mod server;

use std::fmt;
use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pellucid_clock::{Clock, SimulatedClock};
use socket2::SockRef;

pub use server::{HttpServer, Reply, Request};

use crate::units::nanoseconds;

/// The time of day at which every simulation begins, in milliseconds since the Unix epoch.
const BEGIN_UNIX_MS: u64 = 1_700_000_000_000;

/// The buffer of each socket, as it is by default on most machines (the kernel doubles it), so that
/// a run is the same on all.
const SEND_BUFFER_BYTES: usize = 104 << 10;

/// The simulated service at the other end of the connections.
pub trait Service: Send {
    /// Accepts a new connection; its socket does not block.
    ///
    /// # Errors
    /// The error with which the connection is refused.
    fn accept(&mut self, socket: UnixStream) -> io::Result<()>;

    /// Does everything that can be done at `now_ns` without waiting. Returns the time of the next
    /// thing to do if nothing arrives, which is later than `now_ns`; `None` if there is none.
    fn step(&mut self, now_ns: u64) -> Option<u64>;
}

/// The time that the simulated machine takes from the generator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimulatedOverhead {
    /// The lateness of each wake-up after a wait, as of a thread that shares its core.
    pub wake_up_late: Duration,
    /// The processor time that the generator takes for each event.
    pub event_cost: Duration,
    /// The part of the lateness in which other processes had the processor.
    pub taken_by_others: Duration,
}

/// A clock that only the run advances, and the service that the run loads.
pub struct Simulation {
    clock: &'static SimulatedClock,
    connections: AtomicUsize,
    burden: SimulatedOverhead,
    state: Mutex<State>,
}

struct State {
    service: Box<dyn Service>,
    /// Time that passed while neither side had anything to do.
    idle_ns: u64,
    /// Time in which other processes had the processor.
    waited_ns: u64,
}

impl Simulation {
    /// A simulation for [`crate::LoadOptions::simulation`], at the begin of its time. Several runs
    /// may use it one after another.
    #[must_use]
    pub fn new(service: impl Service + 'static) -> Arc<Simulation> {
        Simulation::burdened(service, SimulatedOverhead::default())
    }

    /// A simulation of a machine that takes time from the generator.
    #[must_use]
    pub fn burdened(service: impl Service + 'static, burden: SimulatedOverhead) -> Arc<Simulation> {
        let state = Mutex::new(State { service: Box::new(service), idle_ns: 0, waited_ns: 0 });
        let clock = SimulatedClock::leaked(BEGIN_UNIX_MS);
        Arc::new(Simulation { clock, connections: AtomicUsize::new(0), burden, state })
    }

    /// The clock of the run.
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock::simulated(self.clock)
    }

    /// The number of connections that were opened so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Lets time pass between two runs, in which the service goes on working.
    pub fn pass(&self, duration: Duration) {
        let nothing = || Ok(0);
        // The closure never fails, so the wait cannot.
        let _ = self.wait(nanoseconds(duration), nothing);
    }

    /// Opens a connection to the service.
    pub(crate) fn connect(&self) -> io::Result<TcpStream> {
        let (ours, theirs) = UnixStream::pair()?;
        for socket in [&ours, &theirs] {
            socket.set_nonblocking(true)?;
            SockRef::from(socket).set_send_buffer_size(SEND_BUFFER_BYTES)?;
        }
        self.state().service.accept(theirs)?;
        self.connections.fetch_add(1, Ordering::Relaxed);
        Ok(TcpStream::from(OwnedFd::from(ours)))
    }

    /// The wait of a thread that must not block: lets the service work and time pass until `look`
    /// finds an event, for `timeout_ns` at most. Returns the number of events.
    pub(crate) fn wait(
        &self,
        timeout_ns: u64,
        mut look: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut state = self.state();
        let begin = self.now_ns();
        let deadline = begin.saturating_add(timeout_ns);
        loop {
            let now = self.now_ns();
            let due = state.service.step(now);
            let count = look()?;
            if count > 0 || now >= deadline {
                let is_late = now > begin;
                let late = if is_late { self.burden.wake_up_late } else { Duration::ZERO };
                if is_late {
                    state.waited_ns += nanoseconds(self.burden.taken_by_others);
                }
                let work = nanoseconds(self.burden.event_cost) * count as u64;
                self.clock.advance_ns(nanoseconds(late) + work);
                return Ok(count);
            }
            let next = due.map_or(deadline, |due| due.min(deadline));
            assert!(next > now, "a service that has something to do now does it now");
            state.idle_ns += next - now;
            self.clock.advance_ns(next - now);
        }
    }

    /// Lets time pass until `time_ns` while the thread busy-waits.
    pub(crate) fn spin_until(&self, time_ns: u64) {
        self.clock.advance_ns(time_ns.saturating_sub(self.now_ns()));
    }

    /// The time in which the thread worked: all time in which it did not wait.
    pub(crate) fn worked(&self) -> Duration {
        Duration::from_nanos(self.now_ns() - self.state().idle_ns)
    }

    /// The time in which the thread waited for a processor, in nanoseconds.
    pub(crate) fn waited_ns(&self) -> u64 {
        self.state().waited_ns
    }

    /// The share of the processors that other processes had; `None` if they had none.
    pub(crate) fn others_share(&self) -> Option<f64> {
        let share = self.waited_ns() as f64 / self.now_ns().max(1) as f64;
        (share > 0.0).then_some(share)
    }

    fn now_ns(&self) -> u64 {
        self.clock().now().0
    }

    /// Locks the state. A poisoned lock is used as it is: the panic of the service is passed on by
    /// the run.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("now_ns", &self.now_ns()).finish_non_exhaustive()
    }
}

//! Waits for sockets and for the next send, to the microsecond.
//!
//! The usual interfaces to epoll round a wait up to whole milliseconds, which is ten intervals at
//! 10,000 requests per second. Since version 5.11, Linux has `epoll_pwait2`, which takes
//! nanoseconds. If it is missing or forbidden, a timer that epoll watches does the same, with one
//! more system call for each wait. Events are edge-triggered and registered once per connection, so
//! that a request costs one wait, one read and one write.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use pellucid_clock::{Clock, Ticks, Timer};
use pellucid_thread::RunAccount;

use crate::simulation::Simulation;
use crate::wake_up_lateness::WakeUpLateness;

/// The largest number of events that one wait returns; the others come with the next one.
const MAX_EVENTS: usize = 1_024;
/// The token of the timer, which no connection can have.
const TIMER_TOKEN: u64 = u64::MAX;
/// The events for which sockets are watched, edge-triggered.
const SOCKET_EVENTS: i32 = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
const NS_PER_SECOND: u64 = 1_000_000_000;

/// The events that happened to one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub(crate) token: usize,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// True if the other side has ended the connection, or it has failed. No further event will
    /// report that.
    pub(crate) ended: bool,
}

#[derive(Debug)]
enum Timeouts {
    /// Waits by `epoll_pwait2`, to the nanosecond.
    Precise,
    /// Waits by a timer that epoll watches.
    Timer(Timer),
    /// Waits in virtual time: nothing blocks.
    Simulated(Arc<Simulation>),
}

/// An epoll instance with precise timeouts.
pub(crate) struct Poller {
    epoll: OwnedFd,
    timeouts: Timeouts,
    events: Vec<libc::epoll_event>,
    /// The kernel's counts of the thread that created the poller, if the kernel has them.
    account: Option<RunAccount>,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Poller> {
        let mut poller = Poller::with(Timeouts::Precise)?;
        // Tests `epoll_pwait2` itself: `wait(0)` would use another call.
        match poller.wait_precise(0) {
            Ok(_) => Ok(poller),
            // ENOSYS of an old kernel, EPERM of an old sandbox.
            Err(_) => Poller::with_timer(),
        }
    }

    pub(crate) fn with_timer() -> io::Result<Poller> {
        let timer = Timer::new()?;
        let raw_timer = timer.as_raw_fd();
        let poller = Poller::with(Timeouts::Timer(timer))?;
        let interest = libc::EPOLLIN | libc::EPOLLET;
        poller.control(libc::EPOLL_CTL_ADD, raw_timer, interest, TIMER_TOKEN)?;
        Ok(poller)
    }

    /// A poller whose waits take virtual time.
    pub(crate) fn simulated(simulation: Arc<Simulation>) -> io::Result<Poller> {
        Poller::with(Timeouts::Simulated(simulation))
    }

    fn with(timeouts: Timeouts) -> io::Result<Poller> {
        // SAFETY: the call takes no pointers.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made, and nobody else has it.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        let account = RunAccount::of_this_thread().ok();
        Ok(Poller { epoll, timeouts, events: Vec::with_capacity(MAX_EVENTS), account })
    }

    /// Watches a socket until it is closed.
    pub(crate) fn register(&self, socket: BorrowedFd<'_>, token: usize) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket.as_raw_fd(), SOCKET_EVENTS, token as u64)
    }

    /// Makes the next wait report a socket again that was not read to its end.
    pub(crate) fn remind(&self, socket: BorrowedFd<'_>, token: usize) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket.as_raw_fd(), SOCKET_EVENTS, token as u64)
    }

    fn control(&self, operation: i32, fd: RawFd, interest: i32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest as u32, u64: token };
        // SAFETY: both descriptors are open, and the event outlives the call.
        let outcome =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &raw mut event) };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits for events, for `timeout_ns` at most, and returns their number. A timeout of zero does
    /// not wait.
    pub(crate) fn wait(&mut self, timeout_ns: u64) -> io::Result<usize> {
        self.events.clear();
        let count = match &self.timeouts {
            Timeouts::Simulated(simulation) => {
                let simulation = Arc::clone(simulation);
                simulation.wait(timeout_ns, || self.wait_ms(0))
            }
            _ if timeout_ns == 0 => self.wait_ms(0),
            Timeouts::Precise => self.wait_precise(timeout_ns),
            Timeouts::Timer(timer) => {
                timer.set(Duration::from_nanos(timeout_ns), Duration::ZERO)?;
                self.wait_ms(-1)
            }
        };
        match count {
            Ok(count) => {
                // SAFETY: the kernel has written this many events, at most the capacity.
                unsafe { self.events.set_len(count) };
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn wait_ms(&mut self, timeout_ms: i32) -> io::Result<usize> {
        let (epoll, events) = (self.epoll.as_raw_fd(), self.events.as_mut_ptr());
        // SAFETY: the buffer holds MAX_EVENTS events.
        let count = unsafe { libc::epoll_wait(epoll, events, MAX_EVENTS as i32, timeout_ms) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    fn wait_precise(&mut self, timeout_ns: u64) -> io::Result<usize> {
        let timeout = libc::timespec {
            tv_sec: (timeout_ns / NS_PER_SECOND) as _,
            tv_nsec: (timeout_ns % NS_PER_SECOND) as _,
        };
        // SAFETY: the buffer holds MAX_EVENTS events, the timeout outlives the call, and no signal
        // mask is given.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                MAX_EVENTS as i32,
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    /// A new record of the calling thread's wake-ups. In virtual time, no wait is late.
    pub(crate) fn punctuality(&self) -> WakeUpLateness {
        match self.timeouts {
            Timeouts::Simulated(_) => WakeUpLateness::of_simulation(),
            Timeouts::Precise | Timeouts::Timer(_) => WakeUpLateness::new(self.taken()),
        }
    }

    /// The number of times that the kernel has preempted the calling thread.
    pub(crate) fn taken(&self) -> u64 {
        // SAFETY: all zeros are a value of this structure of integers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the structure outlives the call; where it fails, it stays zero.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
        u64::try_from(usage.ru_nivcsw).unwrap_or(0)
    }

    /// The time that the thread that created the poller has waited for a processor so far, in
    /// nanoseconds.
    pub(crate) fn waited_ns(&self) -> u64 {
        if let Timeouts::Simulated(simulation) = &self.timeouts {
            return simulation.waited_ns();
        }
        let times = self.account.as_ref().and_then(RunAccount::times);
        times.map_or(0, |times| times.waited_ns)
    }

    /// Busy-waits until `time`.
    pub(crate) fn spin_until(&self, clock: Clock, time: Ticks) {
        if let Timeouts::Simulated(simulation) = &self.timeouts {
            simulation.spin_until(time.0);
        }
        while clock.now() < time {
            std::hint::spin_loop();
        }
    }

    /// Processor time of the calling thread.
    pub(crate) fn cpu_time(&self) -> Duration {
        if let Timeouts::Simulated(simulation) = &self.timeouts {
            return simulation.worked();
        }
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the time outlives the call; where it fails, it stays zero.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    /// The event at `index` of the last wait; `None` if it was the timer.
    #[inline]
    pub(crate) fn event(&self, index: usize) -> Option<Readiness> {
        let libc::epoll_event { events, u64: token } = self.events[index];
        let has = |flags: i32| events & flags as u32 != 0;
        (token != TIMER_TOKEN).then(|| Readiness {
            token: token as usize,
            readable: has(libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR),
            writable: has(libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR),
            ended: has(libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR),
        })
    }
}

/// Sets the timer slack of this thread to the minimum. By default, the kernel may prolong waits by
/// 50 µs, to wake several sleepers at once.
pub(crate) fn wake_up_on_time() {
    const SLACK_NS: libc::c_ulong = 1;
    // SAFETY: the call takes no pointers; where it is refused, waits are only less precise.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::Instant;

    use super::*;

    fn pollers() -> [Poller; 2] {
        [Poller::new().unwrap(), Poller::with_timer().unwrap()]
    }

    #[test]
    fn a_wait_ends_after_its_timeout_and_not_before() {
        for mut poller in pollers() {
            for timeout_us in [1, 300, 20_000] {
                let begin = Instant::now();
                let count = poller.wait(timeout_us * 1_000).unwrap();
                assert!(begin.elapsed() >= Duration::from_micros(timeout_us));
                assert!((0..count).all(|index| poller.event(index).is_none()));
            }
        }
    }

    #[test]
    fn events_name_the_connection_and_its_end() {
        for mut poller in pollers() {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            poller.register(client.as_fd(), 7).unwrap();
            let first = wait_for_event(&mut poller);
            assert_eq!((first.token, first.writable, first.readable), (7, true, false));
            server.write_all(b"x").unwrap();
            let second = wait_for_event(&mut poller);
            assert!(second.readable && !second.ended);
            drop(server);
            assert!(wait_for_event(&mut poller).ended);
        }
    }

    fn wait_for_event(poller: &mut Poller) -> Readiness {
        for _ in 0..100 {
            let count = poller.wait(50_000_000).unwrap();
            if let Some(event) = (0..count).find_map(|index| poller.event(index)) {
                return event;
            }
        }
        panic!("no event came");
    }
}

//! The ticks at which an event loop looks at its time limits.
//!
//! A wait with a time limit sets a timer and takes it back, for every wake-up. A descriptor that
//! becomes readable every quarter of a second costs nothing in between.

use std::time::Duration;

/// The time between two looks at time limits.
pub(crate) const SWEEP_PAUSE: Duration = Duration::from_millis(250);

#[cfg(target_os = "linux")]
mod descriptor {
    use std::io;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::time::Duration;

    use mio::unix::SourceFd;
    use mio::{Interest, Poll, Token};
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };

    use super::SWEEP_PAUSE;

    /// A timer of the kernel.
    pub(crate) struct Ticker(OwnedFd);

    impl Ticker {
        /// Has `poll` tell of `token` every [`SWEEP_PAUSE`].
        ///
        /// # Errors
        /// If the system has no more descriptors.
        pub(crate) fn start(poll: &Poll, token: Token) -> io::Result<Ticker> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            let pause = Timespec { tv_sec: 0, tv_nsec: SWEEP_PAUSE.subsec_nanos().into() };
            let times = Itimerspec { it_interval: pause, it_value: pause };
            timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)?;
            let mut source = SourceFd(&timer.as_raw_fd());
            poll.registry().register(&mut source, token, Interest::READABLE)?;
            Ok(Ticker(timer))
        }

        /// Makes the next tick an event of its own.
        pub(crate) fn take(&mut self) {
            // Nothing to read is no harm: somebody else's event was taken for ours.
            let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
        }

        /// The longest time that a wait may last.
        pub(crate) fn limit(&self) -> Option<Duration> {
            None
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod descriptor {
    use std::io;
    use std::time::Duration;

    use mio::{Poll, Token};

    /// Elsewhere, a limit on each wait.
    pub(crate) struct Ticker;

    impl Ticker {
        pub(crate) fn start(_poll: &Poll, _token: Token) -> io::Result<Ticker> {
            Ok(Ticker)
        }

        pub(crate) fn take(&mut self) {}

        pub(crate) fn limit(&self) -> Option<Duration> {
            Some(super::SWEEP_PAUSE)
        }
    }
}

pub(crate) use descriptor::Ticker;

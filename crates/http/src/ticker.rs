//! What wakes an event loop for its time limits.
//!
//! A wait with a time limit sets a timer and takes it back, for every wake-up. A descriptor that
//! becomes readable every quarter of a second costs nothing in between.

use std::time::Duration;

/// How often time limits are looked at.
pub(crate) const SWEEP_PAUSE: Duration = Duration::from_millis(250);

#[cfg(target_os = "linux")]
mod descriptor {
    use std::fs::File;
    use std::io::{self, Read};
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::time::Duration;

    use mio::unix::SourceFd;
    use mio::{Interest, Poll, Token};

    use super::SWEEP_PAUSE;

    /// A timer of the kernel.
    pub(crate) struct Ticker {
        timer: File,
    }

    impl Ticker {
        /// Has `poll` tell of `token` every [`SWEEP_PAUSE`].
        ///
        /// # Errors
        /// If the system has no more descriptors.
        pub(crate) fn start(poll: &Poll, token: Token) -> io::Result<Ticker> {
            // SAFETY: the call has no other effect than its result.
            let number = unsafe {
                libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC)
            };
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the descriptor was just made, and nobody else has it.
            let timer = File::from(unsafe { OwnedFd::from_raw_fd(number) });
            let pause = libc::timespec {
                tv_sec: SWEEP_PAUSE.as_secs() as libc::time_t,
                tv_nsec: SWEEP_PAUSE.subsec_nanos() as libc::c_long,
            };
            let times = libc::itimerspec { it_interval: pause, it_value: pause };
            // SAFETY: the times are there to be read, and nothing is written.
            if unsafe { libc::timerfd_settime(number, 0, &times, std::ptr::null_mut()) } != 0 {
                return Err(io::Error::last_os_error());
            }
            let mut source = SourceFd(&timer.as_raw_fd());
            poll.registry().register(&mut source, token, Interest::READABLE)?;
            Ok(Ticker { timer })
        }

        /// Makes the next tick an event of its own.
        pub(crate) fn take(&mut self) {
            // Nothing to read is no harm: somebody else's event was taken for ours.
            let _ = self.timer.read(&mut [0; 8]);
        }

        /// How long a wait may last.
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

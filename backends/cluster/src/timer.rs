//! The timer that wakes an event loop for the time limits of its links.

use std::time::Duration;

/// The interval at which time limits are looked at; so a wait may last this much longer than its
/// limit.
pub(crate) const TICK: Duration = Duration::from_millis(50);

#[cfg(target_os = "linux")]
mod descriptor {
    use std::fs::File;
    use std::io::{self, Read};
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    use mio::unix::SourceFd;
    use mio::{Interest, Registry, Token};

    use super::TICK;

    /// A timer of the kernel.
    pub(crate) struct Timer {
        timer: File,
    }

    impl Timer {
        pub(crate) fn start(registry: &Registry, token: Token) -> io::Result<Timer> {
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
                tv_sec: TICK.as_secs() as libc::time_t,
                tv_nsec: TICK.subsec_nanos() as libc::c_long,
            };
            let times = libc::itimerspec { it_interval: pause, it_value: pause };
            // SAFETY: the times are there to be read, and nothing is written.
            if unsafe { libc::timerfd_settime(number, 0, &times, std::ptr::null_mut()) } != 0 {
                return Err(io::Error::last_os_error());
            }
            registry.register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
            Ok(Timer { timer })
        }

        /// Makes the next tick an event of its own.
        pub(crate) fn take(&mut self) {
            // Nothing to read is no harm.
            let _ = self.timer.read(&mut [0; 8]);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod descriptor {
    use std::io;

    use mio::{Registry, Token};

    /// Elsewhere, time limits are looked at when anything else wakes the loop.
    pub(crate) struct Timer;

    impl Timer {
        pub(crate) fn start(_registry: &Registry, _token: Token) -> io::Result<Timer> {
            Ok(Timer)
        }

        pub(crate) fn take(&mut self) {}
    }
}

pub(crate) use descriptor::Timer;

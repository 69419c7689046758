//! A kernel timer as a descriptor (`timerfd`), for loops that wait for descriptors.
//!
//! A wait with a timeout sets and cancels a timer for every wake-up. A descriptor that becomes
//! readable at intervals costs nothing in between.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// A timer whose descriptor is readable after it has expired.
#[derive(Debug)]
pub struct Timer(File);

impl Timer {
    /// A timer that is not set.
    ///
    /// # Errors
    /// If the system has no more descriptors.
    pub fn new() -> io::Result<Timer> {
        // SAFETY: the call takes no pointers.
        let number = unsafe {
            libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC)
        };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just created, and is owned only here.
        Ok(Timer(File::from(unsafe { OwnedFd::from_raw_fd(number) })))
    }

    /// A timer that expires every `interval`.
    ///
    /// # Errors
    /// If the system has no more descriptors, or cannot represent the interval.
    pub fn every(interval: Duration) -> io::Result<Timer> {
        let timer = Timer::new()?;
        timer.set(interval, interval)?;
        Ok(timer)
    }

    /// Sets the timer to expire after `first`, and then every `interval` unless that is zero. If
    /// `first` is zero, the timer is stopped.
    ///
    /// # Errors
    /// If the system cannot represent a time.
    pub fn set(&self, first: Duration, interval: Duration) -> io::Result<()> {
        let setting =
            libc::itimerspec { it_interval: timespec(interval), it_value: timespec(first) };
        // SAFETY: the setting outlives the call, and the old one is not asked for.
        let outcome = unsafe {
            libc::timerfd_settime(self.as_raw_fd(), 0, &raw const setting, std::ptr::null_mut())
        };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Consumes the expirations so far, so that the next one is a new event.
    pub fn take(&self) {
        // It is harmless if there is nothing to read: another event was mistaken for this one.
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// True if the timer expires within a minute.
    fn is_readable(timer: &Timer) -> bool {
        let mut poll = libc::pollfd { fd: timer.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the one structure outlives the call.
        let count = unsafe { libc::poll(&raw mut poll, 1, 60_000) };
        count == 1
    }

    #[test]
    fn a_timer_is_readable_at_each_expiration() {
        let timer = Timer::every(Duration::from_millis(1)).unwrap();
        for _ in 0..3 {
            assert!(is_readable(&timer));
            timer.take();
        }
        timer.set(Duration::from_secs(3_600), Duration::ZERO).unwrap();
        timer.take();
        timer.take();
    }
}

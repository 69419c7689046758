//! The clock: its source of ticks, and its rate.

use std::sync::OnceLock;

use crate::calibration;
use crate::millisecond;
use crate::simulated::SimulatedClock;
use crate::ticks::Ticks;
use crate::wall::WallTime;

/// The source of a [`Clock`]. It is shown with every figure, because it limits the precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSource {
    /// The processor's invariant time stamp counter.
    Tsc,
    /// The monotonic clock of the system: `clock_gettime(CLOCK_MONOTONIC)`.
    Monotonic,
    /// A [`SimulatedClock`], which a test advances.
    Simulated,
}

impl ClockSource {
    /// The name used in reports and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ClockSource::Tsc => "tsc",
            ClockSource::Monotonic => "monotonic",
            ClockSource::Simulated => "simulated",
        }
    }
}

#[derive(Clone, Copy)]
enum Reader {
    Tsc,
    Monotonic,
    Simulated(&'static SimulatedClock),
}

/// A calibrated clock. It is small and `Copy`, so that a timeline can carry its own.
#[derive(Clone, Copy)]
pub struct Clock {
    reader: Reader,
    ticks_per_second: u64,
    /// The nanoseconds per tick as a 32.32 fixed-point number, so that conversion needs no
    /// division.
    nanoseconds_per_tick_fixed: u64,
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock")
            .field("source", &self.source())
            .field("ticks_per_second", &self.ticks_per_second)
            .finish()
    }
}

impl Clock {
    /// The machine's clock, calibrated on first use (about 20 ms) and shared from then on.
    #[must_use]
    pub fn system() -> Clock {
        static SYSTEM: OnceLock<Clock> = OnceLock::new();
        *SYSTEM.get_or_init(|| match calibration::tsc_ticks_per_second() {
            Some(rate) => Clock::with(Reader::Tsc, rate),
            None => Clock::monotonic(),
        })
    }

    /// The monotonic clock of the operating system, even if the processor has a better one.
    #[must_use]
    pub fn monotonic() -> Clock {
        Clock::with(Reader::Monotonic, 1_000_000_000)
    }

    /// A clock that reads `simulated`; a tick is a nanosecond.
    #[must_use]
    pub fn simulated(simulated: &'static SimulatedClock) -> Clock {
        Clock::with(Reader::Simulated(simulated), 1_000_000_000)
    }

    fn with(reader: Reader, ticks_per_second: u64) -> Clock {
        assert!(ticks_per_second > 0, "a clock that never ticks measures nothing");
        let fixed = (1_000_000_000_u128 << 32) / u128::from(ticks_per_second);
        let nanoseconds_per_tick_fixed = u64::try_from(fixed).unwrap_or(u64::MAX);
        Clock { reader, ticks_per_second, nanoseconds_per_tick_fixed }
    }

    /// Reads the clock.
    #[inline(always)]
    #[must_use]
    pub fn now(&self) -> Ticks {
        match self.reader {
            Reader::Tsc => calibration::read_tsc(),
            Reader::Monotonic => calibration::read_monotonic(),
            Reader::Simulated(clock) => clock.now(),
        }
    }

    /// The time of day, for dates that people and protocols see; never for durations. If the clock
    /// reads the processor's counter, this takes a third of the time of [`WallTime::now`].
    #[inline]
    #[must_use]
    pub fn wall(&self) -> WallTime {
        match self.reader {
            Reader::Simulated(clock) => clock.wall(),
            Reader::Tsc => millisecond::now(|nanoseconds| self.ticks(nanoseconds)),
            Reader::Monotonic => WallTime::now(),
        }
    }

    /// Converts `ticks` to nanoseconds, rounded down.
    #[inline]
    #[must_use]
    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        let product = u128::from(ticks) * u128::from(self.nanoseconds_per_tick_fixed);
        u64::try_from(product >> 32).unwrap_or(u64::MAX)
    }

    /// Converts `nanoseconds` to ticks, rounded down.
    #[must_use]
    pub fn ticks(&self, nanoseconds: u64) -> u64 {
        let product = u128::from(nanoseconds) * u128::from(self.ticks_per_second);
        u64::try_from(product / 1_000_000_000).unwrap_or(u64::MAX)
    }

    /// The source of the clock.
    #[must_use]
    pub fn source(&self) -> ClockSource {
        match self.reader {
            Reader::Tsc => ClockSource::Tsc,
            Reader::Monotonic => ClockSource::Monotonic,
            Reader::Simulated(_) => ClockSource::Simulated,
        }
    }

    /// The calibrated rate.
    #[must_use]
    pub fn ticks_per_second(&self) -> u64 {
        self.ticks_per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::CalibrationReading;

    #[test]
    fn system_clock_agrees_with_the_monotonic_clock() {
        let clock = Clock::system();
        let begin = CalibrationReading::read(|| clock.now());
        std::thread::sleep(std::time::Duration::from_millis(50));
        let end = CalibrationReading::read(|| clock.now());
        let measured_ns = clock.nanoseconds(end.ticks.since(begin.ticks)) as f64;
        // The readings of the monotonic clock bound the time from both sides, even if the thread
        // lost the processor. The factors allow for the error of the rate.
        let (least_ns, most_ns) = (end.before_ns - begin.after_ns, end.after_ns - begin.before_ns);
        let range = least_ns as f64 * 0.99..=most_ns as f64 * 1.01;
        assert!(range.contains(&measured_ns), "{measured_ns} not in {range:?} with {clock:?}");
    }

    #[test]
    fn conversions_are_inverse_within_a_tick() {
        for clock in [Clock::system(), Clock::monotonic()] {
            for nanoseconds in [1_000, 1_000_000, 3_600_000_000_000] {
                let back = clock.nanoseconds(clock.ticks(nanoseconds));
                assert!(nanoseconds.abs_diff(back) <= 1 + nanoseconds / 1_000_000_000);
            }
        }
    }

    #[test]
    fn a_counter_that_steps_back_measures_zero() {
        assert_eq!(Ticks(5).since(Ticks(9)), 0);
    }
}

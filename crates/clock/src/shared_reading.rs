//! Readings of a clock that other processes of the same machine and boot can use.

use std::sync::OnceLock;

use crate::source::{Clock, ClockSource};
use crate::ticks::Ticks;

/// The file in which Linux has the identifier of the boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A reading of a clock that another process of the same machine can compare with its own.
///
/// The time stamp counter and the monotonic clock count for the whole machine, so all processes of
/// the same boot read the same time from them. (Virtual machines and time namespaces may shift
/// them; a reader must ignore an implausible reading.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedReading<'text> {
    /// The random identifier that the kernel made when it booted.
    pub boot_id: &'text str,
    /// The name of the clock, as in [`ClockSource::name`].
    pub source: &'text str,
    /// The reading.
    pub ticks: Ticks,
}

impl SharedReading<'static> {
    /// A reading of `clock` for other processes; none if they cannot read that clock, or if the
    /// boot is unknown.
    #[must_use]
    pub fn of(clock: &Clock, ticks: Ticks) -> Option<SharedReading<'static>> {
        let source = clock.source();
        let boot_id = boot_id().filter(|_| source != ClockSource::Simulated)?;
        Some(SharedReading { boot_id, source: source.name(), ticks })
    }
}

impl<'text> SharedReading<'text> {
    /// Parses the displayed form of a [`SharedReading`]; none if the text is invalid.
    #[must_use]
    pub fn parse(text: &'text str) -> Option<SharedReading<'text>> {
        let mut parts = text.split(';').map(str::trim);
        let mut next = |name: &str| parts.next()?.strip_prefix(name)?.strip_prefix('=');
        Some(SharedReading {
            boot_id: next("boot")?,
            source: next("clock")?,
            ticks: Ticks(next("arrived")?.parse().ok()?),
        })
    }

    /// The reading, if it comes from `clock`; none if it is of another clock, machine or boot.
    #[must_use]
    pub fn on(&self, clock: &Clock) -> Option<Ticks> {
        let own = SharedReading::of(clock, self.ticks)?;
        (own == *self).then_some(self.ticks)
    }
}

impl std::fmt::Display for SharedReading<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let SharedReading { boot_id, source, ticks } = self;
        write!(f, "boot={boot_id};clock={source};arrived={}", ticks.0)
    }
}

fn boot_id() -> Option<&'static str> {
    static BOOT: OnceLock<Option<String>> = OnceLock::new();
    let boot = BOOT.get_or_init(|| {
        let text = std::fs::read_to_string(BOOT_ID).ok()?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        Some(text.trim().to_owned()).filter(|id| !id.is_empty() && id.chars().all(is_plain))
    });
    boot.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimulatedClock;

    #[test]
    fn a_reading_is_valid_only_on_the_same_clock() {
        let clock = Clock::monotonic();
        let Some(reading) = SharedReading::of(&clock, Ticks(123)) else {
            assert!(boot_id().is_none(), "a known boot has readings for others");
            return;
        };
        let text = reading.to_string();
        assert_eq!(SharedReading::parse(&text), Some(reading));
        assert_eq!(reading.on(&clock), Some(Ticks(123)));
        let others = [
            SharedReading { boot_id: "another", ..reading },
            SharedReading { source: "hpet", ..reading },
        ];
        assert!(others.iter().all(|other| other.on(&clock).is_none()));
        let simulated = Clock::simulated(SimulatedClock::leaked(0));
        assert_eq!(reading.on(&simulated), None);
        assert_eq!(SharedReading::of(&simulated, Ticks(1)), None);
    }

    #[test]
    fn invalid_readings_are_not_parsed() {
        let whole = "boot=a;clock=tsc;arrived=1";
        assert!(SharedReading::parse(whole).is_some());
        for text in ["", "boot=a", "boot=a;clock=tsc", "boot=a;clock=tsc;arrived=-1", "a;b;c"] {
            assert_eq!(SharedReading::parse(text), None, "{text}");
        }
    }
}

//! The boot and the machine of a clock: two processes may compare their readings of it
//! only if it is the same.

use std::sync::OnceLock;

use crate::source::{Clock, ClockSource};
use crate::ticks::Ticks;

/// Linux's file with the identity of the boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A reading of a clock that another process of the same machine can place on its own.
///
/// The time stamp counter and the monotonic clock count for the whole machine, so whoever reads the
/// same one within the same boot reads the same time. (Virtual machines and time namespaces may
/// shift them; a reading that cannot be true must be passed over.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedReading<'text> {
    /// The identifier that the kernel drew at its start.
    pub boot_id: &'text str,
    /// The clock's name, as [`ClockSource::name`] has it.
    pub source: &'text str,
    /// Its reading.
    pub ticks: Ticks,
}

impl SharedReading<'static> {
    /// A reading of `clock` for others; none if nobody else can read that clock, or if the boot is
    /// unknown.
    #[must_use]
    pub fn of(clock: &Clock, ticks: Ticks) -> Option<SharedReading<'static>> {
        let source = clock.source();
        let boot_id = boot_id().filter(|_| source != ClockSource::Simulated)?;
        Some(SharedReading { boot_id, source: source.name(), ticks })
    }
}

impl<'text> SharedReading<'text> {
    /// Reads what [`SharedReading`] is displayed as.
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

    /// The reading on `clock`; none if that is another clock, or one of another machine or boot.
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
    fn a_reading_is_placed_on_the_same_clock_alone() {
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
    fn what_is_no_reading_is_none() {
        let whole = "boot=a;clock=tsc;arrived=1";
        assert!(SharedReading::parse(whole).is_some());
        for text in ["", "boot=a", "boot=a;clock=tsc", "boot=a;clock=tsc;arrived=-1", "a;b;c"] {
            assert_eq!(SharedReading::parse(text), None, "{text}");
        }
    }
}

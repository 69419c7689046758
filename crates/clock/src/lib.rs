//! Ticks: the source of time in Pellucid.
//!
//! A request is stamped half a dozen times on its way, so a stamp must cost only a few nanoseconds.
//! The crate reads the processor's time stamp counter if that runs at a constant rate on all cores
//! (and the kernel itself trusts it), and else the monotonic clock. Hot paths keep raw [`Ticks`].
//! They become nanoseconds off the hot path, by the calibrated [`Clock`].
//!
//! ```
//! let clock = pellucid_clock::Clock::system();
//! let begin = clock.now();
//! let end = clock.now();
//! let elapsed_ns = clock.nanoseconds(end.since(begin));
//! assert!(elapsed_ns < 60_000_000_000);
//! ```

mod calendar;
mod calibration;
mod duration;
mod millisecond;
mod rising;
mod shared_reading;
mod simulated;
mod source;
mod stopwatch;
mod ticks;
mod timer;
mod wall;

pub use calendar::CalendarDate;
pub use duration::parse_duration;
pub use rising::rising;
pub use shared_reading::SharedReading;
pub use simulated::SimulatedClock;
pub use source::{Clock, ClockSource};
pub use stopwatch::Stopwatch;
pub use ticks::Ticks;
pub use timer::Timer;
pub use wall::{HttpDate, WallTime};

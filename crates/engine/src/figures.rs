//! The declaration of figures and their counters. A row of the table in `stats` becomes a public
//! field, a counter, a name on the figures page, and possibly a metric.
//!
//! A row is `name: Kind`, followed by its path on the page if that differs from the name, and by
//! the metric if it has one; its doc comment is also the metric's help. The path of a figure within
//! another one is appended to the outer path; a `#` in a path stands for the whole outer path.

use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_clock::Clock;

/// The metric of a figure.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name, without the prefix of the program.
    pub name: &'static str,
    /// The help text, one sentence.
    pub help: &'static str,
}

/// A number with its path among all figures.
#[derive(Clone, Copy, Debug)]
pub struct FigureValue<'a> {
    /// The path: names and numbers of levels, separated by `/`.
    pub path: &'a str,
    /// The number.
    pub value: u64,
    /// The metric, if the number has one.
    pub metric: Option<Metric>,
}

/// A figure or a group of figures.
pub(crate) trait Figure {
    /// Calls `each` with each of its numbers; `at` is its own path.
    fn show(&self, at: &str, metric: Option<Metric>, each: &mut dyn FnMut(FigureValue<'_>));
    /// Adds another figure of the same kind.
    fn add(&mut self, other: &Self);
}

impl Figure for u64 {
    fn show(&self, path: &str, metric: Option<Metric>, each: &mut dyn FnMut(FigureValue<'_>)) {
        each(FigureValue { path, value: *self, metric });
    }

    fn add(&mut self, other: &u64) {
        *self += other;
    }
}

/// A figure per level: the number of the level is part of the path.
impl<F: Figure> Figure for Vec<F> {
    fn show(&self, at: &str, _: Option<Metric>, each: &mut dyn FnMut(FigureValue<'_>)) {
        for (level, figure) in self.iter().enumerate() {
            figure.show(&format!("{at}{level}"), None, each);
        }
    }

    fn add(&mut self, other: &Vec<F>) {
        self.iter_mut().zip(other).for_each(|(figure, other)| figure.add(other));
    }
}

/// The path of `name` within the path `at`.
pub(crate) fn place(at: &str, name: &str) -> String {
    match (at, name) {
        (_, name) if name.contains('#') => name.replace('#', at),
        ("", inner) | (inner, "") => inner.to_owned(),
        (at, name) => format!("{at}/{name}"),
    }
}

/// A counter.
#[derive(Default)]
pub(crate) struct Number(AtomicU64);

impl Number {
    /// Adds `amount`; other threads may add at the same time. Returns the previous number.
    #[inline]
    pub(crate) fn add(&self, amount: u64) -> u64 {
        self.0.fetch_add(amount, Ordering::Relaxed)
    }

    /// Adds `amount`; only this thread adds. Returns the previous number.
    #[inline]
    pub(crate) fn add_alone(&self, amount: u64) -> u64 {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before.wrapping_add(amount), Ordering::Relaxed);
        before
    }

    pub(crate) fn add_to(&self, _: Clock, sum: &mut u64) {
        *sum += self.0.load(Ordering::Relaxed);
    }
}

/// A counter of ticks, shown in nanoseconds.
#[derive(Default)]
pub(crate) struct Elapsed(pub(crate) Number);

impl Elapsed {
    pub(crate) fn add_to(&self, clock: Clock, sum_ns: &mut u64) {
        *sum_ns += clock.nanoseconds(self.0.0.load(Ordering::Relaxed));
    }
}

/// The public type for a kind of counter. Other kinds are their own type.
macro_rules! shown {
    (Number) => {
        u64
    };
    (Elapsed) => {
        u64
    };
    (Sampled) => {
        SampledTime
    };
    (Steps) => {
        StepFigures
    };
    ($other:ident) => {
        $other
    };
}

/// Declares figures. Fields behind `beside` are not numbers, and are not shown.
macro_rules! figures {
    ($(#[$of:meta])* $figures:ident {
        $($(#[doc = $help:literal])+
        $name:ident: $kind:ident $(at $path:literal)* $(as $metric:literal)?,)*
        $(beside { $($beside:tt)* })?
    }) => {
        $(#[$of])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $figures {
            $($(#[doc = $help])+ pub $name: shown!($kind),)*
            $($($beside)*)?
        }

        impl Figure for $figures {
            fn show(&self, at: &str, _: Option<Metric>, each: &mut dyn FnMut(FigureValue<'_>)) {
                $({
                    let (name, help) = (concat!("", $($metric)?), concat!($($help),+).trim_ascii());
                    let metric = (!name.is_empty()).then_some(Metric { name, help });
                    let places: &[&str] = &[$($path),*];
                    for name in if places.is_empty() { &[stringify!($name)] } else { places } {
                        self.$name.show(&place(at, name), metric, each);
                    }
                })*
            }

            fn add(&mut self, other: &$figures) {
                $(self.$name.add(&other.$name);)*
            }
        }
    };
}

/// Declares figures and their counters. Rows behind `and` are counted elsewhere.
macro_rules! counters {
    ($(#[$of:meta])* $figures:ident from $counters:ident {
        $($(#[doc = $help:literal])+
        $name:ident: $kind:ident $(at $path:literal)* $(as $metric:literal)?,)*
    } $(and { $($others:tt)* })?) => {
        figures! {
            $(#[$of])* $figures {
                $($(#[doc = $help])+ $name: $kind $(at $path)* $(as $metric)?,)*
                $($($others)*)?
            }
        }

        #[doc = concat!("The counters of [`", stringify!($figures), "`].")]
        #[derive(Default)]
        pub(crate) struct $counters {
            $(pub(crate) $name: $kind,)*
        }

        impl $counters {
            pub(crate) fn add_to(&self, clock: Clock, sum: &mut $figures) {
                $(self.$name.add_to(clock, &mut sum.$name);)*
            }
        }
    };
}

counters! {
    /// The sampled time of an operation: each thread times one in
    /// [`SAMPLED_EVERY`](crate::SAMPLED_EVERY).
    #[derive(Copy)]
    SampledTime from Sampled {
        /// The number of samples.
        samples: Number,
        /// The sum of the sampled times, in nanoseconds.
        sum_ns: Elapsed,
    }
}

pub(crate) use {counters, figures, shown};

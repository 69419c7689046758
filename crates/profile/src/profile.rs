//! A recorded profile: its stacks are addresses; names come later, in `resolved`.

use std::collections::HashMap;

use pellucid_thread::{Job, Labels, Site, blocked, contended, monotonic_ns};

use crate::heap;

/// The kind of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Processor time.
    Cpu,
    /// Memory that was allocated and is not freed yet.
    Heap,
    /// Memory that was allocated.
    Allocations,
    /// Waits for locks, attributed to the holder of the lock.
    Mutex,
    /// Waits for locks and conditions, attributed to the waiter.
    Block,
}

impl Kind {
    /// The name in URL paths and file names; the same as Go's.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Cpu => "cpu",
            Kind::Heap => "heap",
            Kind::Allocations => "allocs",
            Kind::Mutex => "mutex",
            Kind::Block => "block",
        }
    }

    /// The two values of a sample, its events and their amount: for each a name and a unit, in the
    /// terms of `pprof`.
    #[must_use]
    pub fn values(self) -> [(&'static str, &'static str); 2] {
        match self {
            Kind::Cpu => [("samples", "count"), ("cpu", "nanoseconds")],
            Kind::Heap => [("inuse_objects", "count"), ("inuse_space", "bytes")],
            Kind::Allocations => [("alloc_objects", "count"), ("alloc_space", "bytes")],
            Kind::Mutex | Kind::Block => [("contentions", "count"), ("delay", "nanoseconds")],
        }
    }

    /// True if the amount is a number of bytes.
    #[must_use]
    pub fn is_bytes(self) -> bool {
        matches!(self, Kind::Heap | Kind::Allocations)
    }
}

/// One event, or several equal ones.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The stack: the program counter or a return address first, then the callers'.
    pub stack: Vec<usize>,
    /// The thread's activity.
    pub labels: Labels,
    /// The name of the thread, where it is known.
    pub thread: String,
    /// The time, by the monotonic clock; zero if the sample sums up events of all times.
    pub at_ns: u64,
    /// The number of events.
    pub events: f64,
    /// Their amount, in the unit of [`Kind::values`].
    pub amount: f64,
}

/// A recorded profile, without names.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its kind.
    pub kind: Kind,
    /// The samples.
    pub samples: Vec<Sample>,
    /// The time at which it begins, by the monotonic clock.
    pub began_ns: u64,
    /// The time that it covers; zero for a single moment, or for all time since the start.
    pub duration_ns: u64,
    /// Samples of this time that were lost, because the ring was full.
    pub lost: u64,
    /// The time at its beginning whose samples were dropped to make room for later ones.
    pub missing_ns: u64,
}

impl Profile {
    /// The counts since the process began, for every kind but [`Kind::Cpu`], which has none here.
    #[must_use]
    pub fn counted(kind: Kind) -> Profile {
        let sites = match kind {
            Kind::Heap | Kind::Allocations => heap::sites(),
            Kind::Mutex => contended(),
            Kind::Block => blocked(),
            Kind::Cpu => Vec::new(),
        };
        let samples = sites.into_iter().map(|site| sample_of(kind, site)).collect();
        Profile { kind, samples, began_ns: monotonic_ns(), duration_ns: 0, lost: 0, missing_ns: 0 }
    }

    /// Subtracts the counts of `earlier`, a profile of the same kind.
    #[must_use]
    pub fn since(mut self, earlier: &Profile) -> Profile {
        let before: HashMap<_, _> =
            earlier.samples.iter().map(|sample| (key_of(sample), sample)).collect();
        for sample in &mut self.samples {
            let counted = before.get(&key_of(sample)).map(|before| (before.events, before.amount));
            let (events, amount) = counted.unwrap_or_default();
            sample.events -= events;
            sample.amount -= amount;
        }
        self.samples.retain(|sample| sample.events > 0.0 || sample.amount > 0.0);
        self.duration_ns = self.began_ns.saturating_sub(earlier.began_ns);
        self.began_ns = earlier.began_ns;
        self
    }
}

type Key<'a> = (u8, u8, Option<usize>, &'a [usize]);

fn key_of(sample: &Sample) -> Key<'_> {
    let Labels { operation, phase, job } = sample.labels;
    (operation, phase, job.map(|job: &'static Job| std::ptr::from_ref(job).addr()), &sample.stack)
}

fn sample_of(kind: Kind, site: Site) -> Sample {
    let Site { labels, stack, counts } = site;
    let (events, amount) = match kind {
        Kind::Heap => (counts.events - counts.undone_events, counts.amount - counts.undone_amount),
        _ => (counts.events, counts.amount),
    };
    // Frees counted before their allocation, and rounding, could make the difference negative.
    let (events, amount) = (events.max(0.0), amount.max(0.0));
    Sample { stack, labels, thread: String::new(), at_ns: 0, events, amount }
}

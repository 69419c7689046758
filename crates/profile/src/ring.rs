//! The lock-free ring that signal handlers write samples to. Any thread may write, no writer waits,
//! and samples that are not fetched in time are lost and counted.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

use pellucid_thread::{Job, Labels, STACK_DEPTH_MAX};

/// Samples that the ring holds. It is emptied ten times a second, so this is room for ten busy
/// threads at the highest rate that can be asked for.
pub(crate) const RING_SAMPLES: usize = 1_024;

/// A sample as a handler writes it.
#[derive(Clone, Debug)]
pub(crate) struct RawSample {
    /// The time, by the monotonic clock.
    pub(crate) at_ns: u64,
    /// The number of events that the sample represents.
    pub(crate) events: u64,
    /// Their amount: processor time, bytes, or the time of waits.
    pub(crate) amount: u64,
    /// The thread, by its index among the names of [`crate::timers::Timers`]; `usize::MAX` if it is
    /// not known.
    pub(crate) thread: usize,
    pub(crate) labels: Labels,
    /// The number of the request if its operation was not known yet, or zero.
    pub(crate) early: u64,
    pub(crate) depth: usize,
    pub(crate) stack: [usize; STACK_DEPTH_MAX],
}

struct Slot {
    /// `2 * number + 1` while the sample with this number is being written, `2 * number + 2` once
    /// it is complete.
    state: AtomicU64,
    /// `2 * number + 2` of the last sample that was given up, because another writer had the slot.
    given_up: AtomicU64,
    /// The phase, shifted by eight bits, and the operation in the lower eight bits.
    labels: AtomicU64,
    early: AtomicU64,
    job: AtomicPtr<Job>,
    at_ns: AtomicU64,
    events: AtomicU64,
    amount: AtomicU64,
    thread: AtomicUsize,
    depth: AtomicUsize,
    stack: [AtomicUsize; STACK_DEPTH_MAX],
}

pub(crate) struct Ring {
    slots: Box<[Slot]>,
    head: AtomicU64,
}

/// The outcome of reading one sample.
enum ReadResult {
    Whole(Box<RawSample>),
    /// The sample is still being written.
    Unfinished,
    /// A later sample took the slot, or the sample was given up.
    Overwritten,
}

impl Ring {
    pub(crate) fn new() -> Ring {
        let slot = || Slot {
            state: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            labels: AtomicU64::new(0),
            early: AtomicU64::new(0),
            job: AtomicPtr::new(ptr::null_mut()),
            at_ns: AtomicU64::new(0),
            events: AtomicU64::new(0),
            amount: AtomicU64::new(0),
            thread: AtomicUsize::new(0),
            depth: AtomicUsize::new(0),
            stack: [const { AtomicUsize::new(0) }; STACK_DEPTH_MAX],
        };
        Ring { slots: (0..RING_SAMPLES).map(|_| slot()).collect(), head: AtomicU64::new(0) }
    }

    /// Appends a sample. Safe to call in signal handlers.
    pub(crate) fn push(&self, sample: &RawSample) {
        let number = self.head.fetch_add(1, Ordering::Relaxed);
        self.write(number, sample);
    }

    /// Writes the sample with this number, or gives it up if another writer has the slot. That
    /// happens if a writer is delayed for a whole round of the ring: then either a later writer has
    /// taken its slot, or the later writer finds it still writing.
    fn write(&self, number: u64, sample: &RawSample) {
        let slot = &self.slots[number as usize % RING_SAMPLES];
        let (unfinished, finished) = (number * 2 + 1, number * 2 + 2);
        let claim =
            |state: u64| (state.is_multiple_of(2) && state < unfinished).then_some(unfinished);
        if slot.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).is_err() {
            slot.given_up.fetch_max(finished, Ordering::Release);
            return;
        }
        fence(Ordering::Release);
        let Labels { phase, operation, job } = sample.labels;
        slot.labels.store(u64::from(phase) << 8 | u64::from(operation), Ordering::Relaxed);
        slot.early.store(sample.early, Ordering::Relaxed);
        let job = job.map_or(ptr::null(), ptr::from_ref).cast_mut();
        slot.job.store(job, Ordering::Relaxed);
        slot.at_ns.store(sample.at_ns, Ordering::Relaxed);
        slot.events.store(sample.events, Ordering::Relaxed);
        slot.amount.store(sample.amount, Ordering::Relaxed);
        slot.thread.store(sample.thread, Ordering::Relaxed);
        slot.depth.store(sample.depth, Ordering::Relaxed);
        for (place, address) in slot.stack.iter().zip(&sample.stack[..sample.depth]) {
            place.store(*address, Ordering::Relaxed);
        }
        slot.state.store(finished, Ordering::Release);
    }

    /// Passes every sample from number `from` on to `visit`. Returns the number to continue from,
    /// and the number of lost samples.
    pub(crate) fn read_from(&self, from: u64, mut visit: impl FnMut(&RawSample)) -> (u64, u64) {
        let head = self.head.load(Ordering::Acquire);
        let mut lost = 0;
        for number in from..head {
            match self.read(number) {
                ReadResult::Whole(sample) => visit(&sample),
                ReadResult::Overwritten => lost += 1,
                ReadResult::Unfinished => return (number, lost),
            }
        }
        (head, lost)
    }

    fn read(&self, number: u64) -> ReadResult {
        let slot = &self.slots[number as usize % RING_SAMPLES];
        let finished = number * 2 + 2;
        let state = slot.state.load(Ordering::Acquire);
        if state != finished {
            let is_lost = state > finished || slot.given_up.load(Ordering::Acquire) >= finished;
            return if is_lost { ReadResult::Overwritten } else { ReadResult::Unfinished };
        }
        let labels = slot.labels.load(Ordering::Relaxed);
        let depth = slot.depth.load(Ordering::Relaxed).min(STACK_DEPTH_MAX);
        let mut sample = Box::new(RawSample {
            at_ns: slot.at_ns.load(Ordering::Relaxed),
            events: slot.events.load(Ordering::Relaxed),
            amount: slot.amount.load(Ordering::Relaxed),
            thread: slot.thread.load(Ordering::Relaxed),
            labels: Labels {
                operation: labels as u8,
                phase: (labels >> 8) as u8,
                // SAFETY: only addresses of statics, or null, are ever stored.
                job: unsafe { slot.job.load(Ordering::Relaxed).as_ref() },
            },
            early: slot.early.load(Ordering::Relaxed),
            depth,
            stack: [0; STACK_DEPTH_MAX],
        });
        for (address, place) in sample.stack[..depth].iter_mut().zip(&slot.stack) {
            *address = place.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        let is_whole = slot.state.load(Ordering::Relaxed) == finished;
        if is_whole { ReadResult::Whole(sample) } else { ReadResult::Overwritten }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(amount: u64) -> RawSample {
        let labels = Labels { operation: 0, phase: 2, job: None };
        let stack = [amount as usize; STACK_DEPTH_MAX];
        RawSample { at_ns: amount, events: 1, amount, thread: 3, labels, early: 8, depth: 5, stack }
    }

    #[test]
    fn samples_round_trip_and_lost_ones_are_counted() {
        let ring = Ring::new();
        ring.push(&sample(7));
        let mut seen = Vec::new();
        assert_eq!(ring.read_from(0, |sample| seen.push(sample.clone())), (1, 0));
        assert_eq!((seen[0].labels.operation, seen[0].labels.phase, seen[0].early), (0, 2, 8));
        assert_eq!((seen[0].depth, seen[0].stack[4], seen[0].stack[5]), (5, 7, 0));
        for number in 0..RING_SAMPLES as u64 + 4 {
            ring.push(&sample(number));
        }
        let mut first = None;
        let (next, lost) = ring.read_from(1, |sample| {
            first.get_or_insert(sample.amount);
        });
        assert_eq!((next, lost, first), (RING_SAMPLES as u64 + 5, 4, Some(4)));
    }

    /// Regression: a delayed writer overwrote a later sample. The reader waited for that sample and
    /// fetched nothing until the ring had gone round once more.
    #[test]
    fn a_delayed_writer_does_not_delay_the_reader() {
        let ring = Ring::new();
        let held_up = ring.head.fetch_add(1, Ordering::Relaxed);
        (0..RING_SAMPLES as u64).for_each(|number| ring.push(&sample(number)));
        ring.write(held_up, &sample(9_999));
        let mut seen = Vec::new();
        let (next, lost) = ring.read_from(0, |sample| seen.push(sample.amount));
        assert_eq!((next, lost), (RING_SAMPLES as u64 + 1, 1));
        assert!(seen.iter().copied().eq(0..RING_SAMPLES as u64));
        // A writer is delayed while it writes; the writer of the next round gives its sample up.
        let held_up = ring.head.fetch_add(1, Ordering::Relaxed);
        let slot = &ring.slots[held_up as usize % RING_SAMPLES];
        slot.state.store(held_up * 2 + 1, Ordering::Relaxed);
        (0..RING_SAMPLES as u64).for_each(|number| ring.push(&sample(number)));
        let head = ring.head.load(Ordering::Relaxed);
        assert_eq!(ring.read_from(next, |_| {}), (head, 2));
    }

    #[test]
    fn many_writers_leave_no_torn_sample() {
        let ring = Ring::new();
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let ring = &ring;
                scope.spawn(move || {
                    for number in 0..20_000 {
                        ring.push(&sample(number * 3 + writer));
                    }
                });
            }
            let (mut next, mut seen, mut lost_in_all) = (0, 0, 0);
            while next < 60_000 {
                let (to, lost) = ring.read_from(next, |sample| {
                    assert_eq!(sample.at_ns, sample.amount);
                    assert_eq!(sample.stack[4], sample.amount as usize);
                    seen += 1;
                });
                (next, lost_in_all) = (to, lost_in_all + lost);
            }
            assert_eq!(seen + lost_in_all, 60_000);
        });
    }
}

//! An allocator that samples its allocations at random: on average one sample every N bytes.
//!
//! An allocation that is not sampled costs one subtraction. A free costs one look at a small table
//! that tells whether the address may belong to a sample.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pellucid_thread::{Counts, STACK_DEPTH_MAX, Site, Sites, capture, exponential, labels};

use crate::timed_samples;

/// Bytes between two samples, on average, unless set otherwise.
pub const SAMPLE_BYTES: u64 = 512 << 10;
/// The most sampled allocations that are tracked until they are freed: enough for about 12 GiB in
/// use at the usual rate.
const LIVE_MAX: usize = 24_000;
const LIVE_SLOTS: usize = 32_768;
/// Entries of [`FILTER`]. The table fits the first-level cache.
const FILTER_PLACES: usize = 1 << 14;
/// Bytes after which a thread checks again whether sampling was switched on.
const OFF_BYTES: f64 = (256 << 10) as f64;

/// Mean bytes between two samples; zero while sampling is off.
static MEAN_BYTES: AtomicU64 = AtomicU64::new(0);
static SITES: Sites = Sites::new();
/// The number of tracked allocations whose address hashes to each entry. An entry that reaches its
/// maximum stays there. A free takes the lock of [`LIVE`] only if its entry is not zero.
static FILTER: [AtomicU8; FILTER_PLACES] = [const { AtomicU8::new(0) }; FILTER_PLACES];
/// One MiB of zeros, whose pages take memory as they are written.
static LIVE: Mutex<LiveAllocations> = Mutex::new(LiveAllocations::new());

struct Countdown {
    /// Bytes until the next sample.
    left: Cell<f64>,
    /// The mean distance with which `left` was drawn; zero while sampling is off.
    mean: Cell<f64>,
}

thread_local! {
    static COUNTDOWN: Countdown =
        const { Countdown { left: Cell::new(0.0), mean: Cell::new(0.0) } };
}

/// Sets the mean distance of samples of allocations to `mean_bytes`; zero switches sampling off.
pub fn set_allocation_sampling(mean_bytes: u64) {
    MEAN_BYTES.store(mean_bytes, Ordering::Relaxed);
}

/// The mean distance of samples in bytes, as last set; zero if sampling is off.
#[must_use]
pub fn allocation_sampling() -> u64 {
    MEAN_BYTES.load(Ordering::Relaxed)
}

/// The sites of all allocations sampled so far.
pub(crate) fn sites() -> Vec<Site> {
    SITES.all()
}

/// The site with this number.
pub(crate) fn site(number: usize) -> Option<Site> {
    SITES.at(number)
}

/// Memory that is in use and was allocated at one site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SiteUsage {
    /// The number of the site.
    pub(crate) site: u32,
    /// The estimated number of allocations.
    pub(crate) events: f32,
    /// The estimated number of bytes.
    pub(crate) bytes: f32,
}

/// The memory in use now, in the order of the sites.
pub(crate) fn in_use() -> Vec<SiteUsage> {
    let of = |(site, counts): (usize, Counts)| SiteUsage {
        site: site as u32,
        events: (counts.events - counts.undone_events) as f32,
        bytes: (counts.amount - counts.undone_amount) as f32,
    };
    SITES.counts().into_iter().map(of).filter(|site| site.bytes >= 1.0).collect()
}

/// An allocator that samples the allocations of an inner one. Sampling is off until
/// [`set_allocation_sampling`].
#[derive(Debug, Default)]
pub struct SampledAllocator<A> {
    inner: A,
}

impl<A> SampledAllocator<A> {
    /// Wraps `inner`.
    pub const fn new(inner: A) -> SampledAllocator<A> {
        SampledAllocator { inner }
    }
}

// SAFETY: every call goes to the inner allocator, and its result is returned unchanged.
unsafe impl<A: GlobalAlloc> GlobalAlloc for SampledAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on, here and below.
        let pointer = unsafe { self.inner.alloc(layout) };
        note_allocated(pointer, layout.size());
        pointer
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let pointer = unsafe { self.inner.alloc_zeroed(layout) };
        note_allocated(pointer, layout.size());
        pointer
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // Before the memory can be handed out again.
        note_freed(pointer);
        // SAFETY: as above.
        unsafe { self.inner.dealloc(pointer, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note_freed(pointer);
        // SAFETY: as above. Should it fail, the old memory stays and is no longer watched.
        let grown = unsafe { self.inner.realloc(pointer, layout, new_size) };
        note_allocated(grown, new_size);
        grown
    }
}

#[inline(always)]
fn note_allocated(pointer: *mut u8, size: usize) {
    COUNTDOWN.with(|countdown| {
        let left = countdown.left.get() - size as f64;
        countdown.left.set(left);
        if left < 0.0 {
            on_countdown(countdown, pointer, size);
        }
    });
}

/// Draws the next distance, and samples this allocation if a distance ended within it.
#[cold]
#[inline(never)]
fn on_countdown(countdown: &Countdown, pointer: *mut u8, size: usize) {
    let mean = MEAN_BYTES.load(Ordering::Relaxed) as f64;
    let was = countdown.mean.replace(mean);
    if mean == 0.0 {
        countdown.left.set(OFF_BYTES);
        return;
    }
    if was == 0.0 {
        // The first distance begins in front of this allocation.
        countdown.left.set(exponential(mean) - size as f64);
        if countdown.left.get() >= 0.0 {
            return;
        }
    }
    let drawn_by = if was == 0.0 { mean } else { was };
    countdown.left.set(exponential(mean));
    if !pointer.is_null() {
        take_sample(pointer, size as f64, drawn_by);
    }
}

/// Records a sample. The probability that an allocation of this size is sampled is known, so the
/// sample represents one divided by that probability allocations.
fn take_sample(pointer: *mut u8, size: f64, mean: f64) {
    let probability = 1.0 - (-size / mean).exp();
    if probability <= 0.0 {
        return;
    }
    let mut frames = [0; STACK_DEPTH_MAX];
    let depth = capture(&mut frames);
    let (events, amount) = (1.0 / probability, size / probability);
    let labels = labels();
    let site = SITES.count(labels, &frames[..depth], |counts| {
        counts.events += events;
        counts.amount += amount;
    });
    timed_samples::note_allocation(labels, &frames[..depth], events, amount);
    let sampled = SampledAllocation { address: pointer.addr(), site, events, amount };
    if live().insert(sampled) {
        let place = &FILTER[place_of(pointer)];
        // No lock is needed; at the maximum the number stays.
        let more = |number: u8| number.checked_add(1);
        let _ = place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    } else {
        // The table is full. An allocation whose free goes unnoticed must not look like a leak.
        SITES.count_at(site, |counts| undo(counts, &sampled));
    }
}

fn undo(counts: &mut Counts, sampled: &SampledAllocation) {
    counts.undone_events += sampled.events;
    counts.undone_amount += sampled.amount;
}

#[inline(always)]
fn note_freed(pointer: *mut u8) {
    if FILTER[place_of(pointer)].load(Ordering::Relaxed) != 0 {
        forget(pointer);
    }
}

#[cold]
#[inline(never)]
fn forget(pointer: *mut u8) {
    let Some(sampled) = live().remove(pointer.addr()) else { return };
    let fewer = |number: u8| if number == u8::MAX { None } else { number.checked_sub(1) };
    let place = &FILTER[place_of(pointer)];
    let _ = place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    SITES.count_at(sampled.site, |counts| undo(counts, &sampled));
}

#[inline(always)]
fn place_of(pointer: *mut u8) -> usize {
    (pointer.addr() >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - 14)
}

/// A sampled allocation that is tracked until it is freed.
#[derive(Clone, Copy)]
struct SampledAllocation {
    /// Zero where the slot is free.
    address: usize,
    site: usize,
    events: f64,
    amount: f64,
}

/// The tracked allocations: a hash table of fixed size with linear probing.
struct LiveAllocations {
    slots: [SampledAllocation; LIVE_SLOTS],
    used: usize,
}

fn live() -> MutexGuard<'static, LiveAllocations> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LiveAllocations {
    const fn new() -> LiveAllocations {
        let free = SampledAllocation { address: 0, site: 0, events: 0.0, amount: 0.0 };
        LiveAllocations { slots: [free; LIVE_SLOTS], used: 0 }
    }

    fn home(address: usize) -> usize {
        (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - 15)
    }

    /// Adds an allocation; returns false if there is no room.
    fn insert(&mut self, sampled: SampledAllocation) -> bool {
        if self.used >= LIVE_MAX {
            return false;
        }
        let slots = &mut self.slots;
        let mut at = LiveAllocations::home(sampled.address);
        while slots[at].address != 0 {
            at = (at + 1) % LIVE_SLOTS;
        }
        slots[at] = sampled;
        self.used += 1;
        true
    }

    fn remove(&mut self, address: usize) -> Option<SampledAllocation> {
        let slots = &mut self.slots;
        let mut at = LiveAllocations::home(address);
        while slots[at].address != address {
            if slots[at].address == 0 {
                return None;
            }
            at = (at + 1) % LIVE_SLOTS;
        }
        let removed = slots[at];
        // Later entries move up, so that no search ends early at the gap.
        let mut next = at;
        loop {
            next = (next + 1) % LIVE_SLOTS;
            if slots[next].address == 0 {
                break;
            }
            let home = LiveAllocations::home(slots[next].address);
            let distance_to_gap = (at + LIVE_SLOTS - home) % LIVE_SLOTS;
            let distance_to_next = (next + LIVE_SLOTS - home) % LIVE_SLOTS;
            if distance_to_gap <= distance_to_next {
                slots[at] = slots[next];
                at = next;
            }
        }
        slots[at].address = 0;
        self.used -= 1;
        Some(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_live_allocations_finds_what_it_holds() {
        static TABLE: Mutex<LiveAllocations> = Mutex::new(LiveAllocations::new());
        let mut live = TABLE.lock().unwrap();
        let sampled =
            |address| SampledAllocation { address, site: address, events: 1.0, amount: 2.0 };
        assert!(live.remove(16).is_none());
        // Addresses of pages: their homes lie close together and far apart.
        let addresses: Vec<usize> = (1..=LIVE_MAX).map(|page| page << 12).collect();
        assert!(addresses.iter().all(|address| live.insert(sampled(*address))));
        assert!(!live.insert(sampled(8)), "it is full");
        for address in addresses.iter().step_by(2) {
            assert_eq!(live.remove(*address).map(|found| found.site), Some(*address));
            assert!(live.remove(*address).is_none());
        }
        for address in addresses.iter().skip(1).step_by(2) {
            assert_eq!(live.remove(*address).map(|found| found.site), Some(*address));
        }
        assert_eq!(live.used, 0);
    }
}

//! Sites: stacks with labels, and their counts. The table has a fixed size, because it is filled
//! inside the allocator and inside locks, where nothing may be allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::activity::Labels;
use crate::stack::STACK_DEPTH_MAX;

/// The most sites of a table. Further ones are counted together, without a stack.
pub const SITES_MAX: usize = 4_096;
/// The slots of the hash table: a fifth stays empty, so that probing is short.
const SLOTS: usize = SITES_MAX + SITES_MAX / 4;
/// The slot for all sites that found no room.
const OTHER: usize = SLOTS;

/// The counts of a site; estimates if events were sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// The number of events.
    pub events: f64,
    /// The sum of the events: bytes, or nanoseconds.
    pub amount: f64,
    /// The number of events that were undone: allocations that were freed.
    pub undone_events: f64,
    /// The sum of the events that were undone.
    pub undone_amount: f64,
}

/// A site, copied out of its table.
#[derive(Clone, Debug)]
pub struct Site {
    /// The activity of the thread.
    pub labels: Labels,
    /// The return addresses, the innermost first. Empty for sites that found no room in the table.
    pub stack: Vec<usize>,
    /// The counts.
    pub counts: Counts,
}

#[derive(Clone, Copy)]
struct Slot {
    /// The hash of labels and stack; zero if the slot is free.
    hash: u64,
    labels: Labels,
    depth: usize,
    stack: [usize; STACK_DEPTH_MAX],
    counts: Counts,
}

struct Table {
    /// The slots; empty before the first site.
    slots: &'static mut [Slot],
    used: usize,
}

/// A table of sites.
pub struct Sites {
    table: Mutex<Table>,
}

impl Default for Sites {
    fn default() -> Sites {
        Sites::new()
    }
}

impl Sites {
    /// An empty table. It allocates nothing before the first site; then about 3 MiB, of which only
    /// the used pages take memory.
    #[must_use]
    pub const fn new() -> Sites {
        Sites { table: Mutex::new(Table { slots: &mut [], used: 0 }) }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `count` with the counts of the site of `labels` and `stack`; returns its number.
    pub fn count(&self, labels: Labels, stack: &[usize], count: impl FnOnce(&mut Counts)) -> usize {
        let mut table = self.lock();
        let Some(number) = table.find_or_add(labels, stack) else { return OTHER };
        count(&mut table.slots[number].counts);
        number
    }

    /// Calls `count` with the counts of the site of this number.
    pub fn count_at(&self, number: usize, count: impl FnOnce(&mut Counts)) {
        if let Some(slot) = self.lock().slots.get_mut(number) {
            count(&mut slot.counts);
        }
    }

    /// All sites with counts.
    #[must_use]
    pub fn all(&self) -> Vec<Site> {
        (0..=OTHER).filter_map(|number| self.at(number)).collect()
    }

    /// The site of this number; none if it has no counts.
    #[must_use]
    pub fn at(&self, number: usize) -> Option<Site> {
        // The stack is copied after the unlock: nothing may be allocated under the lock.
        let slot = self.lock().slots.get(number).copied();
        let slot = slot.filter(|slot| slot.counts != Counts::default())?;
        let stack = slot.stack[..slot.depth].to_vec();
        Some(Site { labels: slot.labels, stack, counts: slot.counts })
    }

    /// The numbers of all sites with counts, and those counts.
    #[must_use]
    pub fn counts(&self) -> Vec<(usize, Counts)> {
        let counts = |number: usize| {
            let counts = self.lock().slots.get(number).map(|slot| slot.counts);
            counts.filter(|counts| *counts != Counts::default()).map(|counts| (number, counts))
        };
        (0..=OTHER).filter_map(counts).collect()
    }
}

impl Table {
    /// The number of the site; [`OTHER`] if there is no room, none if there is no memory.
    fn find_or_add(&mut self, labels: Labels, stack: &[usize]) -> Option<usize> {
        if self.slots.is_empty() {
            let layout = Layout::array::<Slot>(SLOTS + 1).ok()?;
            // SAFETY: the layout is not empty.
            let slots: *mut Slot = unsafe { System.alloc_zeroed(layout) }.cast();
            if slots.is_null() {
                return None;
            }
            // SAFETY: the memory is for this many slots, and zeroes are a valid slot. It is never
            // freed: tables are statics.
            self.slots = unsafe { std::slice::from_raw_parts_mut(slots, SLOTS + 1) };
        }
        let stack = &stack[..stack.len().min(STACK_DEPTH_MAX)];
        let hash = hash_of(labels, stack);
        let has_room = self.used < SITES_MAX;
        let mut number = hash as usize % SLOTS;
        loop {
            let slot = &mut self.slots[number];
            let is_same = slot.hash == hash
                && slot.labels.word() == labels.word()
                && slot.stack[..slot.depth] == *stack;
            if is_same {
                return Some(number);
            }
            if slot.hash == 0 {
                if !has_room {
                    return Some(OTHER);
                }
                (slot.hash, slot.labels, slot.depth) = (hash, labels, stack.len());
                slot.stack[..stack.len()].copy_from_slice(stack);
                self.used += 1;
                return Some(number);
            }
            number = (number + 1) % SLOTS;
        }
    }
}

fn hash_of(labels: Labels, stack: &[usize]) -> u64 {
    let mix =
        |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    stack.iter().fold(mix(1, labels.word()), |hash, address| mix(hash, *address as u64)) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sites_are_one_and_those_without_room_are_counted_together() {
        static SITES: Sites = Sites::new();
        assert!(SITES.all().is_empty());
        let one = |counts: &mut Counts| counts.events += 1.0;
        for address in 1..=SITES_MAX + 5 {
            SITES.count(Labels::default(), &[address, 7], one);
            SITES.count(Labels::default(), &[address, 7], one);
        }
        let number = SITES.count(Labels { phase: 1, ..Labels::default() }, &[1, 7], one);
        assert_eq!(number, OTHER);
        SITES.count_at(number, |counts| counts.amount = 9.0);
        let all = SITES.all();
        let (others, sites): (Vec<&Site>, Vec<&Site>) =
            all.iter().partition(|site| site.stack.is_empty());
        assert_eq!(sites.len(), SITES_MAX);
        assert!(sites.iter().all(|site| site.counts.events == 2.0 && site.stack[1] == 7));
        assert_eq!((others.len(), others[0].counts.events), (1, 11.0));
        assert_eq!(others[0].counts.amount, 9.0);
    }
}

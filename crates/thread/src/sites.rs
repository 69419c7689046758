//! Sites: stacks with labels, and what was counted there. A table of fixed size, because it is
//! filled from within the allocator and from within locks, where nothing may be allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::activity::Labels;
use crate::stack::STACK_DEPTH_MAX;

/// Sites that a table holds. What comes after that is counted together, without a stack.
pub const SITES_MAX: usize = 4_096;
/// Slots of the table: a fifth stays empty, so that a search is short.
const SLOTS: usize = SITES_MAX + SITES_MAX / 4;
/// The slot of what found no room.
const OTHER: usize = SLOTS;

/// The counts of a site; estimates, where only a sample was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Events.
    pub events: f64,
    /// Their amount: bytes, or nanoseconds.
    pub amount: f64,
    /// Events that were undone: allocations that were freed.
    pub undone_events: f64,
    /// The amount that was undone.
    pub undone_amount: f64,
}

/// A site, copied out of its table.
#[derive(Clone, Debug)]
pub struct Site {
    /// The activity of the thread.
    pub labels: Labels,
    /// Return addresses, the innermost first. Empty for what found no room in the table.
    pub stack: Vec<usize>,
    /// The counts.
    pub counts: Counts,
}

#[derive(Clone, Copy)]
struct Slot {
    /// Zero where the slot is free.
    hash: u64,
    labels: Labels,
    depth: usize,
    stack: [usize; STACK_DEPTH_MAX],
    counts: Counts,
}

struct Table {
    slots: *mut Slot,
    used: usize,
}

// SAFETY: the pointer is to memory that the table alone owns, and is reached under its lock.
unsafe impl Send for Table {}

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
    /// An empty table. It takes no memory before the first site, about 3 MiB then, of which the
    /// system gives what is used.
    #[must_use]
    pub const fn new() -> Sites {
        Sites { table: Mutex::new(Table { slots: std::ptr::null_mut(), used: 0 }) }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts at the site of `labels` and `stack`; returns its number.
    pub fn count(&self, labels: Labels, stack: &[usize], count: impl FnOnce(&mut Counts)) -> usize {
        let mut table = self.lock();
        let Some(number) = table.find_or_add(labels, stack) else { return OTHER };
        count(&mut table.slots()[number].counts);
        number
    }

    /// Counts at the site of this number.
    pub fn count_at(&self, number: usize, count: impl FnOnce(&mut Counts)) {
        if let Some(slot) = self.lock().slots().get_mut(number) {
            count(&mut slot.counts);
        }
    }

    /// All sites at which something was counted.
    #[must_use]
    pub fn all(&self) -> Vec<Site> {
        (0..=OTHER).filter_map(|number| self.at(number)).collect()
    }

    /// The site of this number, if something was counted there.
    #[must_use]
    pub fn at(&self, number: usize) -> Option<Site> {
        // While the table is locked, nothing may be allocated.
        let slot = self.lock().slots().get(number).copied();
        let slot = slot.filter(|slot| slot.counts != Counts::default())?;
        let stack = slot.stack[..slot.depth].to_vec();
        Some(Site { labels: slot.labels, stack, counts: slot.counts })
    }

    /// The numbers of all sites at which something was counted, with the counts.
    #[must_use]
    pub fn counts(&self) -> Vec<(usize, Counts)> {
        let counts = |number: usize| {
            let counts = self.lock().slots().get(number).map(|slot| slot.counts);
            counts.filter(|counts| *counts != Counts::default()).map(|counts| (number, counts))
        };
        (0..=OTHER).filter_map(counts).collect()
    }
}

impl Table {
    fn slots(&mut self) -> &mut [Slot] {
        if self.slots.is_null() {
            return &mut [];
        }
        // SAFETY: the memory was allocated for this many slots, and zeroes are a valid slot.
        unsafe { std::slice::from_raw_parts_mut(self.slots, SLOTS + 1) }
    }

    /// The number of the site; that of [`OTHER`] if there is no room, none if there is no memory.
    fn find_or_add(&mut self, labels: Labels, stack: &[usize]) -> Option<usize> {
        if self.slots.is_null() {
            let layout = Layout::array::<Slot>(SLOTS + 1).ok()?;
            // SAFETY: the layout is not empty. The memory is never freed: tables are statics.
            self.slots = unsafe { System.alloc_zeroed(layout) }.cast();
            if self.slots.is_null() {
                return None;
            }
        }
        let stack = &stack[..stack.len().min(STACK_DEPTH_MAX)];
        let hash = hash_of(labels, stack);
        let has_room = self.used < SITES_MAX;
        let slots = self.slots();
        let mut number = hash as usize % SLOTS;
        loop {
            let slot = &mut slots[number];
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
    fn equal_sites_are_one_and_what_has_no_room_is_counted_together() {
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

//! The sorted order of a memtable's entries, made on demand.
//!
//! The entries that were added since the last call are sorted into a run of their own, and runs are
//! merged so that each is at least twice as long as the next. So a scan after a few writes sorts
//! only these few, and the number of runs is logarithmic in the number of entries. Only readers
//! that need an order pay for it: the first scan of a full memtable of the usual size waits a few
//! milliseconds.

use std::cmp::Ordering as Comparison;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pellucid_thread::Mutex;

use super::nodes::{HEAD_PLACE, Nodes};
use super::sort_item::SortItem;
use crate::ledger::key_front::front_of;

/// A run is at least this many times as long as the one after it.
const RUN_RATIO: usize = 2;

/// The sorted runs so far.
#[derive(Default)]
pub(super) struct Order(Mutex<Runs>);

#[derive(Default)]
struct Runs {
    /// Places in order of ascending keys and descending sequence numbers.
    runs: Vec<Arc<[u32]>>,
    /// The last node that is in a run.
    last: u32,
}

/// Compares two nodes by ascending key and descending sequence number.
fn compare(nodes: &Nodes, one: u32, other: u32) -> Comparison {
    let (one, other) = (nodes.node(one), nodes.node(other));
    one.key().cmp(other.key()).then_with(|| other.sequence().cmp(&one.sequence()))
}

impl Runs {
    /// Sorts the next `count` nodes into a run.
    fn add_run(&mut self, nodes: &Nodes, count: usize) {
        let mut items = nodes.pool().take_sort_items();
        items.reserve_exact(count);
        while items.len() < count {
            let place = nodes.node(self.last).next().load(Ordering::Acquire);
            if place == HEAD_PLACE {
                break;
            }
            let front = front_of(nodes.node(place).key());
            items.push(SortItem { front: ((front >> 64) as u64, front as u64), place });
            self.last = place;
        }
        if !items.is_empty() {
            items.sort_unstable_by(|one, other| {
                let by_front = one.number().cmp(&other.number());
                by_front.then_with(|| compare(nodes, one.place, other.place))
            });
            self.runs.push(items.iter().map(|item| item.place).collect());
        }
        nodes.pool().give_back_sort_items(items);
    }
}

impl Order {
    /// Sorted runs that hold all entries added so far.
    pub(super) fn runs(&self, nodes: &Nodes) -> Vec<Arc<[u32]>> {
        self.update(nodes, |runs| {
            runs.len() > 1 && {
                let (last, before) = (&runs[runs.len() - 1], &runs[runs.len() - 2]);
                before.len() < RUN_RATIO * last.len()
            }
        })
    }

    /// One sorted run that holds all entries added so far.
    pub(super) fn single_run(&self, nodes: &Nodes) -> Arc<[u32]> {
        let runs = self.update(nodes, |runs| runs.len() > 1);
        runs.into_iter().next().unwrap_or_default()
    }

    /// The memory of the runs, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let order = self.0.lock();
        order.runs.iter().map(|run| size_of_val::<[u32]>(run) as u64).sum()
    }

    fn update(
        &self,
        nodes: &Nodes,
        is_merge_due: impl Fn(&[Arc<[u32]>]) -> bool,
    ) -> Vec<Arc<[u32]>> {
        let mut order = self.0.lock();
        let known: usize = order.runs.iter().map(|run| run.len()).sum();
        let new = (nodes.count() as usize).saturating_sub(known);
        if new > 0 {
            order.add_run(nodes, new);
        }
        while is_merge_due(&order.runs) {
            if let (Some(last), Some(before)) = (order.runs.pop(), order.runs.pop()) {
                order.runs.push(merge(nodes, &before, &last));
            }
        }
        order.runs.clone()
    }
}

fn merge(nodes: &Nodes, one: &[u32], other: &[u32]) -> Arc<[u32]> {
    let mut merged = Vec::with_capacity(one.len() + other.len());
    let (mut one, mut other) = (one, other);
    while let (Some((first, one_rest)), Some((second, other_rest))) =
        (one.split_first(), other.split_first())
    {
        if compare(nodes, *first, *second) == Comparison::Less {
            merged.push(*first);
            one = one_rest;
        } else {
            merged.push(*second);
            other = other_rest;
        }
    }
    merged.extend_from_slice(one);
    merged.extend_from_slice(other);
    merged.into()
}

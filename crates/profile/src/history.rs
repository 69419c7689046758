//! The samples of processor time of the last minutes, for a look at the time before an incident.
//!
//! Stacks are stored as paths in a tree, so the callers that two stacks have in common are stored
//! once: a sample then takes some fifty bytes.

use std::collections::{HashMap, VecDeque};

use pellucid_thread::{Labels, early_operation, is_early_awaited};

use crate::ring::RawSample;

/// The most samples that are kept: an hour of one busy thread at the usual rate, or 30 seconds of
/// two at the highest.
pub const HISTORY_SAMPLES_MAX: usize = 60_000;
/// The most nodes of the tree of stacks, per hundred samples of capacity. When the tree is full,
/// the older half of the samples is dropped.
const NODES_PER_HUNDRED: usize = 333;
/// The most samples that wait for their operation; further ones stay without an operation.
const AWAITING_MAX: usize = 16_384;
/// The most losses that are remembered; the oldest go first.
const LOSSES_MAX: usize = 1_000;
const NO_NODE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    /// The caller, or [`NO_NODE`].
    parent: u32,
    address: usize,
}

/// A sample in the history.
#[derive(Clone, Copy)]
pub(crate) struct KeptSample {
    pub(crate) at_ns: u64,
    pub(crate) events: u64,
    pub(crate) amount: u64,
    pub(crate) thread: usize,
    pub(crate) labels: Labels,
    node: u32,
}

/// A sample of a request whose operation was not known yet.
#[derive(Clone, Copy)]
struct PendingSample {
    /// The number of the request.
    early: u64,
    /// The number of the sample, counted from the first that was ever kept.
    sample: u64,
}

#[derive(Default)]
pub(crate) struct History {
    samples_max: usize,
    /// The time at which it began to keep samples.
    began_ns: u64,
    samples: VecDeque<KeptSample>,
    /// The number of the oldest sample, counted from the first that was ever kept.
    first: u64,
    awaiting: Vec<PendingSample>,
    nodes: Vec<Node>,
    children: HashMap<(u32, usize), u32>,
    /// Losses of samples: the time at which each was noticed, and the number of samples.
    losses: VecDeque<(u64, u64)>,
}

impl History {
    /// An empty history with room for `samples_max` samples, which begins at `began_ns`.
    pub(crate) fn new(samples_max: usize, began_ns: u64) -> History {
        History { samples_max, began_ns, ..History::default() }
    }

    fn nodes_max(&self) -> usize {
        self.samples_max * NODES_PER_HUNDRED / 100
    }

    pub(crate) fn push(&mut self, sample: &RawSample) {
        if self.samples.len() >= self.samples_max {
            self.samples.pop_front();
            self.first += 1;
        }
        if self.nodes.len() + sample.depth > self.nodes_max() {
            self.forget_older_half();
        }
        let stack = &sample.stack[..sample.depth];
        let node = stack.iter().rev().fold(NO_NODE, |parent, address| self.node(parent, *address));
        let RawSample { at_ns, events, amount, thread, labels, early, .. } = *sample;
        if early != 0 && self.awaiting.len() < AWAITING_MAX {
            self.awaiting
                .push(PendingSample { early, sample: self.first + self.samples.len() as u64 });
        }
        self.samples.push_back(KeptSample { at_ns, events, amount, thread, labels, node });
    }

    /// Sets the operation of samples that were taken before their request was parsed, where it is
    /// known by now.
    pub(crate) fn resolve_early(&mut self) {
        let History { samples, first, awaiting, .. } = self;
        awaiting.retain(|PendingSample { early, sample }| {
            let place = sample.checked_sub(*first).and_then(|place| usize::try_from(place).ok());
            let Some(kept) = place.and_then(|place| samples.get_mut(place)) else { return false };
            match early_operation(*early) {
                Some(operation) => kept.labels.operation = operation,
                None => return is_early_awaited(*early),
            }
            false
        });
    }

    fn node(&mut self, parent: u32, address: usize) -> u32 {
        *self.children.entry((parent, address)).or_insert_with(|| {
            self.nodes.push(Node { parent, address });
            self.nodes.len() as u32 - 1
        })
    }

    fn forget_older_half(&mut self) {
        let older = self.samples.len() / 2;
        self.first += older as u64;
        let newer = self.samples.split_off(older);
        let nodes = std::mem::take(&mut self.nodes);
        self.children.clear();
        self.samples.clear();
        for mut sample in newer {
            let stack: Vec<usize> = path(&nodes, sample.node).collect();
            let grow = |parent, address: &usize| self.node(parent, *address);
            sample.node = stack.iter().rev().fold(NO_NODE, grow);
            self.samples.push_back(sample);
        }
    }

    /// The samples of the time from `from_ns` up to `to_ns`, with their stacks, innermost first.
    pub(crate) fn between(
        &self,
        from_ns: u64,
        to_ns: u64,
    ) -> impl Iterator<Item = (KeptSample, Vec<usize>)> {
        let within = move |sample: &&KeptSample| (from_ns..to_ns).contains(&sample.at_ns);
        let samples = self.samples.iter().filter(within);
        samples.map(|sample| (*sample, path(&self.nodes, sample.node).collect()))
    }

    /// Records that `count` samples of the time just before `at_ns` were lost.
    pub(crate) fn note_lost(&mut self, at_ns: u64, count: u64) {
        if count > 0 {
            if self.losses.len() >= LOSSES_MAX {
                self.losses.pop_front();
            }
            self.losses.push_back((at_ns, count));
        }
    }

    /// The number of samples whose loss was noticed from `from_ns` up to `to_ns`.
    pub(crate) fn lost_between(&self, from_ns: u64, to_ns: u64) -> u64 {
        let within = self.losses.iter().filter(|(at_ns, _)| (from_ns..to_ns).contains(at_ns));
        within.map(|(_, count)| count).sum()
    }

    /// The part of the time from `from_ns` up to `to_ns` whose samples were dropped to make room
    /// for later ones.
    pub(crate) fn missing_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        self.since_ns().min(to_ns).saturating_sub(from_ns.max(self.began_ns))
    }

    /// The time since which the history holds all samples: its beginning, or the time of the oldest
    /// sample once any were dropped.
    pub(crate) fn since_ns(&self) -> u64 {
        match self.samples.front() {
            Some(oldest) if self.first > 0 => oldest.at_ns,
            _ => self.began_ns,
        }
    }
}

fn path(nodes: &[Node], mut node: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let Node { parent, address } = *nodes.get(node as usize)?;
        node = parent;
        Some(address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_thread::{STACK_DEPTH_MAX, begin_request, number_early_request, set_operation};

    fn sample(at_ns: u64, depth: usize) -> RawSample {
        let mut stack = [0; STACK_DEPTH_MAX];
        (0..depth).for_each(|level| stack[level] = at_ns as usize * 1_000 + level);
        let labels = Labels { operation: 1, ..Labels::default() };
        RawSample { at_ns, events: 1, amount: 1, thread: 2, labels, early: 0, depth, stack }
    }

    #[test]
    fn stacks_are_kept_and_the_oldest_samples_are_dropped() {
        let mut history = History::new(HISTORY_SAMPLES_MAX, 0);
        for at_ns in 0..20_000 {
            history.push(&sample(at_ns, 60));
        }
        assert!(history.nodes.len() <= history.nodes_max());
        let since_ns = history.since_ns();
        assert!(since_ns > 16_000, "{since_ns}");
        assert_eq!(history.missing_ns(since_ns - 10, u64::MAX), 10);
        assert_eq!(history.missing_ns(0, 5_000), 5_000, "all of it");
        assert_eq!(history.missing_ns(since_ns, u64::MAX), 0);
        let kept: Vec<_> = history.between(19_000, 19_010).collect();
        assert_eq!(kept.len(), 10);
        assert_eq!(kept[3].1, &sample(19_003, 60).stack[..60]);
    }

    #[test]
    fn losses_belong_to_the_time_in_which_they_were_found() {
        let mut history = History::new(HISTORY_SAMPLES_MAX, 0);
        (0..LOSSES_MAX as u64 + 5).for_each(|at_ns| history.note_lost(at_ns, 2));
        history.note_lost(9_000, 0);
        assert_eq!(history.lost_between(10, 13), 6);
        assert_eq!(history.lost_between(0, u64::MAX), 2 * LOSSES_MAX as u64);
        assert_eq!(history.missing_ns(0, u64::MAX), 0, "what was lost did not make room");
    }

    #[test]
    fn the_number_of_samples_is_bounded() {
        let mut history = History::new(HISTORY_SAMPLES_MAX, 0);
        for at_ns in 0..HISTORY_SAMPLES_MAX as u64 + 10 {
            history.push(&sample(at_ns % 7, 3));
        }
        assert_eq!(history.samples.len(), HISTORY_SAMPLES_MAX);
        assert_eq!(history.nodes.len(), 21);
    }

    #[test]
    fn an_early_sample_gets_its_operation_later() {
        let mut history = History::new(HISTORY_SAMPLES_MAX, 0);
        let take = |history: &mut History| {
            let mut sample = sample(7, 3);
            (sample.labels.operation, sample.early) = (0, number_early_request());
            history.push(&sample);
        };
        let operations = |history: &History| -> Vec<u8> {
            history.samples.iter().map(|sample| sample.labels.operation).collect()
        };
        begin_request(1);
        take(&mut history);
        // Like many samples, it is fetched before its request has been parsed.
        history.resolve_early();
        assert_eq!((operations(&history), history.awaiting.len()), (vec![0], 1));
        take(&mut history);
        history.forget_older_half();
        take(&mut history);
        set_operation(4);
        history.resolve_early();
        assert_eq!((operations(&history), history.awaiting.len()), (vec![4, 4], 0));
    }
}

//! A profile with names: functions instead of addresses, words instead of labels. All output is
//! made of this.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use pellucid_account::PHASES;
use pellucid_thread::{Job, LOOP_PHASE, Labels};

use crate::component::component_of;
use crate::profile::{Kind, Profile};
use crate::symbols::{Function, Symbols};

/// The phase of an event loop that has no request in hand.
const LOOP: &str = "loop";
/// Prefixes of the functions of the profiler and the allocator. They are the innermost frames of
/// every sample of allocations or waits, and are left out.
const PLUMBING: &[&str] = &[
    "pellucid_thread::",
    "<pellucid_thread::",
    "pellucid_profile::heap",
    "<pellucid_profile::heap",
    "__rust_",
    "__rustc::",
    "__rdl_",
    "alloc::alloc::",
    "<alloc::alloc::",
    "std::thread::local::",
    "<std::thread::local::",
];

/// One frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The function, by its place in [`ResolvedProfile::functions`].
    pub function: u32,
    /// The line; zero if it is not known.
    pub line: u32,
}

/// One sample, or equal ones.
#[derive(Clone, Debug)]
pub struct NamedSample {
    /// The innermost frame first.
    pub stack: Vec<Frame>,
    /// The operation of the request; empty if there is no request or its operation is not known.
    pub operation: String,
    /// The phase of the request, or `loop`; empty for threads that serve no requests.
    pub phase: String,
    /// The background job; empty if there is none.
    pub job: String,
    /// The name of the thread; empty if it is not known.
    pub thread: String,
    /// The component of the program that the time or memory belongs to.
    pub component: &'static str,
    /// The time, by the monotonic clock; zero if it is not known.
    pub at_ns: u64,
    /// The number of events.
    pub events: f64,
    /// Their amount, in the unit of [`Kind::values`].
    pub amount: f64,
}

/// A profile with names.
#[derive(Clone, Debug)]
pub struct ResolvedProfile {
    /// Its kind.
    pub kind: Kind,
    /// All functions that occur.
    pub functions: Vec<Function>,
    /// The samples.
    pub samples: Vec<NamedSample>,
    /// The time at which it begins, by the monotonic clock.
    pub began_ns: u64,
    /// The time that it covers; zero for a single moment, or for all time since the start.
    pub duration_ns: u64,
    /// Samples of this time that were lost, because the ring was full.
    pub lost: u64,
    /// The time at its beginning whose samples were dropped to make room for later ones.
    pub missing_ns: u64,
}

/// A filter of samples; `None` lets all pass.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// The operation to keep.
    pub operation: Option<String>,
    /// The phase or the job to keep.
    pub phase: Option<String>,
}

impl Filter {
    fn lets_pass(&self, sample: &NamedSample) -> bool {
        let phase_is = |phase: &String| *phase == sample.phase || *phase == sample.job;
        self.operation.as_ref().is_none_or(|operation| *operation == sample.operation)
            && self.phase.as_ref().is_none_or(phase_is)
    }
}

impl ResolvedProfile {
    /// Finds the names of all functions and labels in `profiles`. The results share one list of
    /// functions, so that they can be compared. `operations` are the names of the operations.
    #[must_use]
    pub fn of<const COUNT: usize>(
        profiles: [Profile; COUNT],
        operations: &[&str],
    ) -> [ResolvedProfile; COUNT] {
        let mut names = NameResolver {
            symbols: Symbols::of_this_process(),
            functions: IndexedSet::default(),
            operations,
        };
        let mut resolved = profiles.map(|profile| names.resolve(profile));
        let functions = &names.functions.list;
        resolved.iter_mut().for_each(|profile| profile.functions.clone_from(functions));
        resolved
    }

    /// The samples that `filter` lets pass.
    #[must_use]
    pub fn filtered(mut self, filter: &Filter) -> ResolvedProfile {
        self.samples.retain(|sample| filter.lets_pass(sample));
        self
    }

    /// The gaps of the profile, one sentence for each. Every output format contains them.
    #[must_use]
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        if self.missing_ns > 0 {
            let seconds = self.missing_ns as f64 / 1e9;
            gaps.push(format!(
                "Samples of the first {seconds:.1} s are missing: they had to make room for later \
                 ones."
            ));
        }
        if self.lost > 0 {
            gaps.push(format!(
                "{} samples were lost, because they came faster than they were fetched.",
                self.lost
            ));
        }
        gaps
    }

    /// The sum of the amounts of all samples.
    #[must_use]
    pub fn amount(&self) -> f64 {
        self.samples.iter().map(|sample| sample.amount).sum()
    }
}

struct NameResolver<'a> {
    symbols: Symbols,
    functions: IndexedSet<Function>,
    operations: &'a [&'a str],
}

/// A list of distinct values, with the index of each.
#[derive(Default)]
pub(crate) struct IndexedSet<T> {
    pub(crate) list: Vec<T>,
    places: HashMap<T, u64>,
}

impl<T: Clone + Eq + Hash> IndexedSet<T> {
    /// Returns the index of a value in the list, and adds the value if it is new.
    pub(crate) fn place<V>(&mut self, value: &V) -> u64
    where
        T: Borrow<V>,
        V: ToOwned<Owned = T> + Eq + Hash + ?Sized,
    {
        if let Some(place) = self.places.get(value) {
            return *place;
        }
        let place = self.list.len() as u64;
        self.list.push(value.to_owned());
        self.places.insert(value.to_owned(), place);
        place
    }
}

impl NameResolver<'_> {
    fn resolve(&mut self, profile: Profile) -> ResolvedProfile {
        let Profile { kind, samples, began_ns, duration_ns, lost, missing_ns } = profile;
        let samples = samples.into_iter().map(|sample| {
            let stack = self.stack(kind, &sample.stack);
            let Labels { operation, phase, job } = sample.labels;
            let job = job.map_or("", Job::name).to_owned();
            let names =
                stack.iter().map(|frame| &*self.functions.list[frame.function as usize].name);
            let component = component_of(&job, names);
            NamedSample {
                stack,
                operation: name_at(self.operations, operation),
                phase: phase_name(phase),
                job,
                thread: sample.thread,
                component,
                at_ns: sample.at_ns,
                events: sample.events,
                amount: sample.amount,
            }
        });
        let samples = samples.collect();
        let functions = Vec::new();
        ResolvedProfile { kind, functions, samples, began_ns, duration_ns, lost, missing_ns }
    }

    fn stack(&mut self, kind: Kind, addresses: &[usize]) -> Vec<Frame> {
        let mut stack = Vec::new();
        for (index, address) in addresses.iter().enumerate() {
            let is_interrupted = index == 0 && kind == Kind::Cpu;
            let call = if is_interrupted { self.symbols.system_call(*address) } else { None };
            if let Some(call) = call {
                let function = Function { name: call.frame(), file: String::new() };
                stack.push(Frame { function: self.functions.place(&function) as u32, line: 0 });
            }
            // The kernel returns to the instruction after the system call, as a function does.
            let address = call.map_or(*address, |call| address.wrapping_add(call.behind));
            let is_return = !is_interrupted || call.is_some();
            for place in self.symbols.places(address, is_return) {
                let is_plumbing = kind != Kind::Cpu && stack.is_empty();
                let name = &place.function.name;
                if is_plumbing && PLUMBING.iter().any(|prefix| name.starts_with(prefix)) {
                    continue;
                }
                let function = self.functions.place(&place.function) as u32;
                stack.push(Frame { function, line: place.line });
            }
        }
        stack
    }
}

fn name_at(names: &[&str], label: u8) -> String {
    let index = usize::from(label).checked_sub(1);
    index.and_then(|index| names.get(index)).map_or_else(String::new, |name| (*name).to_owned())
}

fn phase_name(label: u8) -> String {
    if label == LOOP_PHASE {
        return LOOP.to_owned();
    }
    name_at(&PHASES.map(pellucid_account::Phase::name), label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_lists_its_gaps() {
        let whole = Profile::counted(Kind::Cpu);
        let cut = Profile { lost: 7, missing_ns: 2_500_000_000, ..whole.clone() };
        let [whole, cut] = ResolvedProfile::of([whole, cut], &[]);
        assert!(whole.gaps().is_empty());
        let gaps = cut.gaps();
        assert!(gaps[0].contains("first 2.5 s") && gaps[1].contains("7 samples"), "{gaps:?}");
    }
}

//! The three profiles of a study: processor time, allocations and waits of the process that is
//! measured, taken while it is.
//!
//! The studies that these repeat took them by hand with a profiler beside the server, and wrote the
//! shares of its parts into their text. Here each report has them, with the request's phase in
//! every sample.

use std::collections::BTreeMap;

use pellucid_profile::{
    Boost, Kind, Profile, Profiler, RECORDING_HERTZ, Resolved, SAMPLE_BYTES, head_of,
    set_allocation_sampling, shares,
};
use pellucid_report::{MOMENT_NS, ProfileSection, ProfileShare, ProfileStack};

/// Stacks of one profile that a report keeps: the largest, and those beyond are counted to their
/// outermost function.
const STACKS_MAX: usize = 1_500;
/// Moments of all stacks of a profile that a report keeps; with more, it has no heat map.
const MOMENTS_MAX: usize = 40_000;
/// The kinds of samples that are counted without loss, and kept with their times as long as there
/// is room.
const COUNTED: [Kind; 2] = [Kind::Allocations, Kind::Block];

/// Profiles that are being taken.
pub(crate) struct Profiled {
    profiler: Profiler,
    _boost: Boost,
    from_ns: u64,
    before: [Before; 2],
}

/// What there was of a kind at the beginning.
struct Before {
    counted: Profile,
    /// Samples that were lost until then.
    lost: u64,
}

impl Profiled {
    /// Begins. Nothing if the system does not let processor time be sampled.
    pub(crate) fn begin() -> Option<Profiled> {
        set_allocation_sampling(SAMPLE_BYTES);
        let profiler = Profiler::start(RECORDING_HERTZ).ok()?;
        let boost = profiler.boost(RECORDING_HERTZ);
        let before = COUNTED.map(|kind| Before {
            counted: Profile::counted(kind),
            lost: profiler.past(kind, 0, 0).lost,
        });
        Some(Profiled { profiler, _boost: boost, from_ns: Profiler::now_ns(), before })
    }

    /// What there was since the beginning; `operations` are the names of operations.
    pub(crate) fn end(self, operations: &[&str]) -> Vec<ProfileSection> {
        let (from_ns, to_ns) = (self.from_ns, Profiler::now_ns());
        let cpu = self.profiler.cpu(from_ns, to_ns);
        let [allocations, waits] = self.before.map(|Before { counted, lost }| {
            let timed = self.profiler.past(counted.kind, from_ns, to_ns);
            let is_whole = timed.lost == lost && timed.began_ns <= from_ns;
            if is_whole { timed } else { Profile::counted(counted.kind).since(&counted) }
        });
        let profiles = Resolved::of([cpu, allocations, waits], operations);
        profiles.iter().map(section_of).collect()
    }
}

fn section_of(profile: &Resolved) -> ProfileSection {
    let title = match profile.kind {
        Kind::Cpu => "Processor time",
        Kind::Heap => "Memory in use",
        Kind::Allocations => "Allocations",
        Kind::Mutex => "Waits for locks, by who held them",
        Kind::Block => "Waits for locks and conditions, by who waited",
    };
    let sums = shares(profile);
    let rows = sums.shares.iter().map(|share| ProfileShare {
        phase: share.phase.clone(),
        component: share.component.to_owned(),
        amount: share.amount,
        share: share.share,
    });
    let (functions, stacks) = stacks_of(profile);
    ProfileSection {
        title: title.to_owned(),
        is_bytes: profile.kind.is_bytes(),
        duration_ns: profile.duration_ns,
        explained: sums.explained,
        shares: rows.collect(),
        functions,
        stacks,
    }
}

/// What one stack took: all of it, and by moments.
#[derive(Default)]
struct Taken {
    amount: f64,
    moments: BTreeMap<u32, f64>,
}

/// Equal stacks as one, the largest first, over the functions that occur.
fn stacks_of(profile: &Resolved) -> (Vec<String>, Vec<ProfileStack>) {
    let mut sums: BTreeMap<(String, Vec<u32>), Taken> = BTreeMap::new();
    for sample in &profile.samples {
        let stack = sample.stack.iter().rev().map(|frame| frame.function).collect();
        let head = head_of(&sample.operation, &sample.phase, &sample.job);
        let taken = sums.entry((head, stack)).or_default();
        taken.amount += sample.amount;
        if sample.at_ns > 0 {
            let moment = sample.at_ns.saturating_sub(profile.began_ns) / MOMENT_NS;
            *taken.moments.entry(moment as u32).or_default() += sample.amount;
        }
    }
    let moments: usize = sums.values().map(|taken| taken.moments.len()).sum();
    if moments > MOMENTS_MAX {
        sums.values_mut().for_each(|taken| taken.moments.clear());
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.amount.total_cmp(&a.1.amount));
    let mut functions = Vec::new();
    let mut numbers = vec![None; profile.functions.len()];
    let mut stacks: Vec<ProfileStack> = Vec::new();
    for (index, ((root, stack), Taken { amount, moments })) in sums.into_iter().enumerate() {
        let depth = if index < STACKS_MAX { stack.len() } else { stack.len().min(1) };
        let renumbered = stack[..depth].iter().map(|function| {
            *numbers[*function as usize].get_or_insert_with(|| {
                functions.push(profile.functions[*function as usize].name.clone());
                functions.len() as u32 - 1
            })
        });
        let moments = moments.into_iter().map(|(moment, amount)| (moment, amount.round()));
        let (stack, moments) = (renumbered.collect(), moments.collect());
        stacks.push(ProfileStack { root, stack, amount, moments });
    }
    (functions, stacks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_thread::{Job, start_job};

    #[test]
    fn what_was_worked_at_is_in_the_report() {
        static WORK: Job = Job::new("work");
        let profiled = Profiled::begin().unwrap();
        let job = start_job(&WORK);
        let mut sum = 0_u64;
        // As much processor time as makes some samples, however long that takes.
        let begun = cpu_seconds();
        while cpu_seconds() - begun < 0.5 {
            (0..10_000_u64).for_each(|step| sum = std::hint::black_box(sum ^ step));
        }
        drop(job);
        let sections = profiled.end(&["get"]);
        assert_eq!(sections.len(), 3);
        let cpu = &sections[0];
        assert!(cpu.shares.iter().any(|share| share.phase == "job work"), "{:?}", cpu.shares);
        let worked = cpu.stacks.iter().filter(|stack| stack.root == "job work");
        assert!(worked.map(|stack| stack.amount).sum::<f64>() >= 0.2e9);
        let all = cpu.stacks.iter().flat_map(|stack| &stack.stack);
        assert!(all.clone().all(|function| (*function as usize) < cpu.functions.len()));
        // It is known when that was.
        for stack in cpu.stacks.iter().filter(|stack| stack.root == "job work") {
            let sum: f64 = stack.moments.iter().map(|(_, amount)| amount).sum();
            assert!((sum - stack.amount).abs() <= stack.moments.len() as f64, "{stack:?}");
        }
    }

    /// The processor time of this thread.
    fn cpu_seconds() -> f64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is a valid timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    }
}

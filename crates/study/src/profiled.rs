//! The three profiles of a study: processor time, allocations and waits of the process that is
//! measured, taken while it is.
//!
//! The studies that these repeat took them by hand with a profiler beside the server, and wrote the
//! shares of its parts into their text. Here each report has them, with the request's phase in
//! every sample.

use pellucid_profile::{
    Boost, Kind, NamedSample, Profile, Profiler, RECORDING_HERTZ, Resolved, SAMPLE_BYTES, head_of,
    set_allocation_sampling, shares,
};
use pellucid_report::{ProfileSection, ProfileShare, ProfileStack};

/// Stacks of one profile that a report keeps: the largest, and those beyond are counted to their
/// outermost function.
const STACKS_MAX: usize = 1_500;

/// Profiles that are being taken.
pub(crate) struct Profiled {
    profiler: Profiler,
    _boost: Boost,
    from_ns: u64,
    before: [Profile; 2],
}

impl Profiled {
    /// Begins. Nothing if the system does not let processor time be sampled.
    pub(crate) fn begin() -> Option<Profiled> {
        set_allocation_sampling(SAMPLE_BYTES);
        let profiler = Profiler::start(RECORDING_HERTZ).ok()?;
        let boost = profiler.boost(RECORDING_HERTZ);
        let before = [Kind::Allocations, Kind::Block].map(Profile::counted);
        Some(Profiled { profiler, _boost: boost, from_ns: Profiler::now_ns(), before })
    }

    /// What there was since the beginning; `operations` are the names of operations.
    pub(crate) fn end(self, operations: &[&str]) -> Vec<ProfileSection> {
        let cpu = self.profiler.cpu(self.from_ns, Profiler::now_ns());
        let [allocations, waits] =
            self.before.map(|before| Profile::counted(before.kind).since(&before));
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

/// Equal stacks as one, the largest first, over the functions that occur.
fn stacks_of(profile: &Resolved) -> (Vec<String>, Vec<ProfileStack>) {
    let mut sums: std::collections::BTreeMap<(String, Vec<u32>), f64> = Default::default();
    for sample in &profile.samples {
        let NamedSample { operation, phase, job, stack, amount, .. } = sample;
        let stack = stack.iter().rev().map(|frame| frame.function).collect();
        *sums.entry((head_of(operation, phase, job), stack)).or_default() += amount;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut functions = Vec::new();
    let mut numbers = vec![None; profile.functions.len()];
    let mut stacks: Vec<ProfileStack> = Vec::new();
    for (index, ((root, stack), amount)) in sums.into_iter().enumerate() {
        let depth = if index < STACKS_MAX { stack.len() } else { stack.len().min(1) };
        let renumbered = stack[..depth].iter().map(|function| {
            *numbers[*function as usize].get_or_insert_with(|| {
                functions.push(profile.functions[*function as usize].name.clone());
                functions.len() as u32 - 1
            })
        });
        stacks.push(ProfileStack { root, stack: renumbered.collect(), amount });
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
    }

    /// The processor time of this thread.
    fn cpu_seconds() -> f64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is a valid timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    }
}

//! The three profiles of a study: processor time, allocations and waits of the measured process.
//!
//! The original studies took profiles by hand with an external profiler, and copied shares into
//! their text. Here, each report contains its profiles, and every sample has the phase of its
//! request.

use std::collections::BTreeMap;

use pellucid_profile::{
    Boost, Kind, Profile, Profiler, ResolvedProfile, SAMPLE_BYTES, head_of,
    set_allocation_sampling, shares,
};
use pellucid_report::{MOMENT_NS, ProfileSection, ProfileShare, ProfileStack, StudyReport};
use serde::{Deserialize, Serialize};

/// The most stacks of one profile that a report contains in full: the largest ones. Of the others,
/// only the outermost function is kept.
const STACKS_MAX: usize = 1_500;
/// The most moments of all stacks of a profile in a report. If there are more, the profile has no
/// heat map.
const MOMENTS_MAX: usize = 40_000;
/// The number of samples of processor time below which a report warns that the shares are only a
/// hint.
const FEW_SAMPLES: u64 = 20;
/// The kinds of samples that are counted without loss. Their samples with times are kept only while
/// there is room.
const COUNTED: [Kind; 2] = [Kind::Allocations, Kind::Block];

/// The profiles that a process sends to its study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordedProfiles {
    /// Processor time, allocations and waits; empty if profiles could not be taken.
    pub(crate) sections: Vec<ProfileSection>,
    /// The reason that there are no profiles.
    pub(crate) why_none: Option<String>,
}

impl RecordedProfiles {
    /// Labels the profiles as those of `what`.
    pub(crate) fn of(mut self, what: &str) -> RecordedProfiles {
        for section in &mut self.sections {
            section.title = format!("{what}: {}", lower(&section.title));
        }
        if let Some(why) = &mut self.why_none {
            *why = format!("{what}: {why}");
        }
        self
    }

    /// Appends the profiles of another load.
    pub(crate) fn and(mut self, other: RecordedProfiles) -> RecordedProfiles {
        self.sections.extend(other.sections);
        let whys: Vec<String> = self.why_none.into_iter().chain(other.why_none).collect();
        RecordedProfiles {
            sections: self.sections,
            why_none: (!whys.is_empty()).then(|| whys.join("; ")),
        }
    }

    /// Adds the profiles to the report, or a note with the reason that there are none.
    pub(crate) fn put_into(self, outcome: &mut StudyReport) {
        outcome.profiles.extend(self.sections);
        if let Some(why) = self.why_none {
            let note = format!("Profiles are missing, because they could not be taken: {why}.");
            outcome.notes.push(note);
        }
    }
}

/// A title in lower case, for use within a sentence.
fn lower(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// A recording of profiles, or the reason that it could not start.
pub(crate) struct ProfileRecording {
    begun: Result<ActiveRecording, String>,
}

struct ActiveRecording {
    profiler: Profiler,
    _boost: Boost,
    from_ns: u64,
    /// The counts at the start.
    before: [Profile; 2],
}

impl ProfileRecording {
    /// Starts a recording with `hertz` samples per second of processor time. If processor time
    /// cannot be sampled, [`ProfileRecording::end`] returns the reason.
    pub(crate) fn begin(hertz: u32) -> ProfileRecording {
        set_allocation_sampling(SAMPLE_BYTES);
        let begun = Profiler::start(hertz).map(|profiler| ActiveRecording::with(profiler, hertz));
        ProfileRecording { begun: begun.map_err(told) }
    }

    /// Ends the recording and returns its profiles. `operations` are the names of the operations.
    pub(crate) fn end(self, operations: &[&str]) -> RecordedProfiles {
        match self.begun {
            Ok(begun) => RecordedProfiles { sections: begun.end(operations), why_none: None },
            Err(why) => RecordedProfiles { sections: Vec::new(), why_none: Some(why) },
        }
    }
}

fn told(error: std::io::Error) -> String {
    format!("processor time cannot be sampled here ({error})")
}

impl ActiveRecording {
    fn with(profiler: Profiler, hertz: u32) -> ActiveRecording {
        let boost = profiler.boost(hertz);
        let before = COUNTED.map(Profile::counted);
        ActiveRecording { profiler, _boost: boost, from_ns: Profiler::now_ns(), before }
    }

    fn end(self, operations: &[&str]) -> Vec<ProfileSection> {
        let (from_ns, to_ns) = (self.from_ns, Profiler::now_ns());
        let cpu = self.profiler.cpu(from_ns, to_ns);
        let [allocations, waits] = self.before.map(|before| {
            let timed = self.profiler.past(before.kind, from_ns, to_ns);
            // The counts without times are always complete.
            let is_whole = timed.lost == 0 && timed.missing_ns == 0;
            if is_whole { timed } else { Profile::counted(before.kind).since(&before) }
        });
        let profiles = ResolvedProfile::of([cpu, allocations, waits], operations);
        profiles.iter().map(section_of).collect()
    }
}

fn section_of(profile: &ResolvedProfile) -> ProfileSection {
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
    let mut notes = profile.gaps();
    notes.extend(note_of_few(profile));
    let is_timed = stacks.iter().any(|stack| !stack.moments.is_empty());
    if !is_timed && !stacks.is_empty() {
        let note = "It has no heat map: there were more samples than are kept with their times.";
        notes.push(note.to_owned());
    }
    ProfileSection {
        title: title.to_owned(),
        is_bytes: profile.kind.is_bytes(),
        duration_ns: profile.duration_ns,
        samples: samples_of(profile),
        explained: sums.explained,
        shares: rows.collect(),
        functions,
        stacks,
        notes,
    }
}

fn samples_of(profile: &ResolvedProfile) -> u64 {
    profile.samples.iter().map(|sample| sample.events).sum::<f64>() as u64
}

/// A warning about a profile of processor time with few samples: a short run on a fast processor
/// may end before its first sample.
fn note_of_few(profile: &ResolvedProfile) -> Option<String> {
    let samples = samples_of(profile);
    (profile.kind == Kind::Cpu && samples < FEW_SAMPLES).then(|| {
        format!(
            "It has {samples} samples, as the process worked so shortly: its shares are a hint, \
             and a longer run has more."
        )
    })
}

/// The amount of one stack: the sum, and by moments.
#[derive(Default)]
struct Amounts {
    amount: f64,
    moments: BTreeMap<u32, f64>,
}

/// Merges equal stacks, the largest first. Returns the functions that occur, and the stacks.
fn stacks_of(profile: &ResolvedProfile) -> (Vec<String>, Vec<ProfileStack>) {
    let mut sums: BTreeMap<(String, Vec<u32>), Amounts> = BTreeMap::new();
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
    for (index, ((root, stack), Amounts { amount, moments })) in sums.into_iter().enumerate() {
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
    use pellucid_profile::RECORDING_HERTZ;
    use pellucid_thread::{Job, start_job};

    #[test]
    fn work_appears_in_the_profile() {
        static WORK: Job = Job::new("work");
        let profiled = ProfileRecording::begin(RECORDING_HERTZ);
        let job = start_job(&WORK);
        let mut sum = 0_u64;
        // Enough processor time for some samples, whatever the time on the clock.
        let begun = cpu_seconds();
        while cpu_seconds() - begun < 0.5 {
            (0..10_000_u64).for_each(|step| sum = std::hint::black_box(sum ^ step));
        }
        drop(job);
        let RecordedProfiles { sections, why_none } = profiled.end(&["get"]);
        assert_eq!(why_none, None);
        assert_eq!(sections.len(), 3);
        let cpu = &sections[0];
        assert!(cpu.shares.iter().any(|share| share.phase == "job work"), "{:?}", cpu.shares);
        let worked = cpu.stacks.iter().filter(|stack| stack.root == "job work");
        assert!(worked.map(|stack| stack.amount).sum::<f64>() >= 0.2e9);
        assert!(cpu.notes.iter().all(|note| !note.contains("a hint")), "{:?}", cpu.notes);
        let all = cpu.stacks.iter().flat_map(|stack| &stack.stack);
        assert!(all.clone().all(|function| (*function as usize) < cpu.functions.len()));
        // The amount of each stack is divided among moments.
        for stack in cpu.stacks.iter().filter(|stack| stack.root == "job work") {
            let sum: f64 = stack.moments.iter().map(|(_, amount)| amount).sum();
            assert!((sum - stack.amount).abs() <= stack.moments.len() as f64, "{stack:?}");
        }
    }

    /// Regression: if profiles failed, the report lacked them without a reason.
    #[test]
    fn a_report_without_profiles_contains_the_reason() {
        let error = std::io::Error::other("no timers");
        let none =
            || ProfileRecording { begun: Err(told(std::io::Error::other(error.to_string()))) };
        let (first, second) = (none().end(&[]).of("PUT"), none().end(&[]).of("GET"));
        let mut outcome = StudyReport::default();
        first.and(second).put_into(&mut outcome);
        assert!(outcome.profiles.is_empty());
        let note = &outcome.notes[0];
        assert!(note.contains("PUT: ") && note.contains("; GET: "), "{note}");
        assert!(note.contains("(no timers)"), "{note}");
    }

    /// Regression: a study of 400 requests ended before its first sample, and its report had an
    /// empty profile without a warning.
    #[test]
    fn a_profile_with_few_samples_has_a_warning() {
        let RecordedProfiles { sections, .. } =
            ProfileRecording::begin(RECORDING_HERTZ).end(&["get"]);
        let notes = sections.iter().map(|section| section.notes.join(" ")).collect::<Vec<_>>();
        assert!(notes[0].contains("its shares are a hint"), "{notes:?}");
        assert!(notes[1..].iter().all(|note| !note.contains("a hint")), "{notes:?}");
    }

    /// The processor time of this thread.
    fn cpu_seconds() -> f64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is a valid timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    }
}

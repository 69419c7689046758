//! The study `merge-tree`: the parts of the time of GET, PUT and HEAD in a journal and an LSM tree,
//! and the cost of merging, on a store that outgrows its memory.
//!
//! It repeats a study of latencies in leveled, the store whose design the engine follows, chart by
//! chart, on this engine and under a similar load. The engine runs as an embedded library in a
//! child process. A control group limits the memory of that process if the system allows it.

mod charts;
mod child;
mod conclusions;
mod experiment;
mod plan;
mod sample;
mod sample_interval;
mod sample_series;
mod source;
mod workload;

use std::path::Path;
use std::process::Stdio;

use pellucid_load::Verdict;
use pellucid_report::{Finding, JudgedLoad, StudyReport};

pub use child::run_child;
pub use plan::MergeTreeOptions;

use self::experiment::Experiment;
use self::plan::Plan;
use self::sample::{Line, Recording, Sample};
use self::sample_series::{SampleSeries, number, operation, store_bytes};
use self::source::Source;
use crate::cgroup::MemoryCgroup;
use crate::error::StudyError;
use crate::folder::make_folder;
use crate::loads::has_times;
use crate::proc::{free_bytes, is_in_memory};
use crate::process::Process;
use crate::study::{Context, Study, StudyDescription, answer, named};

/// The number of progress messages during a run.
const TOLD_PARTS: u64 = 10;

/// The store kept up with the load if it did at least this share of it.
const HELD_SHARE: f64 = 0.95;

/// The findings that answer the question.
const ANSWERS: [&str; 5] =
    ["get_body_share", "head_time_stable", "put_ledger_cache", "filter_exits", "merge_share"];

impl Study for MergeTreeOptions {
    fn about(&self) -> StudyDescription {
        StudyDescription {
            name: "merge-tree",
            title: "Merge tree: a breakdown of latency",
            question: "Where does the time of GET, PUT and HEAD go in a store made of a journal \
                       and a merge tree, what changes once it outgrows the page cache, and what \
                       does merging cost?",
            scale: self.scale,
        }
    }

    fn run(&self, context: &mut Context<'_>) -> Result<StudyReport, StudyError> {
        let folder = make_folder(self.data.as_deref())?;
        let plan = Plan::of(self, folder.path().join("store"))?;
        check_room(&plan, folder.path())?;
        let mut notes = Vec::new();
        if is_in_memory(folder.path()) {
            notes.push(
                "The store is on a file system in memory, so nothing is read from a disk; choose \
                 another folder with --data."
                    .to_owned(),
            );
        }
        let child = context.child.clone();
        let mut recordings = Vec::new();
        let repeated = self.scale.repeats().of_long_runs().run(|round| {
            let name = format!("Run {}: loading a store for {} s", round + 1, plan.seconds);
            recordings.push(context.step(&name, |say| record(&child, &plan, say))?);
            let left = std::fs::remove_dir_all(&plan.data);
            left.map_err(|error| StudyError::file("remove", &plan.data, error))?;
            let sources: Vec<_> = recordings.iter().map(|of| source(&plan, of)).collect();
            Ok(conclusions::findings(&sources).iter().all(Finding::is_told))
        })?;
        let mut changed = plan.clone();
        changed.engine_memory_bytes *= experiment::MEMORY_TIMES;
        let changed_run =
            context.step("An experiment: more memory", |say| record(&child, &changed, say))?;
        notes.insert(0, repeated.note());
        notes.extend(recordings.iter().flat_map(|recording| recording.notes.iter().cloned()));
        notes.extend(changed_run.notes.iter().cloned());
        notes.dedup();
        context.step("Drawing the charts", |_| {
            let mut outcome = outcome(&plan, &recordings, notes);
            if let Some(before) = recordings.first() {
                let [before, after] = [(&plan, before), (&changed, &changed_run)]
                    .map(|(plan, recording)| source(plan, recording));
                let experiment = Experiment::new(&before, &after);
                let more = judged(&changed, &changed_run, 1).map(|load| JudgedLoad {
                    name: format!("with more memory: {}", load.name),
                    ..load
                });
                outcome.loads.extend(more);
                let keeps_up = outcome.loads.iter().all(has_times);
                outcome.findings.push(experiment.finding(keeps_up));
                outcome.sections.push(experiment.section());
            }
            Ok(outcome)
        })
    }
}

fn check_room(plan: &Plan, folder: &Path) -> Result<(), StudyError> {
    let free = free_bytes(folder).unwrap_or(u64::MAX);
    if free < plan.disk_bytes() {
        return Err(StudyError::Step(format!(
            "{} has {} MB free, and the study may take {}: choose another folder with --data, or \
             less --memory",
            folder.display(),
            free / 1_000_000,
            plan.disk_bytes() / 1_000_000
        )));
    }
    Ok(())
}

/// Runs the child and records its output; its memory is limited if that is possible. Each run has
/// its own control group, because a child removes its limit at the end, to resolve the names in its
/// profiles.
fn record(
    program: &[std::ffi::OsString],
    plan: &Plan,
    say: &mut dyn FnMut(&str),
) -> Result<Recording, StudyError> {
    let group = MemoryCgroup::new(plan.memory_bytes);
    let folder = group.as_ref().ok().map(|group| group.folder().to_path_buf());
    let mut recording = run_child_in(program, &Plan { group: folder, ..plan.clone() }, say)?;
    if let Err(error) = group {
        recording.notes.push(format!(
            "Memory was not bounded, because {error}: the store has the page cache of the whole \
             machine."
        ));
    }
    Ok(recording)
}

/// Runs the child in the control group of the plan, and records its output.
fn run_child_in(
    program: &[std::ffi::OsString],
    plan: &Plan,
    say: &mut dyn FnMut(&str),
) -> Result<Recording, StudyError> {
    let mut child = Process::start("the child", program, Stdio::piped())?;
    child.tell(&serde_json::to_string(plan).map_err(StudyError::step)?)?;
    let mut recording = Recording::default();
    let mut told = 0;
    while let Some(line) = child.line()? {
        let line: Line = serde_json::from_str(&line)
            .map_err(|error| StudyError::Step(format!("the child tells nonsense: {error}")))?;
        if let Line::Sample(sample) = &line {
            let part = sample.seconds as u64 * TOLD_PARTS / plan.seconds;
            if part > told {
                told = part;
                say(&progress(sample));
            }
        }
        recording.take(line);
    }
    child.stop()?;
    Ok(recording)
}

fn progress(sample: &Sample) -> String {
    let count =
        |names: &[&str]| -> u64 { names.iter().map(|name| operation(sample, name).count).sum() };
    format!(
        "{:4.0} s: {} GETs, {} PUTs, {} HEADs, store of {:.0} MB",
        sample.seconds,
        count(&["get ok", "get missing"]),
        count(&["put ok", "put_disk ok"]),
        count(&["head ok", "head missing"]),
        store_bytes(sample) / 1e6,
    )
}

/// Returns true if the memory of a run was limited. Otherwise the recording has a note with the
/// reason.
fn is_bounded(recording: &Recording) -> bool {
    recording.notes.is_empty()
}

fn source<'a>(plan: &Plan, recording: &'a Recording) -> Source<'a> {
    let memory_bytes = is_bounded(recording).then_some(plan.memory_bytes);
    let outgrown = |limit: u64| {
        let all = |sample: &Sample| store_bytes(sample) + sample.process.anonymous_bytes as f64;
        let is_larger = |sample: &&Sample| all(sample) > limit as f64;
        recording.samples.iter().find(is_larger).map(|sample| sample.seconds)
    };
    Source {
        track: SampleSeries::new(&recording.samples),
        memory_bytes,
        outgrown_seconds: memory_bytes.and_then(outgrown),
    }
}

/// Makes the report from the recordings; the charts show the first run.
fn outcome(plan: &Plan, recordings: &[Recording], mut notes: Vec<String>) -> StudyReport {
    let sources: Vec<_> = recordings.iter().map(|recording| source(plan, recording)).collect();
    let (Some(first), Some(shown)) = (recordings.first(), sources.first()) else {
        return StudyReport { notes, ..StudyReport::default() };
    };
    if is_bounded(first) {
        notes.push(format!(
            "Memory was bounded to {} MiB by a control group, page cache and the process's own \
             included.",
            plan.memory_bytes >> 20
        ));
    }
    notes.extend(account_notes(first));
    let findings = conclusions::findings(&sources);
    let runs = recordings.iter().enumerate();
    let mut outcome = StudyReport {
        settings: settings(plan, first, is_bounded(first)),
        answer: answer(&findings, &ANSWERS),
        picture: Some(charts::picture(shown)),
        loads: runs.filter_map(|(run, recording)| judged(plan, recording, run + 1)).collect(),
        findings,
        sections: charts::sections(shown),
        notes,
        ..StudyReport::default()
    };
    first.profiles.clone().put_into(&mut outcome);
    outcome
}

/// The verdict of a run: stable if the store kept up with the load, otherwise saturated. Findings
/// use both: the time of a request begins with its work, so it holds no backlog.
fn judged(plan: &Plan, recording: &Recording, run: usize) -> Option<JudgedLoad> {
    let last = recording.samples.last()?;
    let count =
        |names: [&str; 2]| names.map(|name| operation(last, name).count).iter().sum::<u64>();
    let done = count(["get ok", "get missing"]) + count(["put ok", "put_disk ok"]);
    let per_second = done as f64 / last.seconds.max(f64::MIN_POSITIVE);
    let offered = plan.transactions_per_second;
    let is_held = per_second >= offered * HELD_SHARE;
    let verdict = if is_held { Verdict::Stable } else { Verdict::Saturated };
    let account = recording.account.as_ref()?;
    let gets = account
        .operations
        .iter()
        .find(|of| (of.operation.as_str(), of.outcome.as_str()) == ("get", "ok"));
    Some(JudgedLoad {
        name: "transactions; p99 of GET".to_owned(),
        run,
        offered_per_second: Some(offered),
        answered_per_second: per_second,
        p99_ns: gets.map(|gets| gets.total.p99_ns as f64),
        verdict: verdict.name().to_owned(),
        evidence: format!("{per_second:.0} of {offered:.0} transactions a second were done."),
    })
}

/// Notes with the percentiles of each operation, which the charts of means do not show.
fn account_notes(recording: &Recording) -> Vec<String> {
    let Some(account) = &recording.account else { return Vec::new() };
    let show = |ns: u64| pellucid_report::Unit::Nanoseconds.show(ns as f64);
    let mut notes: Vec<String> = account
        .operations
        .iter()
        .map(|operation| {
            let total = &operation.total;
            format!(
                "{} ({}): {} requests, {} at p50, {} at p99, {} at p99.9, {} at most.",
                operation_name(&operation.operation),
                operation.outcome,
                total.count,
                show(total.p50_ns),
                show(total.p99_ns),
                show(total.p99_9_ns),
                show(total.max_ns)
            )
        })
        .collect();
    if account.records_lost > 0 {
        let lost = account.records_lost;
        notes.push(format!("{lost} requests are not in the account: it was overrun."));
    }
    notes
}

fn operation_name(name: &str) -> &str {
    match name {
        "get" => "GET",
        "head" => "HEAD",
        "put" => "PUT",
        "put_disk" => "PUT on the medium",
        other => other,
    }
}

fn settings(plan: &Plan, recording: &Recording, is_bounded: bool) -> Vec<(String, String)> {
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let end = recording.samples.last();
    let objects = end.map_or(0.0, |sample| number(sample, "/writes/entries"));
    let memory = match is_bounded {
        true => format!("{} by a control group", mib(plan.memory_bytes)),
        false => "not bounded".to_owned(),
    };
    named([
        ("Load", format!("{} s on {} threads", plan.seconds, plan.threads)),
        ("Offered", format!("{:.0} transactions a second", plan.transactions_per_second)),
        ("Values", "log-normal around 2 KiB, 128 B to 64 KiB; heads of 160 B".to_owned()),
        ("Memory of the store", memory),
        ("Of it, the engine's own", mib(plan.engine_memory_bytes)),
        ("Segments of the journal", mib(plan.segment_bytes)),
        ("PUTs in all", format!("{objects:.0}")),
        ("Files in the end", mib(end.map_or(0.0, store_bytes) as u64)),
    ])
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io::Write;

    use super::*;
    use crate::study::Scale;

    /// A child that prints the limit of its group as a note, and removes it.
    const CHILD: &str = r#"
        read -r plan
        group=$(printf '%s' "$plan" | sed 's/.*"group":"\([^"]*\)".*/\1/')
        file=$group/memory.max
        [ -e "$file" ] || file=$group/memory.limit_in_bytes
        printf '{"note":"%s"}\n' "$(cat "$file")"
        echo -1 > "$file" 2>/dev/null || echo max > "$file"
    "#;

    /// Regression: the messages of a child were read after its results, so one with many messages
    /// waited for the study, and the study for it.
    #[test]
    fn a_child_with_many_messages_is_not_stuck() {
        const LOUD: &str = "read -r plan; head -c 1000000 /dev/zero >&2; echo boom >&2; exit 3";
        let run = std::thread::spawn(|| {
            let plan = Plan::of(&MergeTreeOptions::default(), "unused".into()).unwrap();
            let child: Vec<OsString> = ["/bin/sh", "-c", LOUD].map(OsString::from).to_vec();
            run_child_in(&child, &plan, &mut |_| {}).unwrap_err().to_string()
        });
        let begun = std::time::Instant::now();
        while !run.is_finished() {
            assert!(begun.elapsed().as_secs() < 60, "the child and the study wait for each other");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let error = run.join().unwrap();
        assert!(error.contains("exit status: 3") && error.ends_with("boom"), "{}", error.len());
    }

    /// Regression: the second run and the experiment ran without a memory limit, because the first
    /// run had removed the limit of the shared group.
    #[test]
    fn every_run_has_its_own_memory_limit() {
        let folder = tempfile::tempdir().unwrap();
        let options =
            MergeTreeOptions { scale: Scale::Quick, seconds: None, memory_bytes: None, data: None };
        let plan = Plan::of(&options, folder.path().join("store")).unwrap();
        if let Err(error) = MemoryCgroup::new(plan.memory_bytes) {
            // By `writeln!`, because the test's harness shows no `eprintln!` of a test that passes.
            let told = "every_run_has_its_own_memory_limit checks nothing on this machine";
            writeln!(std::io::stderr(), "{told}: {error}").unwrap();
            return;
        }
        let child: Vec<OsString> = ["/bin/sh", "-c", CHILD].map(OsString::from).to_vec();
        for _ in 0..2 {
            let recording = record(&child, &plan, &mut |_| {}).unwrap();
            let bound: u64 = recording.notes[0].parse().unwrap();
            assert!(bound.abs_diff(plan.memory_bytes) < 1 << 20, "{bound}");
        }
    }
}

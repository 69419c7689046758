//! The child process: the engine as an embedded library under load. Its memory is limited, and only
//! the engine and the load use its processor time and disk.

use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use pellucid_account::{
    Account, Accounting, Names, Recorder, RequestFacts, STAMPS, Stamp, Timeline,
};
use pellucid_clock::Clock;
use pellucid_engine::{
    Acknowledgement, Engine, EngineOptions, Operation, ReadMode, Result as EngineResult, TableId,
    parts,
};
use pellucid_profile::RECORDING_HERTZ;
use pellucid_server::engine_document;
use pellucid_thread::Mutex;

use super::plan::Plan;
use super::sample::{Line, OperationSums, Sample};
use super::workload::{Request, TransactionGenerator, key_of};
use crate::cgroup::CgroupMembership;
use crate::child_server::plan_of;
use crate::error::StudyError;
use crate::proc::ProcessFigures;
use crate::profile_recording::ProfileRecording;

/// The name of the threads of the load, by which their processor time is found.
pub(super) const LOAD_THREAD: &str = "study-load";
const NAMES: Names = Names {
    operations: &["get", "head", "put", "put_disk"],
    outcomes: &["ok", "missing"],
    parts: &parts::NAMES,
    other_parts: &[],
};
const SAMPLE_PERIOD: Duration = Duration::from_secs(1);
/// The most that a thread may be behind its schedule. If it is further behind, the schedule is
/// moved: then the load is as high as the engine allows.
const BEHIND_MAX: Duration = Duration::from_millis(200);
/// The least time ahead of the schedule for which a thread sleeps.
const AHEAD_MIN: Duration = Duration::from_micros(200);

/// Runs the child: reads the plan from `input`, and writes samples and results to `output`, each as
/// a line of JSON. The program that [`crate::Context::child`] names calls it.
///
/// # Errors
/// If the plan cannot be read, a thread cannot be started, the engine fails, or `output` cannot be
/// written.
pub fn run_child(mut input: impl BufRead, mut output: impl Write) -> Result<(), StudyError> {
    let plan: Plan = plan_of(&mut input)?;
    let group = match plan.group.as_deref().map(CgroupMembership::enter) {
        Some(Ok(group)) => Some(group),
        Some(Err(error)) => {
            let note = format!("Memory was not bounded, because the child {error}.");
            tell(&mut output, &Line::Note(note))?;
            None
        }
        None => None,
    };
    let options = EngineOptions {
        memory_bytes: plan.engine_memory_bytes,
        segment_size_bytes: plan.segment_bytes,
        ..EngineOptions::default()
    };
    let engine = Engine::open(&plan.data, options).map_err(failed)?;
    let table = engine.table("objects").map_err(failed)?;
    let load = LoadState {
        account: Account::new(Accounting::Full, Clock::system(), NAMES),
        engine,
        table,
        objects: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        failure: Mutex::new(None),
    };
    let profiled = ProfileRecording::begin(RECORDING_HERTZ);
    // Records of single requests are not used here, and would take memory, which is limited.
    load.account.keep_records(1);
    let sample = |seconds: f64| {
        let page_cache_bytes = group.as_ref().map_or(0, CgroupMembership::page_cache_bytes);
        Line::Sample(Box::new(load.sample(seconds, page_cache_bytes)))
    };
    let told = std::thread::scope(|scope| {
        let _drain = load.account.start_draining()?;
        // The scope waits for its threads, also after an error or a panic.
        let _end = EndOfLoad(&load.is_over);
        for number in 0..plan.threads {
            let (load, plan) = (&load, &plan);
            let thread = Builder::new().name(LOAD_THREAD.to_owned());
            thread.spawn_scoped(scope, move || load.work(plan, number as u64))?;
        }
        let begun = Instant::now();
        let end = begun + Duration::from_secs(plan.seconds);
        let told = sample_until(begun, end, &load.is_over, &sample, &mut output);
        Ok::<_, std::io::Error>(told)
    });
    told.map_err(|error| StudyError::Step(format!("cannot start a thread: {error}")))??;
    if let Some(failure) = load.failure.lock().take() {
        return Err(StudyError::Step(failure));
    }
    tell(&mut output, &Line::Account(Box::new(load.account.snapshot(None))))?;
    load.engine.close().map_err(failed)?;
    // Function names are resolved last and without the limit, because that takes much memory.
    if let Some(group) = &group {
        group.lift();
    }
    tell(&mut output, &Line::Profiles(profiled.end(NAMES.operations)))
}

fn failed(error: pellucid_engine::Error) -> StudyError {
    StudyError::Step(format!("the engine failed: {error}"))
}

fn tell(output: &mut impl Write, line: &Line) -> Result<(), StudyError> {
    let text = serde_json::to_string(line).map_err(StudyError::step)?;
    let written = writeln!(output, "{text}").and_then(|()| output.flush());
    written.map_err(|error| StudyError::Step(format!("nobody listens: {error}")))
}

/// Writes a sample at the start, after each second, and at the end.
fn sample_until(
    begun: Instant,
    end: Instant,
    is_over: &AtomicBool,
    sample: &dyn Fn(f64) -> Line,
    output: &mut impl Write,
) -> Result<(), StudyError> {
    let mut due = begun;
    loop {
        let line = sample(begun.elapsed().as_secs_f64());
        if let Err(error) = tell(output, &line) {
            is_over.store(true, Ordering::Relaxed);
            return Err(error);
        }
        if due >= end || is_over.load(Ordering::Relaxed) {
            return Ok(());
        }
        due = (due + SAMPLE_PERIOD).min(end);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// The state that the child's threads share.
struct LoadState {
    account: Account,
    engine: Engine,
    table: TableId,
    objects: AtomicU64,
    is_over: AtomicBool,
    failure: Mutex<Option<String>>,
}

/// Ends the threads of a load when it is dropped.
struct EndOfLoad<'a>(&'a AtomicBool);

impl Drop for EndOfLoad<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl LoadState {
    fn sample(&self, seconds: f64, page_cache_bytes: u64) -> Sample {
        Sample {
            seconds,
            engine: engine_document(&self.engine.stats()),
            operations: OperationSums::of(&self.account.snapshot(None)),
            process: ProcessFigures::now(),
            page_cache_bytes,
        }
    }

    /// The work of one thread: transactions on schedule, until the load is over.
    fn work(&self, plan: &Plan, thread: u64) {
        let recorder = self.account.recorder();
        let mut chooser = TransactionGenerator::new(thread + 1, &self.objects);
        let mut requests = Vec::new();
        let per_second = plan.transactions_per_second / plan.threads as f64;
        let pause = Duration::from_secs_f64(1.0 / per_second.max(1e-3));
        let mut due = Instant::now();
        while !self.is_over.load(Ordering::Relaxed) {
            let now = Instant::now();
            let ahead = due.saturating_duration_since(now);
            if ahead > AHEAD_MIN {
                std::thread::sleep(ahead.min(SAMPLE_PERIOD));
                continue;
            }
            due = due.max(now.checked_sub(BEHIND_MAX).unwrap_or(now)) + pause;
            chooser.transaction(&mut requests);
            for request in &requests {
                if let Err(error) = self.serve(*request, &mut chooser, &recorder) {
                    let mut failure = self.failure.lock();
                    *failure = Some(format!("the engine failed under load: {error}"));
                    self.is_over.store(true, Ordering::Relaxed);
                    return;
                }
            }
        }
    }

    /// Serves a request, and records where its time went.
    fn serve(
        &self,
        request: Request,
        chooser: &mut TransactionGenerator<'_>,
        recorder: &Recorder,
    ) -> EngineResult<()> {
        let content = match request {
            Request::Put { .. } => chooser.content(),
            Request::Get(_) | Request::Head(_) => (&[][..], &[][..]),
        };
        let operation = match request {
            Request::Get(_) => 0,
            Request::Head(_) => 1,
            Request::Put { on_disk, .. } => 2 + u8::from(on_disk),
        };
        pellucid_thread::set_operation(operation + 1);
        let begun = recorder.now();
        let mut timeline = recorder.begin(begun);
        for stamp in &STAMPS[1..=Stamp::Started as usize] {
            timeline.stamp_at(*stamp, begun);
        }
        let is_found = match request {
            Request::Get(number) => {
                let (key, mode) = (key_of(number), ReadMode::MayBlock);
                self.engine.get_timed(self.table, &key, mode, &mut timeline)?.value().is_some()
            }
            Request::Head(number) => {
                let (key, mode) = (key_of(number), ReadMode::MayBlock);
                self.engine.head_timed(self.table, &key, mode, &mut timeline)?.value().is_some()
            }
            Request::Put { number, on_disk } => {
                self.put(number, content, on_disk, &mut timeline)?;
                true
            }
        };
        let end = timeline.stamp(Stamp::Executed);
        timeline.stamp_at(Stamp::Written, end);
        let outcome = u8::from(!is_found);
        recorder.record(&timeline, RequestFacts { operation, outcome, ..RequestFacts::default() });
        // Until the next request, the thread works for the load and not for an operation.
        pellucid_thread::set_operation(0);
        Ok(())
    }

    fn put(
        &self,
        number: u64,
        (head, value): (&[u8], &[u8]),
        on_disk: bool,
        timeline: &mut Timeline,
    ) -> EngineResult<()> {
        let acknowledgement = match on_disk {
            true => Acknowledgement::Disk,
            false => Acknowledgement::Os,
        };
        let key = key_of(number);
        let put = Operation::put(self.table, &key, value).with_head(head);
        let written = self.engine.write_timed(&[put], acknowledgement, timeline)?;
        if written.pending {
            let asked = timeline.clock().now();
            let times = self.engine.wait_durable(written.sequence)?;
            let begun = times.begun.max(asked);
            timeline.add_part(parts::GROUP_WAIT, begun.since(asked), begun);
            timeline.add_part(parts::SYNC, times.ended.since(begun), times.ended);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::MergeTreeOptions;
    use super::*;

    /// An output that panics.
    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            panic!("as this test wants it")
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Regression: if a thread could not be started, the threads before it ran on, and the child
    /// waited for them without end. A panic is another early way out.
    #[test]
    fn the_threads_of_a_load_end_on_every_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan::of(&MergeTreeOptions::default(), folder.path().join("store")).unwrap();
        let text = serde_json::to_vec(&plan).unwrap();
        let child = std::thread::spawn(move || run_child(&*text, Broken).is_ok());
        let begun = Instant::now();
        while !child.is_finished() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the child does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(child.join().is_err(), "it panicked");
    }
}

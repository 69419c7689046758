//! Measures one load on one engine, from the side of the client and of the server.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hdrhistogram::Histogram;
use pellucid_account::OperationAccount;
use pellucid_load::{LoadResult, Pacer};
use pellucid_report::{JudgedLoad, Span};

use super::original::{self, Original};
use super::plan::{Engine, EntityStudyOptions, ServerPlan};
use super::workload::{LoadKind, fill, load};
use crate::child_server::ChildServer;
use crate::error::StudyError;
use crate::generator::Generator;
use crate::jobs::{JobSpan, Window, unix_ns};
use crate::loads::judged;
use crate::profile_recording::RecordedProfiles;
use crate::study::Scale;

/// The measured rate as a share of the highest, if the machine cannot hold the original's rate.
const RATE_SHARE: f64 = 0.7;
/// The original's rate is used if the highest rate is more than this many times as high.
const ROOM: f64 = 1.1;
/// The duration of the closed loop before each run.
const CLOSED_LOOP: Duration = Duration::from_secs(1);
/// The duration in seconds of the same load with wrk2's pacing, before each run.
const BY_WRK2_SECONDS: u64 = 2;
/// Samples per second of processor time. A load on one connection takes little processor time, so
/// the rate must be high to get enough samples.
const HERTZ: u32 = 397;
/// The pause before a load. A window of the account counts whole seconds, so without a pause it
/// would contain requests of the load before.
const PAUSE: Duration = Duration::from_millis(1_100);

/// A running server with its store.
pub(super) struct EngineServer {
    pub(super) engine: Engine,
    server: ChildServer,
    data: PathBuf,
    /// The time from the start of the filling until the store came to rest.
    pub(super) filling: Window,
    /// True if the store came to rest before every load.
    pub(super) is_rested: bool,
    /// The background jobs so far, as far as the account has them.
    jobs: Vec<JobSpan>,
    /// True once the study is interrupted.
    stop: Arc<AtomicBool>,
}

/// A load to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadPlan {
    pub(super) work: LoadKind,
    /// The rate of the load, in requests per second.
    pub(super) rate: f64,
    /// The highest rate, in requests per second.
    pub(super) highest: f64,
    /// True for the overload.
    is_overload: bool,
}

impl LoadPlan {
    /// The same kind of requests at the rate that the original could not hold.
    pub(super) fn overload(self) -> LoadPlan {
        LoadPlan { rate: original::OVERLOAD, is_overload: true, ..self }
    }

    fn title(self) -> String {
        let overload = if self.is_overload { " overload" } else { "" };
        format!("{}{overload}", self.work.title())
    }
}

/// The outcome of a load.
pub(super) struct Row {
    pub(super) engine: Engine,
    pub(super) work: LoadKind,
    /// The highest rate, in requests per second.
    pub(super) highest: f64,
    /// The rate of the load, in requests per second.
    pub(super) rate: f64,
    pub(super) result: LoadResult,
    pub(super) judged: JudgedLoad,
    /// A closed loop of the same requests, which shows the highest rate of one connection.
    pub(super) closed: JudgedLoad,
    /// The response times of the same load with the pacing of wrk2, which the original used.
    pub(super) by_wrk2: Histogram<u64>,
    pub(super) window: Window,
    /// Flushes and compactions in the window. Those of RocksDB are known only after it has stopped.
    pub(super) spans: Vec<Span>,
    /// Processor time of the server by thread, in nanoseconds.
    pub(super) processor_ns: BTreeMap<String, u64>,
    pub(super) account: Option<OperationAccount>,
    pub(super) profiles: RecordedProfiles,
}

impl Row {
    /// The response time at a quantile, in nanoseconds.
    pub(super) fn at(&self, quantile: f64) -> f64 {
        self.result.times.response.value_at_quantile(quantile) as f64
    }

    /// The processor time of the server per request, in nanoseconds.
    pub(super) fn processor_by_request_ns(&self) -> f64 {
        let sum: u64 = self.processor_ns.values().sum();
        sum as f64 / self.result.requests.max(1) as f64
    }
}

/// A generator of loads on one connection.
fn generator<'a>(program: &'a OsString, url: &'a str, script: &'a str) -> Generator<'a> {
    let (connections, threads, is_direct, asks_for_missing) = (1, 1, false, false);
    Generator { program, url, script, connections, threads, is_direct, asks_for_missing }
}

impl EngineServer {
    pub(super) fn start(
        program: &[OsString],
        engine: Engine,
        folder: &Path,
        memory_bytes: u64,
        stop: Arc<AtomicBool>,
    ) -> Result<EngineServer, StudyError> {
        let data = folder.join(engine.name());
        let plan = ServerPlan { engine, data: data.clone(), memory_bytes };
        let server = ChildServer::start("the server", program, &plan)?;
        let (filling, jobs) = (Window::default(), Vec::new());
        Ok(EngineServer { engine, server, data, filling, is_rested: true, jobs, stop })
    }

    /// Puts every key once, and waits until the background work is done.
    pub(super) fn fill(&mut self, keys: u64) -> Result<(), StudyError> {
        let begun = unix_ns();
        fill(&self.server.url(), keys)?;
        self.rest()?;
        self.filling = Window::since(begun);
        self.note_jobs(self.filling)
    }

    fn rest(&mut self) -> Result<(), StudyError> {
        self.is_rested &= self.server.rest()?;
        Ok(())
    }

    /// Adds the jobs of a window that ends now, as far as the server's account has them. The pauses
    /// between windows are longer than the rounding to whole seconds, so no job is added twice.
    fn note_jobs(&mut self, window: Window) -> Result<(), StudyError> {
        self.jobs.extend(self.server.jobs(window.seconds())?);
        Ok(())
    }

    /// Runs a load; `run` is the number of the run, from 1.
    pub(super) fn measure(
        &mut self,
        binary: &OsString,
        put_on: &LoadPlan,
        run: usize,
        options: &EntityStudyOptions,
    ) -> Result<Row, StudyError> {
        let (work, seconds) = (put_on.work, options.seconds());
        let (script, rate) = (work.script(options.keys()), put_on.rate);
        let name = format!("{}, {}", self.engine.name(), put_on.title());
        let mut closed = self.closed_loop(binary, &script, CLOSED_LOOP)?;
        (closed.name, closed.run) = (format!("{name}, closed loop"), run);
        let file = self.data.with_extension("lua");
        std::fs::write(&file, &script).map_err(|error| StudyError::file("write", &file, error))?;
        let by_wrk2_seconds = seconds.min(BY_WRK2_SECONDS);
        let url = self.server.url();
        let by_wrk2 = load(&url, &file, rate, by_wrk2_seconds, Pacer::Wrk2, &self.stop)?;
        self.rest()?;
        std::thread::sleep(PAUSE);
        self.server.profile(HERTZ)?;
        let before = self.server.figures()?.processor_ns;
        let result = load(&url, &file, rate, seconds, Pacer::Exact, &self.stop)?;
        let mut processor_ns = self.server.figures()?.processor_ns;
        for (thread, ns) in &mut processor_ns {
            *ns = ns.saturating_sub(before.get(thread).copied().unwrap_or(0));
        }
        let began_unix_ns = result.started.unix_ms().saturating_mul(1_000_000);
        let now = Window::since(began_unix_ns);
        let accounts = self.server.account(now.seconds())?;
        self.note_jobs(now)?;
        let profiles = self.server.profiles()?;
        let profiles = profiles.of(&name);
        let of_work = accounts.into_iter().filter(|each| each.operation == work.operation());
        let duration_ns = u64::try_from(result.duration.as_nanos()).unwrap_or(u64::MAX);
        let ended_unix_ns = began_unix_ns.saturating_add(duration_ns);
        let window = Window { began_unix_ns, ended_unix_ns };
        Ok(Row {
            engine: self.engine,
            work,
            highest: put_on.highest,
            rate,
            judged: judged(name, run, &result),
            closed,
            by_wrk2: by_wrk2.times.response,
            result,
            spans: window.spans(&self.jobs),
            window,
            processor_ns,
            account: of_work.max_by_key(|each| each.count),
            profiles,
        })
    }

    /// Determines the load for measurements from the highest rate, and returns true if a search
    /// found that rate: the highest rate with the original's 99th percentile. Otherwise it is the
    /// rate of a closed loop: in the quick study, which has no time for a search, and if the search
    /// finds none; then `notes` gets the reason.
    pub(super) fn highest(
        &self,
        binary: &OsString,
        work: LoadKind,
        options: &EntityStudyOptions,
        notes: &mut Vec<String>,
    ) -> Result<(LoadPlan, bool), StudyError> {
        let script = work.script(options.keys());
        let p99 = Original::of(work).p99_held;
        let found = match options.scale {
            Scale::Quick => None,
            scale => {
                let url = self.server.url();
                let name = format!("{} on {}", work.title(), self.engine.name());
                let is_quick = scale == Scale::Default;
                generator(binary, &url, &script).highest(&name, p99, is_quick, notes)
            }
        };
        let time = Duration::from_secs(options.seconds());
        let highest = match found {
            Some(found) => found,
            None => self.closed_loop(binary, &script, time)?.answered_per_second,
        };
        let original = Original::of(work).rate;
        // Close to the highest rate, most of the response time would be waiting.
        let rate = if highest > original * ROOM { original } else { highest * RATE_SHARE };
        Ok((LoadPlan { work, rate: rate.max(1.0), highest, is_overload: false }, found.is_some()))
    }

    fn closed_loop(
        &self,
        binary: &OsString,
        script: &str,
        time: Duration,
    ) -> Result<JudgedLoad, StudyError> {
        Ok(generator(binary, &self.server.url(), script).run(None, time)?.judged)
    }

    /// Stops the server, and returns the flushes and compactions of its store.
    pub(super) fn stop(self) -> Result<Vec<JobSpan>, StudyError> {
        self.server.stop()?;
        match self.engine {
            Engine::Embedded => Ok(self.jobs),
            #[cfg(feature = "rocksdb")]
            Engine::RocksDb => super::rocks_log::read(&self.data.join("rocksdb")),
        }
    }
}

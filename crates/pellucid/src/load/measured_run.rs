//! A measured run with everything that is reported about it: the verdict, the server's account, the
//! steps of its requests, and the server's background work.

use pellucid_account::OperationAccount;
use pellucid_load::{
    Figures, Judgement, LoadOptions, LoadResult, Objectives, Progress, judge, run, wrk2,
};
use pellucid_report::Section;
use serde_json::Value;

use super::background::{BackgroundWatcher, BackgroundWork};
use super::latency_breakdowns::LatencyBreakdowns;
use super::{account, document, section, show};
use crate::Failure;

/// A run that was measured.
pub(super) struct Run {
    pub(super) result: LoadResult,
    pub(super) judgement: Judgement,
    /// The server's accounts, that of the operation that occurred most first; empty without one.
    pub(super) accounts: Vec<OperationAccount>,
    /// The account of each node, with `--direct`.
    nodes: Vec<Option<OperationAccount>>,
    ways: LatencyBreakdowns,
    background: BackgroundWork,
}

impl Run {
    /// Runs a load. If `is_shown`, the server is asked for its background work during the run, and
    /// for its account afterwards. `around` is a further percentile whose requests are shown.
    pub(super) fn measure(
        options: &LoadOptions,
        header: &str,
        is_shown: bool,
        around: Option<f64>,
    ) -> Result<Run, Failure> {
        let watching = (is_shown && options.ask_timing).then(|| BackgroundWatcher::start(options));
        let result = measure(options, header);
        let background = watching.map(BackgroundWatcher::finish).unwrap_or_default();
        let result = result?;
        Ok(Run {
            judgement: judge(&Figures::of(&result)),
            accounts: if is_shown { account::of_run(options, &result) } else { Vec::new() },
            nodes: if is_shown { account::of_nodes(options, &result) } else { Vec::new() },
            ways: LatencyBreakdowns::of(&result, around),
            background,
            result,
        })
    }

    /// The text for people that follows the table of wrk or wrk2.
    pub(super) fn text(&self) -> String {
        [
            wrk2::accounts(&self.result),
            show::direct(&self.result),
            show::operations(&self.result),
            self.ways.text(&self.result),
            show::judgement(&self.judgement),
        ]
        .concat()
    }

    /// The run as JSON.
    pub(super) fn document(&self) -> Value {
        let Run { result, judgement, accounts, ways, background, .. } = self;
        let mut document = document::of(result, judgement, accounts.first(), ways, background);
        if let Some(direct) = &result.direct {
            document["direct"] = document::direct(direct, &self.nodes);
        }
        document
    }

    /// The run as a section of a report.
    pub(super) fn section(&self) -> Section {
        let charts =
            [self.ways.charts(), section::nodes(&self.result), self.background.charts()].concat();
        section::of(&self.result, &self.judgement, self.accounts.first(), charts)
    }

    /// Calls the script's function `done`. It prints, so it must come after all other output.
    pub(super) fn call_done(&mut self) -> Result<(), Failure> {
        self.result.call_done().map_err(Failure::work)
    }

    /// A sentence about the event that ended the run early, if there was one.
    pub(super) fn failure(&self) -> Option<String> {
        let failure = self.result.failure.as_ref()?;
        Some(format!("the run ended early, and its figures are of the time before: {failure}"))
    }

    /// Checks the outcome of the run.
    ///
    /// # Errors
    /// If an error ended the run, no request was answered, or an objective was missed.
    pub(super) fn check(&self, objectives: Option<&Objectives>) -> Result<(), Failure> {
        let result = &self.result;
        if let Some(failure) = self.failure() {
            return Err(Failure::work(failure));
        }
        if result.requests == 0 {
            let first = result.first_error.as_deref().unwrap_or("the run was too short for one");
            return Err(Failure::work(format!("no request was answered: {first}")));
        }
        match objectives.map_or(Ok(()), |objectives| objectives.check(result)) {
            Ok(()) => Ok(()),
            Err(reason) => Err(Failure::work(format!("the objective was missed: {reason}"))),
        }
    }
}

/// Runs a load and shows its progress on standard error. `header` is printed when the load is
/// ready.
pub(super) fn measure(options: &LoadOptions, header: &str) -> Result<LoadResult, Failure> {
    let mut line = show::ProgressLine::new();
    let mut progress = |progress: Progress| match progress {
        Progress::Ready => print_part!("{header}"),
        Progress::Running { elapsed, requests, errors } => line.show(elapsed, requests, errors),
    };
    let result = run(options, &mut progress);
    line.clear();
    result.map_err(Failure::work)
}

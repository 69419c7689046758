//! A run with all that is told of it: what it may be taken for, the server's account, the ways of
//! its requests, and what ran in the server's background.

use pellucid_account::OperationAccount;
use pellucid_load::{
    Figures, Judgement, LoadOptions, LoadResult, Objectives, Progress, judge, run, wrk2,
};
use pellucid_report::Section;
use serde_json::Value;

use super::background::{Background, Watching};
use super::ways::Ways;
use super::{account, document, section, show};
use crate::Failure;
use crate::printed::print_text;

/// A run that was measured.
pub(super) struct Run {
    pub(super) result: LoadResult,
    pub(super) judgement: Judgement,
    pub(super) account: Option<OperationAccount>,
    /// With `--direct`: each node's own account.
    nodes: Vec<Option<OperationAccount>>,
    ways: Ways,
    background: Background,
}

impl Run {
    /// Runs a load, and asks the server meanwhile and afterwards what it did, if that is shown.
    /// `around` is one more percentile whose ways are told.
    pub(super) fn measure(
        options: &LoadOptions,
        header: &str,
        is_shown: bool,
        around: Option<f64>,
    ) -> Result<Run, Failure> {
        let watching = (is_shown && options.ask_timing).then(|| Watching::start(options));
        let result = measure(options, header);
        let background = watching.map(Watching::finish).unwrap_or_default();
        let result = result?;
        Ok(Run {
            judgement: judge(&Figures::of(&result)),
            account: if is_shown { account::of_run(options, &result) } else { None },
            nodes: if is_shown { account::of_nodes(options, &result) } else { Vec::new() },
            ways: Ways::of(&result, around),
            background,
            result,
        })
    }

    /// For people: what the tables of wrk and wrk2 lack.
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

    /// For programs.
    pub(super) fn document(&self) -> Value {
        let Run { result, judgement, account, ways, background, .. } = self;
        let mut document = document::of(result, judgement, account.as_ref(), ways, background);
        if let Some(direct) = &result.direct {
            document["direct"] = document::direct(direct, &self.nodes);
        }
        document
    }

    /// For a report, which shows parts beside the figures that every run has.
    pub(super) fn section(&self) -> Section {
        let charts =
            [self.ways.charts(), section::nodes(&self.result), self.background.charts()].concat();
        section::of(&self.result, &self.judgement, self.account.as_ref(), charts)
    }

    /// Calls the script's `done`, which prints, so it comes after everything else is out.
    pub(super) fn call_done(&mut self) -> Result<(), Failure> {
        self.result.call_done().map_err(Failure::work)
    }

    /// The event that ended the run before its time, in words.
    pub(super) fn failure(&self) -> Option<String> {
        let failure = self.result.failure.as_ref()?;
        Some(format!("the run ended early, and its figures are of the time before: {failure}"))
    }

    /// A run that an error has ended has failed, and so have one that heard nothing and one that
    /// kept nothing of what it was to keep.
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

/// Runs a load and tells its progress: on a terminal in one line, elsewhere in a line now and then.
pub(super) fn measure(options: &LoadOptions, header: &str) -> Result<LoadResult, Failure> {
    let mut line = show::ProgressLine::new();
    let mut progress = |progress: Progress| match progress {
        // Where nothing can be printed, the table says so at the end.
        Progress::Ready => drop(print_text(header)),
        Progress::Running { elapsed, requests, errors } => line.show(elapsed, requests, errors),
    };
    let result = run(options, &mut progress);
    line.clear();
    result.map_err(Failure::work)
}

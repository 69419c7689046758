//! Loads that this process generates: their verdicts, and the decision whether a load's figures are
//! those of the server.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pellucid_load::{Figures, Limit, LoadOptions, LoadResult, Progress, Verdict, judge, run};
use pellucid_report::JudgedLoad;

use crate::error::StudyError;

/// Sends this many requests, all of which must be answered without an error: soon after the first
/// one, the load ends. `what` names the requests in the message about a failure.
pub(crate) fn all_answered(
    mut options: LoadOptions,
    requests: u64,
    what: &str,
) -> Result<LoadResult, StudyError> {
    options.limit = Limit::Requests(requests);
    let stop = Arc::clone(&options.stop);
    let mut end_at_error = |progress| {
        if matches!(progress, Progress::Running { errors: 1.., .. }) {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let result =
        run(&options, &mut end_at_error).and_then(LoadResult::whole).map_err(StudyError::step)?;
    let (answered, errors) = (result.requests, result.errors.all());
    if errors > 0 || answered < requests {
        let hint = result.first_error.unwrap_or_default();
        return Err(StudyError::Step(format!(
            "{answered} of {requests} {what} were answered, {errors} with errors: {hint}"
        )));
    }
    Ok(result)
}

/// Judges a load that this process generated.
pub(crate) fn judged(name: impl Into<String>, run: usize, result: &LoadResult) -> JudgedLoad {
    let judgement = judge(&Figures::of(result));
    JudgedLoad {
        name: name.into(),
        run,
        offered_per_second: result.load.offered_per_second,
        answered_per_second: result.requests_per_second(),
        p99_ns: Some(result.times.response.value_at_quantile(0.99) as f64),
        verdict: judgement.verdict.name().to_owned(),
        evidence: judgement.evidence.join(" "),
    }
}

/// Returns true if the response times of a load are those of the server: the server was not
/// saturated, and neither the generator nor the machine was the limit.
pub(crate) fn has_times(load: &JudgedLoad) -> bool {
    [Verdict::Stable, Verdict::Stalled].iter().any(|verdict| verdict.name() == load.verdict)
}

/// Returns true if the processor time of a load is that of answered requests.
pub(crate) fn has_work(load: &JudgedLoad) -> bool {
    load.verdict != Verdict::Errors.name()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_late_generator_are_not_those_of_the_server() {
        let load = |verdict: Verdict| JudgedLoad {
            verdict: verdict.name().to_owned(),
            ..JudgedLoad::default()
        };
        assert!(has_times(&load(Verdict::Stable)) && has_work(&load(Verdict::GeneratorLimited)));
        for verdict in [Verdict::GeneratorLimited, Verdict::Saturated, Verdict::Errors] {
            assert!(!has_times(&load(verdict)), "{verdict:?}");
        }
        assert!(!has_work(&load(Verdict::Errors)));
    }
}

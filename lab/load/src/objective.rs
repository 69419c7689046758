//! Service-level objectives, as `--slo` takes them: `p99=5ms`, `p50=200us,p99.9=20ms,errors=0.1%`.

use crate::error::LoadError;
use crate::result::LoadResult;
use crate::units::parse_duration;
use crate::verdict::{Figures, Verdict, ended_in_silence, judge, saturated};

/// The largest number of objectives in a list.
const OBJECTIVES_MAX: usize = 16;
/// The largest share of errors if the list names none.
const ERRORS_MAX: f64 = 0.001;

/// Bounds that a run must stay within.
#[derive(Clone, Debug, PartialEq)]
pub struct Objectives {
    /// Quantiles of the response time and what they may be at most, in nanoseconds.
    pub quantiles: Vec<(f64, u64)>,
    /// The share of requests that may fail.
    pub errors_max: f64,
}

impl Objectives {
    /// Reads a list such as `p99=5ms,errors=0.1%`.
    ///
    /// # Errors
    /// The text says what was given and what is allowed.
    pub fn parse(text: &str) -> Result<Objectives, LoadError> {
        let mut objectives = Objectives { quantiles: Vec::new(), errors_max: ERRORS_MAX };
        let parts: Vec<&str> = text.split(',').collect();
        for part in parts.iter().take(OBJECTIVES_MAX) {
            let wrong = || {
                LoadError::Option(format!(
                    "'{part}' is no objective: allowed are pN=TIME with N from 0 to 100, such as \
                     p99=5ms or p99.9=20ms, and errors=SHARE%, such as errors=0.1%"
                ))
            };
            let (name, bound) = part.trim().split_once('=').ok_or_else(wrong)?;
            if name == "errors" {
                let percent: Option<f64> =
                    bound.strip_suffix('%').and_then(|number| number.parse().ok());
                let percent = percent.filter(|number| (0.0..=100.0).contains(number));
                objectives.errors_max = percent.ok_or_else(wrong)? / 100.0;
                continue;
            }
            let percent: f64 =
                name.strip_prefix('p').and_then(|number| number.parse().ok()).ok_or_else(wrong)?;
            let bound = parse_duration(bound).map_err(|_| wrong())?;
            if !(0.0..=100.0).contains(&percent) || bound.is_zero() {
                return Err(wrong());
            }
            let bound_ns = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
            objectives.quantiles.push((percent / 100.0, bound_ns));
        }
        match objectives.quantiles.is_empty() || parts.len() > OBJECTIVES_MAX {
            true => Err(LoadError::Option(format!(
                "'{text}' must have a time such as p99=5ms, and at most {OBJECTIVES_MAX} objectives"
            ))),
            false => Ok(objectives),
        }
    }

    /// Checks whether a run met the objectives. A run whose backlog grew meets none, and neither
    /// does one that ended in a silence of the server. Requests without an answer at the end count
    /// with the time that they had waited. A run that was limited by the generator may meet them:
    /// without that limit it would be faster.
    ///
    /// # Errors
    /// The first objective that was missed, in words.
    pub fn check(&self, result: &LoadResult) -> Result<(), String> {
        let figures = Figures::of(result);
        let judgement = judge(&figures);
        if result.requests == 0 {
            let evidence = judgement.evidence.first().map_or("", String::as_str);
            return Err(format!("{}: {evidence}", judgement.verdict.name()));
        }
        if let Some((verdict, evidence)) = ended_in_silence(&figures) {
            return Err(format!("{}: {evidence}", verdict.name()));
        }
        // The verdict may be about the machine or the generator.
        if let Some(evidence) = saturated(&figures) {
            return Err(format!("{}: {evidence}", judgement.verdict.name()));
        }
        let all = result.response_time_at_least();
        if all.is_empty() {
            return Err("no request was measured: the warm-up took all of the run".to_owned());
        }
        for (quantile, bound_ns) in &self.quantiles {
            let value_ns = all.value_at_quantile(*quantile);
            if value_ns > *bound_ns {
                let blamed = match judgement.verdict {
                    verdict @ (Verdict::MachineLimited | Verdict::GeneratorLimited) => {
                        format!("{}: ", verdict.name())
                    }
                    _ => String::new(),
                };
                let lacking = result.times.response.value_at_quantile(*quantile) < value_ns;
                let was = if lacking { "was at least" } else { "was" };
                return Err(format!(
                    "{blamed}p{} {was} {:.3} ms, above {:.3} ms",
                    (quantile * 1e7).round() / 1e5,
                    value_ns as f64 / 1e6,
                    *bound_ns as f64 / 1e6
                ));
            }
        }
        match figures.error_share() > self.errors_max {
            true => Err(figures.failed_told()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read() {
        let objectives = Objectives::parse("p99=5ms,p99.9=20ms, errors=1%").unwrap();
        assert_eq!(objectives.quantiles[0], (0.99, 5_000_000));
        assert!((objectives.quantiles[1].0 - 0.999).abs() < 1e-12);
        assert!((objectives.errors_max - 0.01).abs() < 1e-12);
        for text in ["", "p99", "p99=", "p101=1ms", "q=1ms", "p99=0ms", "errors=1", "errors=1%"] {
            let error = Objectives::parse(text).unwrap_err().to_string();
            assert!(error.contains("p99=5ms"), "{text}: {error}");
        }
    }
}

//! The effect of flushes and compactions on requests: compares the slowest request of each short
//! stretch of time with such a job and without.

use pellucid_report::covered_seconds;

use super::measure::Row;

/// The number of stretches that a load is divided into.
const STRETCHES: usize = 400;
/// The fewest stretches of each kind for a result.
const STRETCHES_MIN: usize = 5;

/// The slowest requests with and without a background job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct JobImpact {
    /// The share of the time in which a job ran.
    pub(super) time_share: f64,
    /// The median of the slowest requests of all stretches with a job.
    pub(super) slowest_beside_ns: f64,
    /// The median of the slowest requests of all stretches without a job.
    pub(super) slowest_without_ns: f64,
}

impl JobImpact {
    /// The slowest requests' time with a job divided by that without.
    pub(super) fn ratio(self) -> f64 {
        self.slowest_beside_ns / self.slowest_without_ns.max(1.0)
    }
}

/// The share of a load's time in which a flush or compaction ran.
pub(super) fn time_share(row: &Row) -> f64 {
    let seconds = row.result.duration.as_secs_f64();
    covered_seconds(&row.spans, 0.0, seconds) / seconds.max(f64::MIN_POSITIVE)
}

/// Compares the stretches of a load; `None` if too few are with a job, or too few without.
pub(super) fn of(row: &Row) -> Option<JobImpact> {
    let seconds = row.result.duration.as_secs_f64();
    let mut slowest = vec![0_u64; STRETCHES];
    for sample in &row.result.course.samples {
        let due_ns = sample.time_offset_ns.saturating_sub(sample.response_time_ns);
        let place = due_ns as f64 / 1e9 / seconds * STRETCHES as f64;
        let stretch = &mut slowest[(place as usize).min(STRETCHES - 1)];
        *stretch = (*stretch).max(sample.response_time_ns);
    }
    let is_beside = |stretch: usize| {
        let bound = |index: usize| seconds * index as f64 / STRETCHES as f64;
        row.spans.iter().any(|span| span.overlaps(bound(stretch), bound(stretch + 1)))
    };
    let (mut beside, mut without) = (Vec::new(), Vec::new());
    for (stretch, slowest_ns) in slowest.into_iter().enumerate().filter(|(_, ns)| *ns > 0) {
        if is_beside(stretch) { beside.push(slowest_ns) } else { without.push(slowest_ns) }
    }
    Some(JobImpact {
        time_share: time_share(row),
        slowest_beside_ns: median(beside)?,
        slowest_without_ns: median(without)?,
    })
}

/// The median; `None` for fewer than [`STRETCHES_MIN`] values.
fn median(mut values: Vec<u64>) -> Option<f64> {
    values.sort_unstable();
    (values.len() >= STRETCHES_MIN).then(|| values[values.len() / 2] as f64)
}

//! The effect of flushes and compactions on requests: the slowest request of each short stretch,
//! where one ran and where none did.

use pellucid_report::covered_seconds;

use super::measure::Row;

/// Stretches of a load.
const STRETCHES: usize = 400;
/// Stretches of either kind below which nothing can be told.
const STRETCHES_MIN: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Beside {
    /// The share of the time in which a job ran.
    pub(super) time_share: f64,
    /// The median of the slowest of each stretch while one did.
    pub(super) slowest_beside_ns: f64,
    /// The same while none did.
    pub(super) slowest_without_ns: f64,
}

impl Beside {
    /// The time that the slowest take longer beside a job.
    pub(super) fn ratio(self) -> f64 {
        self.slowest_beside_ns / self.slowest_without_ns.max(1.0)
    }
}

/// The share of a load's time in which a flush or compaction ran.
pub(super) fn time_share(row: &Row) -> f64 {
    let seconds = row.result.duration.as_secs_f64();
    covered_seconds(&row.spans, 0.0, seconds) / seconds.max(f64::MIN_POSITIVE)
}

/// Nothing if too few stretches are with a job, or without.
pub(super) fn of(row: &Row) -> Option<Beside> {
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
    Some(Beside {
        time_share: time_share(row),
        slowest_beside_ns: median(beside)?,
        slowest_without_ns: median(without)?,
    })
}

/// The median of enough values.
fn median(mut values: Vec<u64>) -> Option<f64> {
    values.sort_unstable();
    (values.len() >= STRETCHES_MIN).then(|| values[values.len() / 2] as f64)
}

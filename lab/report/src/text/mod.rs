//! Figures as text, for terminals and for files.
//!
//! The layouts are those of the studies that the model of the account comes from: R's summary line,
//! the line of quantiles below it, and the logarithmic histogram of bpftrace. So a new table can be
//! compared with one of the studies.

mod columns;
mod findings;
mod log_histogram;
mod phase_table;
mod quantile_bars;
mod sentence;
mod study;

use pellucid_account::OperationAccount;

pub use findings::findings;
pub use log_histogram::log_histogram;
pub(crate) use log_histogram::powers_of_two;
pub use phase_table::phase_table;
pub use quantile_bars::around;
pub use sentence::sentence;
pub use study::study_table;

/// The whole account as text: the total in the layout of the studies, its histogram, the phases,
/// and the requests around each quantile.
#[must_use]
pub fn account(account: &OperationAccount) -> String {
    format!(
        "Received to written, in nanoseconds:\n\n{}\n{}\n{}\n{}",
        study_table(&account.total),
        log_histogram(&account.total),
        phase_table(account),
        around(account),
    )
}

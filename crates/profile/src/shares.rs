//! Where it went: the share of each phase or job, and component, in a profile.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::component::OTHER;
use crate::resolved::Resolved;

/// The share of one phase or job and component.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// The phase, or `job` and its name; `unlabelled` for neither.
    pub phase: String,
    /// The component.
    pub component: &'static str,
    /// The amount.
    pub amount: f64,
    /// Its share of the profile.
    pub share: f64,
}

/// All shares of a profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    /// The largest first.
    pub shares: Vec<Share>,
    /// The share of what has both a phase or job and a component.
    pub explained: f64,
}

/// The shares of a profile by phase or job, and component.
#[must_use]
pub fn shares(profile: &Resolved) -> Shares {
    let mut sums: BTreeMap<(String, &'static str), f64> = BTreeMap::new();
    let all = profile.amount();
    if all <= 0.0 {
        return Shares::default();
    }
    let mut explained = 0.0;
    for sample in &profile.samples {
        let phase = match (&*sample.job, &*sample.phase) {
            ("", "") => "unlabelled".to_owned(),
            ("", phase) => phase.to_owned(),
            (job, _) => format!("job {job}"),
        };
        if phase != "unlabelled" && sample.component != OTHER {
            explained += sample.amount;
        }
        *sums.entry((phase, sample.component)).or_default() += sample.amount;
    }
    let share = |((phase, component), amount): ((String, &'static str), f64)| Share {
        phase,
        component,
        amount,
        share: amount / all,
    };
    let mut shares: Vec<Share> = sums.into_iter().map(share).collect();
    shares.sort_by(|a, b| b.amount.total_cmp(&a.amount));
    Shares { shares, explained: explained / all }
}

impl Shares {
    /// The shares as a table of plain text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{:<20} {:<16} {:>7}\n", "phase or job", "component", "share");
        for Share { phase, component, share, .. } in &self.shares {
            let _ = writeln!(text, "{phase:<20} {component:<16} {:>6.1}%", share * 100.0);
        }
        let _ = writeln!(text, "explained by phase and component: {:.1}%", self.explained * 100.0);
        text
    }
}

//! The share of a profile that belongs to each phase or job, and component.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::component::OTHER;
use crate::folded_stacks::head_of;
use crate::resolved_profile::ResolvedProfile;

/// The share of one phase or job and component.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// The phase, or `job` and its name; `unlabelled` for neither.
    pub phase: String,
    /// The component.
    pub component: &'static str,
    /// The amount, in the unit of the profile.
    pub amount: f64,
    /// The share of the profile's whole amount, from 0 to 1.
    pub share: f64,
}

/// All shares of a profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    /// The shares, largest first.
    pub shares: Vec<Share>,
    /// The share of the samples that have both a phase or job and a component, from 0 to 1.
    pub explained: f64,
    /// The number of samples; `None` if equal samples are merged into one.
    pub samples: Option<usize>,
}

/// Calculates the shares of a profile by phase or job, and component.
#[must_use]
pub fn shares(profile: &ResolvedProfile) -> Shares {
    let mut sums: BTreeMap<(String, &'static str), f64> = BTreeMap::new();
    let all = profile.amount();
    if all <= 0.0 {
        return Shares::default();
    }
    let mut explained = 0.0;
    for sample in &profile.samples {
        let phase = head_of("", &sample.phase, &sample.job);
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
    let is_each_kept = profile.samples.iter().all(|sample| sample.at_ns > 0);
    let samples = is_each_kept.then_some(profile.samples.len());
    Shares { shares, explained: explained / all, samples }
}

impl Shares {
    /// Formats the shares beside those of `base` as a plain text table, the largest change first.
    #[must_use]
    pub fn text_beside(&self, base: &Shares) -> String {
        let mut rows: BTreeMap<(&str, &str), (f64, f64)> = BTreeMap::new();
        for share in &base.shares {
            rows.entry((&share.phase, share.component)).or_default().0 = share.share;
        }
        for share in &self.shares {
            rows.entry((&share.phase, share.component)).or_default().1 = share.share;
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        let change = |(before, now): (f64, f64)| (now - before).abs();
        rows.sort_by(|a, b| change(b.1).total_cmp(&change(a.1)));
        let mut text = format!(
            "{:<20} {:<16} {:>7} {:>7} {:>8}\n",
            "phase or job", "component", "before", "share", "change"
        );
        for ((phase, component), (before, now)) in rows {
            let [before, now, change] = [before, now, now - before].map(|share| share * 100.0);
            let _ = writeln!(
                text,
                "{phase:<20} {component:<16} {before:>6.1}% {now:>6.1}% {change:>+7.1}%"
            );
        }
        text
    }

    /// Formats the shares as a plain text table.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{:<20} {:<16} {:>7}\n", "phase or job", "component", "share");
        for Share { phase, component, share, .. } in &self.shares {
            let _ = writeln!(text, "{phase:<20} {component:<16} {:>6.1}%", share * 100.0);
        }
        if let Some(samples) = self.samples {
            let _ = writeln!(text, "samples: {samples}");
        }
        let _ = writeln!(text, "explained by phase and component: {:.1}%", self.explained * 100.0);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_shares_before_and_after_and_their_change() {
        let share = |phase: &str, share| Share {
            phase: phase.to_owned(),
            component: "engine",
            amount: share,
            share,
        };
        let of = |shares| Shares { shares, explained: 1.0, samples: Some(9) };
        let before = of(vec![share("execute", 0.9), share("parse", 0.1)]);
        let now = of(vec![share("execute", 0.85), share("job flush", 0.15)]);
        let text = now.text_beside(&before);
        let rows: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["job", "flush", "engine", "0.0%", "15.0%", "+15.0%"], "{text}");
        assert_eq!(rows[1], ["parse", "engine", "10.0%", "0.0%", "-10.0%"]);
        assert_eq!(rows[2], ["execute", "engine", "90.0%", "85.0%", "-5.0%"]);
        assert!(now.text().contains("samples: 9\n"), "how sure they are: {}", now.text());
        assert!(!Shares { samples: None, ..now }.text().contains("samples"));
    }
}

//! The file of facts: what it holds, and when a version is affected.

use semver::{Version, VersionReq};
use serde::{Deserialize, Serialize};

/// What is known about the packages that we lock.
#[derive(Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Facts {
    /// Where the database is.
    pub(super) database: String,
    /// Its commit that the facts come from, and the day of that.
    pub(super) commit: String,
    pub(super) committed_on: String,
    /// The packages that were looked up.
    pub(super) covered: Vec<String>,
    /// What was found, by package and identity.
    #[serde(default)]
    pub(super) advisory: Vec<Advisory>,
    /// What we live with. Written by people, and kept when the facts are refreshed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) accepted: Vec<Accepted>,
}

/// An advisory: its facts, without its prose.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct Advisory {
    pub(super) id: String,
    pub(super) package: String,
    pub(super) date: String,
    /// `unmaintained`, `unsound` or `notice` if it is no vulnerability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) informational: Option<String>,
    /// The versions in which it is mended.
    #[serde(default)]
    pub(super) patched: Vec<String>,
    /// The versions that never had it.
    #[serde(default)]
    pub(super) unaffected: Vec<String>,
}

/// An advisory that does not matter here.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct Accepted {
    pub(super) id: String,
    pub(super) reason: String,
}

impl Advisory {
    /// Whether `version` is neither patched nor unaffected.
    pub(super) fn affects(&self, version: &Version) -> Result<bool, semver::Error> {
        for range in self.patched.iter().chain(&self.unaffected) {
            if VersionReq::parse(range)?.matches(version) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The day of a date such as `2026-08-21`, counted from 1970-01-01; nothing if it is none.
pub(super) fn day_of(date: &str) -> Option<u64> {
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years that begin in March have their leap day last, so that it moves no other day.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    const DAYS_TO_1970: u64 = 719_468;
    Some(before + (month * 153 + 2) / 5 + day - 1 - DAYS_TO_1970)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_over_leap_years() {
        assert_eq!(day_of("1970-01-01"), Some(0));
        assert_eq!(day_of("2000-02-29").map(|day| day + 1), day_of("2000-03-01"));
        assert_eq!(day_of("2026-01-01"), Some(20_454));
        assert_eq!(day_of("2026-13-01"), None);
        assert_eq!(day_of("yesterday"), None);
    }
}

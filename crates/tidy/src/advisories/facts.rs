//! The contents of the file of advisory facts, and the test whether a version is affected.

use pellucid_clock::CalendarDate;
use semver::{Version, VersionReq};
use serde::{Deserialize, Serialize};

/// The file of facts about the packages in our lock files.
#[derive(Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AdvisoryFacts {
    /// The URL of the database.
    pub(super) database: String,
    /// The commit of the database that the facts come from.
    pub(super) commit: String,
    /// The date of that commit.
    pub(super) committed_on: String,
    /// The packages that were looked up.
    pub(super) covered: Vec<String>,
    /// The advisories found, ordered by package and identity.
    #[serde(default)]
    pub(super) advisory: Vec<Advisory>,
    /// The advisories that we accept. People write them; a refresh keeps them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) accepted: Vec<AcceptedAdvisory>,
}

/// An advisory: its facts, without its prose.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct Advisory {
    pub(super) id: String,
    pub(super) package: String,
    pub(super) date: String,
    /// `unmaintained`, `unsound` or `notice`; `None` for a vulnerability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) informational: Option<String>,
    /// The versions in which it is fixed.
    #[serde(default)]
    pub(super) patched: Vec<String>,
    /// The versions that never had it.
    #[serde(default)]
    pub(super) unaffected: Vec<String>,
}

/// An advisory that does not matter here.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct AcceptedAdvisory {
    pub(super) id: String,
    pub(super) reason: String,
}

impl Advisory {
    /// Returns true if `version` is neither patched nor unaffected.
    ///
    /// # Errors
    /// If a range of versions cannot be parsed.
    pub(super) fn affects(&self, version: &Version) -> Result<bool, semver::Error> {
        for range in self.patched.iter().chain(&self.unaffected) {
            if VersionReq::parse(range)?.matches(version) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The number of days from 1970-01-01 to a date such as `2026-08-21`; `None` if it is no date.
pub(super) fn day_of(date: &str) -> Option<u64> {
    let mut parts = date.splitn(3, '-').map(|part| part.parse().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    u64::try_from(CalendarDate { year, month, day }.days()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_told_from_other_text() {
        assert_eq!(day_of("1970-01-01"), Some(0));
        assert_eq!(day_of("2026-01-01"), Some(20_454));
        assert_eq!(day_of("2026-13-01"), None);
        assert_eq!(day_of("yesterday"), None);
    }
}

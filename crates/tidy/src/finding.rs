//! The findings of the checks.

use std::fmt;

/// The weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The check fails.
    Failure,
    /// Information only; the check does not fail.
    Note,
}

/// Something that breaks a house rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Its weight.
    pub(crate) weight: Severity,
    /// The path of the file from the top of the tree.
    pub(crate) path: String,
    /// The line, from 1.
    pub(crate) line: usize,
    /// The defect, in words.
    pub(crate) what: String,
    /// The cure, in words.
    pub(crate) cure: String,
}

impl Finding {
    /// A finding that fails its check.
    pub(crate) fn new(
        path: &str,
        line: usize,
        what: impl Into<String>,
        cure: impl Into<String>,
    ) -> Finding {
        let (path, what, cure) = (path.to_owned(), what.into(), cure.into());
        Finding { weight: Severity::Failure, path, line, what, cure }
    }

    /// The same finding, which does not fail its check.
    pub(crate) fn into_note(mut self) -> Finding {
        self.weight = Severity::Note;
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let note = if self.weight == Severity::Note { "note: " } else { "" };
        let Finding { path, line, what, cure, .. } = self;
        write!(formatter, "{path}:{line}: {note}{what}: {cure}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_shows_place_defect_and_cure() {
        let finding = Finding::new("a.rs", 3, "too long", "split it");
        assert_eq!(finding.to_string(), "a.rs:3: too long: split it");
        assert_eq!(finding.into_note().to_string(), "a.rs:3: note: too long: split it");
    }
}

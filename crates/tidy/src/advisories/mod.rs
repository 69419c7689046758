//! Checks the packages in our lock files against published advisories. The facts are in a file, so
//! the check needs no network and gives the same result everywhere.

mod facts;
mod refresh;

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use semver::Version;
use serde::Deserialize;

use facts::{Advisory, AdvisoryFacts};
pub(crate) use refresh::refresh;

use crate::finding::Finding;
use crate::tree::{File, LOCK_NAME, Tree};

/// The file of facts.
const FACTS: &str = "docs/advisories.toml";
/// The age in days above which the facts should be refreshed.
const AGE_MAX_DAYS: u64 = 180;

/// A lock file of cargo.
#[derive(Deserialize)]
struct LockFile {
    #[serde(default)]
    package: Vec<LockedPackage>,
}

/// A package in a lock.
#[derive(Deserialize)]
struct LockedPackage {
    name: String,
    version: String,
    /// The source of the package; `None` for a package of this repository.
    source: Option<String>,
}

/// The versions of each external package, each with the path of its lock file.
type Versions = BTreeMap<String, Vec<(String, Version)>>;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let facts = match tree.file(FACTS).map(read_facts) {
        Some(Ok(facts)) => facts,
        Some(Err(finding)) => return vec![finding],
        None => return vec![Finding::new(FACTS, 1, "it is missing", cure())],
    };
    let versions = match locked_versions(tree) {
        Ok(versions) => versions,
        Err(finding) => return vec![finding],
    };
    let mut findings = Vec::new();
    let uncovered = versions.iter().filter(|(name, _)| !facts.covered.contains(name));
    let mut locks: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    uncovered.for_each(|(name, places)| locks.entry(&places[0].0).or_default().push(name));
    for (lock, names) in locks {
        let what = format!("{FACTS} does not cover {}", names.join(", "));
        findings.push(Finding::new(lock, 1, what, cure()));
    }
    for (name, places) in &versions {
        for advisory in facts.advisory.iter().filter(|advisory| advisory.package == *name) {
            findings.extend(
                places
                    .iter()
                    .filter_map(|(lock, version)| finding_of(&facts, advisory, lock, version)),
            );
        }
    }
    for accepted in facts.accepted.iter().filter(|accepted| accepted.reason.trim().is_empty()) {
        let what = format!("{} is accepted without a reason", accepted.id);
        findings.push(Finding::new(FACTS, 1, what, "write why it does not matter here"));
    }
    findings.extend(finding_of_age(&facts));
    findings
}

fn cure() -> String {
    "clone the RustSec advisory database into DIR, then \
     `cargo run -p pellucid-tidy -- advisories --database DIR`"
        .to_owned()
}

fn read_facts(file: &File) -> Result<AdvisoryFacts, Finding> {
    toml::from_str(file.text().unwrap_or("")).map_err(|error| {
        let what = format!("it cannot be read: {}", error.message());
        Finding::new(FACTS, 1, what, cure())
    })
}

/// The external packages in all lock files of the tree.
fn locked_versions(tree: &Tree) -> Result<Versions, Finding> {
    let mut versions = Versions::new();
    for file in tree.files.iter().filter(|file| file.name() == LOCK_NAME) {
        let unreadable =
            |what: String| Finding::new(&file.path, 1, what, "let cargo write it anew");
        let lock: LockFile = toml::from_str(file.text().unwrap_or(""))
            .map_err(|error| unreadable(error.message().to_owned()))?;
        for LockedPackage { name, version, source } in lock.package {
            if source.is_none() {
                continue;
            }
            let version = Version::parse(&version)
                .map_err(|error| unreadable(format!("the version of {name}: {error}")))?;
            versions.entry(name).or_default().push((file.path.clone(), version));
        }
    }
    Ok(versions)
}

fn finding_of(
    facts: &AdvisoryFacts,
    advisory: &Advisory,
    lock: &str,
    version: &Version,
) -> Option<Finding> {
    let Advisory { id, package, .. } = advisory;
    match advisory.affects(version) {
        Ok(false) => None,
        Ok(true) if facts.accepted.iter().any(|accepted| accepted.id == *id) => None,
        Ok(true) => {
            let kind = advisory.informational.as_deref().unwrap_or("weak");
            let what = format!("{package} {version} is {kind} by {id}");
            let cure = match &advisory.patched[..] {
                [] => "use another package: no version is patched".to_owned(),
                patched => format!("update it: patched are {}", patched.join(" and ")),
            };
            let finding = Finding::new(lock, 1, what, cure);
            Some(if advisory.informational.is_some() { finding.into_note() } else { finding })
        }
        Err(error) => {
            let what = format!("the versions of {id} cannot be read: {error}");
            Some(Finding::new(FACTS, 1, what, cure()))
        }
    }
}

fn finding_of_age(facts: &AdvisoryFacts) -> Option<Finding> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let Some(day) = facts::day_of(&facts.committed_on) else {
        let what = format!("`{}` is no date", facts.committed_on);
        return Some(Finding::new(FACTS, 1, what, cure()));
    };
    let age = (seconds / (24 * 60 * 60)).saturating_sub(day);
    let what = format!("the facts are {age} days old");
    (age > AGE_MAX_DAYS).then(|| Finding::new(FACTS, 1, what, cure()).into_note())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::tree::tests::tree_of;

    const LOCK: &str = "version = 4\n[[package]]\nname = \"weak\"\nversion = \"1.2.0\"\n\
        source = \"registry+a\"\n[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n";

    /// The weights of the findings if `more` is appended to the fixed facts.
    fn weights(more: &str) -> Vec<Severity> {
        let facts = format!(
            "database = \"d\"\ncommit = \"c\"\ncommitted_on = \"2999-01-01\"\n\
             covered = [\"weak\"]\n{more}"
        );
        let tree = tree_of(&[(FACTS, &facts), ("fuzz/Cargo.lock", LOCK)]);
        check(&tree).iter().map(|finding| finding.weight).collect()
    }

    fn advisory(more: &str) -> String {
        format!("[[advisory]]\nid = \"R-1\"\npackage = \"weak\"\ndate = \"2020-01-01\"\n{more}\n")
    }

    #[test]
    fn a_weak_version_fails_unless_it_is_accepted_with_a_reason() {
        let weak = advisory("patched = [\">= 1.2.1\"]\nunaffected = [\"< 1.1\"]");
        assert_eq!(weights(&weak), [Severity::Failure]);
        let accepted = format!("{weak}[[accepted]]\nid = \"R-1\"\nreason = \"not called\"\n");
        assert_eq!(weights(&accepted), []);
        let no_reason = format!("{weak}[[accepted]]\nid = \"R-1\"\nreason = \" \"\n");
        assert_eq!(weights(&no_reason), [Severity::Failure]);
    }

    #[test]
    fn patched_and_unaffected_versions_pass() {
        assert_eq!(weights(&advisory("patched = [\"^1.1.9\"]")), []);
        assert_eq!(weights(&advisory("patched = []\nunaffected = [\"< 1.3\"]")), []);
    }

    #[test]
    fn an_informational_advisory_is_a_note() {
        let note = advisory("informational = \"unmaintained\"\npatched = []");
        assert_eq!(weights(&note), [Severity::Note]);
    }

    #[test]
    fn a_package_that_is_not_covered_fails() {
        let lock = LOCK.replace("weak", "new");
        let facts = "database = \"d\"\ncommit = \"c\"\ncommitted_on = \"2000-01-01\"\ncovered = []";
        let findings = check(&tree_of(&[(FACTS, facts), ("Cargo.lock", &lock)]));
        assert!(findings[0].what.contains("does not cover new"), "{findings:?}");
        assert_eq!(findings[0].weight, Severity::Failure);
        // The facts from the year 2000 are old, but that is only a note.
        assert_eq!((findings.len(), findings[1].weight), (2, Severity::Note));
    }

    #[test]
    fn missing_and_unreadable_facts_fail() {
        assert_eq!(check(&tree_of(&[("Cargo.lock", LOCK)])).len(), 1);
        assert_eq!(weights("nonsense"), [Severity::Failure]);
        assert_eq!(weights(&advisory("patched = [\"?\"]")), [Severity::Failure]);
    }
}

//! Rewrites the file of advisory facts from a checkout of the RustSec database.

use std::io;
use std::path::Path;

use serde::Deserialize;

use super::facts::{Advisory, AdvisoryFacts};
use super::{FACTS, locked_versions, read_facts};
use crate::tree::{Tree, git};

const DATABASE: &str = "https://github.com/rustsec/advisory-db";
const HEADING: &str = "\
# Facts of published advisories about every package in our locks, without their prose.
# Written by `cargo run -p pellucid-tidy -- advisories --database DIR`, where DIR is a clone of the
# database below. By hand: only `[[accepted]]` entries, an `id` and a `reason` each, at the end.

";
/// The marks before and after the front matter of an advisory.
const FENCES: (&str, &str) = ("```toml\n", "\n```");

/// The facts in the front matter of an advisory.
#[derive(Deserialize)]
struct PublishedAdvisory {
    advisory: Header,
    versions: Versions,
}

#[derive(Deserialize)]
struct Header {
    #[serde(flatten)]
    facts: Advisory,
    withdrawn: Option<String>,
}

#[derive(Deserialize)]
struct Versions {
    #[serde(default)]
    patched: Vec<String>,
    #[serde(default)]
    unaffected: Vec<String>,
}

/// Rewrites the facts about every locked package from the checkout in `database`, and returns a
/// sentence about the result. The accepted advisories are kept.
///
/// # Errors
/// If `database` is no checkout of the database, a file of the database, a lock file or the old
/// facts cannot be read, or the new facts cannot be written.
pub(crate) fn refresh(tree: &Tree, database: &Path) -> io::Result<String> {
    let accepted = match tree.file(FACTS).map(read_facts) {
        Some(facts) => facts.map_err(|finding| io::Error::other(finding.to_string()))?.accepted,
        None => Vec::new(),
    };
    let locked = locked_versions(tree).map_err(|finding| io::Error::other(finding.to_string()))?;
    let packages = database.join("crates");
    if !packages.is_dir() {
        let what = format!("{} is no checkout of {DATABASE}", database.display());
        return Err(io::Error::other(what));
    }
    let commit = git(database, &["log", "-1", "--format=%H %cs"])?;
    let (commit, committed_on) = commit.trim_end().split_once(' ').unwrap_or_default();
    let mut facts = AdvisoryFacts {
        database: DATABASE.to_owned(),
        commit: commit.to_owned(),
        committed_on: committed_on.to_owned(),
        covered: locked.into_keys().collect(),
        advisory: Vec::new(),
        accepted,
    };
    for name in &facts.covered {
        facts.advisory.extend(published(&packages.join(name))?);
    }
    let text = toml::to_string_pretty(&facts).map_err(io::Error::other)?;
    std::fs::write(tree.root.join(FACTS), [HEADING, &text].concat())?;
    let (packages, advisories) = (facts.covered.len(), facts.advisory.len());
    Ok(format!("{FACTS}: {advisories} advisories about {packages} packages, as of {committed_on}"))
}

/// The advisories of a package; none if its folder does not exist.
fn published(folder: &Path) -> io::Result<Vec<Advisory>> {
    let mut advisories = Vec::new();
    if !folder.is_dir() {
        return Ok(advisories);
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let text = std::fs::read_to_string(&path)?;
        let advisory = facts_in(&text)
            .map_err(|what| io::Error::other(format!("{}: {what}", path.display())))?;
        advisories.extend(advisory);
    }
    advisories.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    Ok(advisories)
}

/// Parses the facts of an advisory; `None` if it was withdrawn.
fn facts_in(text: &str) -> Result<Option<Advisory>, String> {
    let front = text.split_once(FENCES.0).and_then(|(_, rest)| rest.split_once(FENCES.1));
    let (front, _) = front.ok_or("there is no front matter")?;
    let PublishedAdvisory { advisory: Header { facts, withdrawn }, versions } =
        toml::from_str(front).map_err(|error| error.message().to_owned())?;
    let Versions { patched, unaffected } = versions;
    Ok(withdrawn.is_none().then_some(Advisory { patched, unaffected, ..facts }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tree::tests::tree_of;

    const ADVISORY: &str = "```toml\n[advisory]\nid = \"R-1\"\npackage = \"weak\"\n\
        date = \"2020-01-02\"\ninformational = \"unsound\"\n[versions]\npatched = [\">= 1.2.1\"]\n\
        ```\n# Prose\n";

    #[test]
    fn the_front_matter_holds_the_facts() {
        let facts = facts_in(ADVISORY).unwrap().unwrap();
        assert_eq!((&facts.id[..], &facts.patched[..]), ("R-1", &[">= 1.2.1".to_owned()][..]));
        let withdrawn = ADVISORY.replace("informational", "withdrawn");
        assert_eq!(facts_in(&withdrawn), Ok(None));
        assert!(facts_in("# Prose").is_err());
        assert!(facts_in(&ADVISORY.replace("id =", "name =")).is_err());
    }

    #[test]
    fn facts_are_written_and_accepted_advisories_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (root, database) = (folder.path().join("ours"), folder.path().join("theirs"));
        fs::create_dir_all(root.join("docs")).unwrap();
        fs::create_dir_all(database.join("crates/weak")).unwrap();
        fs::write(database.join("crates/weak/R-1.md"), ADVISORY).unwrap();
        git(&database, &["init", "-q"]).unwrap();
        git(&database, &["add", "."]).unwrap();
        let who = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
        git(&database, &[&who[..], &["commit", "-q", "-m", "one"]].concat()).unwrap();
        let lock = "[[package]]\nname = \"weak\"\nversion = \"1.0.0\"\nsource = \"registry+a\"\n";
        let before = "database = \"d\"\ncommit = \"c\"\ncommitted_on = \"2000-01-01\"\n\
            covered = []\n[[accepted]]\nid = \"R-1\"\nreason = \"not called\"\n";
        let mut tree = tree_of(&[("Cargo.lock", lock), (FACTS, before)]);
        tree.root = root.clone();
        refresh(&tree, &database).unwrap();
        let written = fs::read_to_string(root.join(FACTS)).unwrap();
        let facts: AdvisoryFacts = toml::from_str(&written).unwrap();
        assert_eq!((&facts.covered[..], facts.advisory.len()), (&["weak".to_owned()][..], 1));
        assert_eq!(facts.accepted[0].reason, "not called");
        assert!(super::super::facts::day_of(&facts.committed_on).is_some());
        assert!(refresh(&tree, &root).is_err(), "a folder that is no database");
    }
}

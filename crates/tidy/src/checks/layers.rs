//! Checks the dependencies between our crates: a crate may depend only on those before it in the
//! order, so that it can be understood and tested without the crates built upon it.

use crate::finding::Finding;
use crate::tree::{File, Tree};

/// The crates from the lowest up. A crate may depend on those before it.
const ORDER: &[&str] = &[
    "clock", "budget", "thread", "account", "io", "value", "parquet", "aql", "topology", "client",
    "engine", "store", "embedded", "cql", "rocksdb", "cluster", "sharded", "document", "http",
    "profile", "report", "server", "load", "study", "pellucid", "tidy",
];

/// Crates that must not depend on certain earlier crates.
const APART: &[(&str, &[&str])] = &[
    ("http", &["store", "engine", "document", "cluster", "topology"]),
    ("store", &["engine"]),
    ("cluster", &["engine", "embedded"]),
    ("sharded", &["engine", "embedded", "cql"]),
    ("load", &["server", "engine", "store"]),
    ("report", &["load", "server"]),
];

const FAMILY: &str = "pellucid-";
const ARCHITECTURE: &str = "see the order in docs/architecture.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let manifest_of = |file: &File| {
        let (name, rest) = file.in_package()?;
        (rest == "Cargo.toml").then(|| name.to_owned())
    };
    let manifests = tree.files.iter().filter_map(|file| Some((file, manifest_of(file)?)));
    manifests.flat_map(|(file, name)| findings_in(file, &name)).collect()
}

fn findings_in(file: &File, name: &str) -> Vec<Finding> {
    let Some(place) = ORDER.iter().position(|other| *other == name) else {
        let what = format!("the crate `{name}` has no place in the order");
        let cure = "give it one in crates/tidy/src/checks/layers.rs and docs/architecture.md";
        return vec![Finding::new(&file.path, 1, what, cure)];
    };
    let apart = APART.iter().find(|(other, _)| *other == name).map_or(&[][..], |(_, list)| *list);
    let mut findings = Vec::new();
    for (line, other) in dependencies(file) {
        let before = ORDER[..place].contains(&other);
        if !before || apart.contains(&other) {
            let what = format!("`{name}` must not depend on `{other}`");
            let cure = format!("move what both need further down; {ARCHITECTURE}");
            findings.push(Finding::new(&file.path, line, what, cure));
        }
    }
    findings
}

/// Our crates among the normal dependencies in a manifest, with their lines.
fn dependencies(file: &File) -> Vec<(usize, &str)> {
    let mut within = false;
    let mut found = Vec::new();
    for (number, line) in file.lines() {
        let line = line.trim();
        if line.starts_with('[') {
            within = line == "[dependencies]" || line.ends_with(".dependencies]");
        } else if within && let Some(rest) = line.strip_prefix(FAMILY) {
            let end = rest.find(['.', ' ', '=']).unwrap_or(rest.len());
            found.push((number, &rest[..end]));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree_of;

    fn findings(name: &str, dependencies: &str) -> usize {
        let path = format!("crates/{name}/Cargo.toml");
        check(&tree_of(&[(&path, dependencies)])).len()
    }

    #[test]
    fn a_crate_may_use_only_earlier_crates() {
        let clock = "[dependencies]\npellucid-clock = { workspace = true }\n";
        let server = "[dependencies]\npellucid-server.workspace = true\n";
        assert_eq!((findings("http", clock), findings("http", server)), (0, 1));
        assert_eq!((findings("pellucid", server), findings("load", server)), (0, 1));
        assert_eq!((findings("clock", clock), findings("unheard-of", clock)), (1, 1));
    }

    #[test]
    fn dev_dependencies_are_free_and_platform_dependencies_are_not() {
        let dev = "[dev-dependencies]\npellucid-server = { workspace = true }\n";
        let linux = "[target.'cfg(unix)'.dependencies]\npellucid-server = { workspace = true }\n";
        assert_eq!((findings("http", dev), findings("http", linux)), (0, 1));
    }

    #[test]
    fn the_lists_name_crates_of_the_order() {
        for (name, others) in APART {
            assert!(ORDER.contains(name) && others.iter().all(|other| ORDER.contains(other)));
        }
    }
}

//! Checks the external packages: each is used, and has its reason in docs/dependencies.md.

use toml::{Table, Value};

use crate::finding::Finding;
use crate::tree::{File, Tree};

const MANIFEST: &str = "Cargo.toml";
const REASONS: &str = "docs/dependencies.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(root) = tree.file(MANIFEST) else {
        return vec![Finding::new(MANIFEST, 1, "it is missing", "run this in the repository")];
    };
    let members = tree.files.iter().filter(|file| file.in_package().is_some());
    let mut findings = Vec::new();
    let mut used = Vec::new();
    for file in members.filter(|file| file.name() == MANIFEST) {
        match manifest(file) {
            Ok(table) => used_in(&table, &mut used),
            Err(finding) => findings.push(finding),
        }
    }
    let shared = match manifest(root) {
        Ok(table) => shared_in(&table),
        Err(finding) => return vec![finding],
    };
    let reasons = tree.file(REASONS).and_then(File::text).unwrap_or("");
    for (name, is_ours) in shared {
        let line = root.lines().find(|(_, line)| line.starts_with(&format!("{name} ")));
        let line = line.map_or(1, |(number, _)| number);
        if !is_ours && !reasons.contains(&format!("`{name}`")) {
            let what = format!("`{name}` has no reason in {REASONS}");
            let cure = format!("write there, with `{name}` in backquotes, what it is for");
            findings.push(Finding::new(MANIFEST, line, what, cure));
        }
        if !used.contains(&name) {
            let what = format!("no crate uses `{name}`");
            findings.push(Finding::new(MANIFEST, line, what, "delete the line"));
        }
    }
    findings
}

fn manifest(file: &File) -> Result<Table, Finding> {
    file.text().unwrap_or("").parse().map_err(|error: toml::de::Error| {
        Finding::new(&file.path, 1, error.message(), "mend its syntax")
    })
}

/// The names in `[workspace.dependencies]`, each with true if the package is ours.
fn shared_in(root: &Table) -> Vec<(String, bool)> {
    let shared = root.get("workspace").and_then(|table| table.get("dependencies"));
    let shared = shared.and_then(Value::as_table).into_iter().flatten();
    shared.map(|(name, value)| (name.clone(), value.get("path").is_some())).collect()
}

/// Adds the names of all dependencies in a manifest, of every kind and for every platform.
fn used_in(table: &Table, used: &mut Vec<String>) {
    for (name, value) in table {
        let Some(inner) = value.as_table() else { continue };
        if name.ends_with("dependencies") {
            used.extend(inner.keys().cloned());
        } else {
            used_in(inner, used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree_of;

    const ROOT: &str = "[workspace.dependencies]\none = \"1\"\ntwo = \"2\"\n\
        ours = { path = \"crates/ours\" }\nnew = \"3\"\n";

    #[test]
    fn packages_without_reason_or_use_are_found() {
        let tree = tree_of(&[
            (MANIFEST, ROOT),
            (REASONS, "- `one`: for this\n- `two`: for that\n"),
            ("crates/a/Cargo.toml", "[dependencies]\none = { workspace = true }\n"),
            (
                "crates/b/Cargo.toml",
                "[target.'cfg(unix)'.dev-dependencies]\nnew = \"3\"\nours = \"1\"",
            ),
        ]);
        let findings: Vec<_> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].starts_with("Cargo.toml:5: `new` has no reason"), "{}", findings[0]);
        assert!(findings[1].starts_with("Cargo.toml:3: no crate uses `two`"), "{}", findings[1]);
    }

    #[test]
    fn an_invalid_manifest_is_found() {
        let tree = tree_of(&[(MANIFEST, ROOT), ("crates/a/Cargo.toml", "[dependencies")]);
        assert!(check(&tree).iter().any(|found| found.path == "crates/a/Cargo.toml"));
    }
}

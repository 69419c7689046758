//! Checks that the top-level documents contain the parts that a newcomer looks for.

use crate::finding::Finding;
use crate::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let text_of = |path| tree.file(path).and_then(|file| file.text()).unwrap_or("");
    let heads = |line: &str| line.starts_with("## ") && line.contains("Unreleased");
    if !text_of("CHANGELOG.md").lines().any(heads) {
        let cure = "add `## Unreleased` to it, and what changes for its users below";
        findings.push(Finding::new("CHANGELOG.md", 1, "no section `Unreleased`", cure));
    }
    for command in ["make demo", "make test"] {
        if !text_of("README.md").contains(command) {
            let what = format!("`{command}` is not named");
            findings.push(Finding::new(
                "README.md",
                1,
                what,
                "say what it does and how long it takes",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree_of;

    #[test]
    fn missing_parts_are_named() {
        assert_eq!(check(&tree_of(&[])).len(), 3);
        let whole = tree_of(&[
            ("CHANGELOG.md", "# Changes\n\n## [Unreleased]\n"),
            ("README.md", "Run `make demo`, then `make test`."),
        ]);
        assert_eq!(check(&whole), []);
        let bad =
            tree_of(&[("CHANGELOG.md", "Unreleased things\n"), ("README.md", "Run `make demo`.")]);
        assert_eq!(check(&bad).len(), 2);
    }
}

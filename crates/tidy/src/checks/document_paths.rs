//! Checks that the files and make targets in the code of documents exist.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::markdown::code;
use crate::tree::Tree;

const MAKEFILE: &str = "Makefile";
/// The top-level folders: a path that begins with one of them belongs to this repository.
const FOLDERS: &[&str] =
    &["backends/", "crates/", "docs/", "fuzz/", "lab/", "packaging/", "scripts/", "studies/"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let makefile = tree.file(MAKEFILE).and_then(|file| file.text()).unwrap_or("");
    let targets: BTreeSet<_> =
        makefile.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect();
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.extension() == "md") {
        for (line, piece) in code(file) {
            if let Some(target) = target_of_make(piece).filter(|target| !targets.contains(target)) {
                let what = format!("`make {target}` is not in the {MAKEFILE}");
                let cure = "name a target that is there: `make help` lists them";
                findings.push(Finding::new(&file.path, line, what, cure));
            }
            if let Some(path) = path_of(piece).filter(|path| !is_there(tree, path)) {
                let what = format!("there is no `{path}`");
                findings.push(Finding::new(&file.path, line, what, "name it as it is called now"));
            }
        }
    }
    findings
}

/// The target in a make command, which may begin with assignments of variables.
fn target_of_make(piece: &str) -> Option<&str> {
    let mut words = piece.split_whitespace().skip_while(|word| word.contains('='));
    let is_make = words.next() == Some("make");
    let is_name = |word: &str| {
        !word.starts_with('-')
            && word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')
    };
    words.next().filter(|word| is_make && is_name(word))
}

/// The path in this repository that the code begins with, unless it is a pattern.
fn path_of(piece: &str) -> Option<&str> {
    let path = piece.split_whitespace().next()?.trim_end_matches(['/', ',', ':']);
    let is_ours = FOLDERS.iter().any(|folder| path.starts_with(folder));
    (is_ours && !path.contains(['*', '…', '<', '{'])).then_some(path)
}

fn is_there(tree: &Tree, path: &str) -> bool {
    let is_within = |file: &str| {
        file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    tree.files.iter().any(|file| is_within(&file.path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree_of;

    #[test]
    fn names_of_missing_files_and_targets_are_found() {
        let text = "Say `make test`, `RUNS=3 make benches`, and make haste.\n\
                    `scripts/run` or `scripts/walk`, `crates/a/`, `crates/b/*.rs`\n\
                    ```\nmake test\nmake it\nlab/gone --now\nmake -j\n```\n";
        let tree = tree_of(&[
            (MAKEFILE, ".PHONY: it\ntest: ## Run\n\tscripts/run\n"),
            ("docs/a.md", text),
            ("scripts/run", "true\n"),
            ("crates/a/c.rs", "//! C.\n"),
        ]);
        let findings = check(&tree);
        let found: Vec<_> = findings.iter().map(|found| (found.line, &found.what[..])).collect();
        let expected = [
            (1, "`make benches` is not in the Makefile"),
            (2, "there is no `scripts/walk`"),
            (5, "`make it` is not in the Makefile"),
            (6, "there is no `lab/gone`"),
        ];
        assert_eq!(found, expected);
    }
}

//! Checks that every file begins with module documentation.

use crate::finding::Finding;
use crate::tree::{File, Tree};

/// The fewest sentences in the documentation of a crate's root.
const CRATE_SENTENCES_MIN: usize = 2;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().filter(|file| is_module(file)).filter_map(finding_in).collect()
}

fn is_module(file: &File) -> bool {
    file.source_of().is_some() || file.path.starts_with("fuzz/")
}

fn finding_in(file: &File) -> Option<Finding> {
    let doc: Vec<_> =
        file.lines().map_while(|(_, line)| line.strip_prefix("//!")).map(str::trim).collect();
    let is_crate = file.source_of().is_some() && ["lib.rs", "main.rs"].contains(&file.name());
    if doc.is_empty() {
        let cure = "begin it with `//!` and why it exists";
        return Some(Finding::new(&file.path, 1, "the file does not say what it is for", cure));
    }
    if is_crate && sentences(&doc.join(" ")) < CRATE_SENTENCES_MIN {
        let cure = "say in its module doc what it is, and why it is a crate of its own";
        return Some(Finding::new(&file.path, 1, "the crate does not introduce itself", cure));
    }
    None
}

fn sentences(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.ends_with(['.', ':', '!', '?'])).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree_of;

    #[test]
    fn modules_without_documentation_are_found() {
        let tree = tree_of(&[
            ("crates/a/src/lib.rs", "//! One thing.\n//! And why.\n\nmod b;"),
            ("crates/a/src/b.rs", "//! B.\nfn b() {}"),
            ("crates/a/tests/whole.rs", "fn c() {}"),
            ("crates/bad/src/lib.rs", "//! Only this.\n\nmod c;"),
            ("crates/bad/src/c.rs", "fn c() {}\n//! Too late."),
        ]);
        let findings = check(&tree);
        let paths: Vec<_> = findings.iter().map(|found| &found.path[..]).collect();
        assert_eq!(paths, ["crates/bad/src/lib.rs", "crates/bad/src/c.rs"]);
    }
}

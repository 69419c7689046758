//! Checks the width of lines in Rust files. rustfmt does not break strings or the contents of
//! macros.

use crate::finding::Finding;
use crate::tree::Tree;

const WIDTH_MAX: usize = 100;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        for (number, line) in file.lines() {
            let width = line.chars().count();
            if width > WIDTH_MAX {
                let what = format!("the line has {width} characters, more than {WIDTH_MAX}");
                findings.push(Finding::new(&file.path, number, what, "break it by hand"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree_of;

    #[test]
    fn lines_that_fit_pass_and_one_more_character_does_not() {
        // Characters count, not bytes.
        let (slim, wide) = ("é".repeat(WIDTH_MAX), "é".repeat(WIDTH_MAX + 1));
        let findings = check(&tree_of(&[("c.rs", &slim), ("d.rs", &wide), ("e.md", &wide)]));
        let places: Vec<_> = findings.iter().map(|found| (&found.path[..], found.line)).collect();
        assert_eq!(places, [("d.rs", 1)]);
    }
}

//! Checks size, encoding and white space of files, so that diffs stay clear and clones fast.

use crate::finding::Finding;
use crate::tree::{File, Tree};

const SIZE_MAX_BYTES: usize = 1 << 20;
/// Extensions of files that must be UTF-8 text.
const TEXTS: &[&str] = &["css", "html", "js", "json", "lua", "md", "rs", "sh", "toml", "ts"];
/// Extensions of files whose white space is checked.
const CLEAN: &[&str] = &["md", "rs", "sh", "toml"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.written().flat_map(findings_in).collect()
}

fn findings_in(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |line, what: &str, cure: &str| {
        findings.push(Finding::new(&file.path, line, what, cure));
    };
    if file.bytes.len() > SIZE_MAX_BYTES {
        find(1, "the file is larger than 1 MiB", "make it when it is needed, or make it smaller");
    }
    if TEXTS.contains(&file.extension()) && file.text().is_none() {
        find(1, "the file is no UTF-8 text", "save it as UTF-8");
    }
    if CLEAN.contains(&file.extension()) {
        for (number, line) in file.lines() {
            if line.contains('\t') {
                find(number, "there is a tab", "indent with spaces");
            }
            if line.ends_with([' ', '\t', '\r']) {
                find(number, "there is white space at the end of the line", "cut it off");
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
    fn tabs_and_trailing_space_are_found() {
        let findings = check(&tree_of(&[("a.md", "a\nb \n\tc\n"), ("b.txt", "a \n")]));
        let lines: Vec<_> = findings.iter().map(|found| found.line).collect();
        assert_eq!(lines, [2, 3]);
    }

    #[test]
    fn large_and_binary_files_are_found() {
        let mut tree = tree_of(&[("a.png", &"x".repeat(SIZE_MAX_BYTES)), ("b.rs", "x")]);
        assert_eq!(check(&tree), []);
        tree.files[0].bytes.push(b'x');
        tree.files[1].bytes = vec![0xff];
        assert_eq!(check(&tree).len(), 2);
    }
}

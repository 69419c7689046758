//! Length and width of Rust files. rustfmt breaks lines, but neither strings nor what stands within
//! a macro.

use crate::finding::Finding;
use crate::tree::Tree;

const LINES_MAX: usize = 600;
const WIDTH_MAX: usize = 100;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let lines = file.lines().count();
        if lines > LINES_MAX {
            let what = format!("the file has {lines} lines, more than {LINES_MAX}");
            findings.push(Finding::new(
                &file.path,
                LINES_MAX + 1,
                what,
                "split it: one concept a file",
            ));
        }
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
    fn what_fits_passes_and_one_more_does_not() {
        let (fits, long) = ("x\n".repeat(LINES_MAX), "x\n".repeat(LINES_MAX + 1));
        // Characters count, not bytes.
        let (slim, wide) = ("é".repeat(WIDTH_MAX), "é".repeat(WIDTH_MAX + 1));
        let tree = tree_of(&[
            ("a.rs", &fits),
            ("b.rs", &long),
            ("c.rs", &slim),
            ("d.rs", &wide),
            ("e.md", &wide),
        ]);
        let findings = check(&tree);
        let places: Vec<_> = findings.iter().map(|found| (&found.path[..], found.line)).collect();
        assert_eq!(places, [("b.rs", 601), ("d.rs", 1)]);
    }
}

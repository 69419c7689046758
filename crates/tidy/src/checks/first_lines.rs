//! Checks the first lines of the documentation of files and items: they should name the thing, and
//! not begin with a clause.

use crate::finding::Finding;
use crate::tree::{File, Tree};

/// Words that begin a clause in place of a noun.
const CLAUSES: &[&str] = &[
    "What", "Where", "How", "Whether", "Who", "Whoever", "When", "Which", "That which",
    "Since when", "Until when", "As what",
];

/// The highest percentage of clauses among all first lines: sometimes a clause is the shortest way.
const PERCENT_MAX: usize = 3;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = tree.rust().filter(|file| file.source_of().is_some() && file.tests_from() > 0);
    let (mut findings, mut first_lines) = (Vec::new(), 0);
    for file in sources {
        let (clauses, all) = clauses_in(file);
        findings.extend(clauses);
        first_lines += all;
    }
    if findings.len() * 100 <= first_lines * PERCENT_MAX { Vec::new() } else { findings }
}

/// The clauses among the first lines of a file, and the number of its first lines.
fn clauses_in(file: &File) -> (Vec<Finding>, usize) {
    let (mut findings, mut first_lines) = (Vec::new(), 0);
    let mut before = "";
    for (number, line) in file.lines().take_while(|(number, _)| *number < file.tests_from()) {
        let line = line.trim_start();
        let header = line.strip_prefix("//! ").filter(|_| number == 1);
        let item = line.strip_prefix("/// ").filter(|_| !before.starts_with("///"));
        let first_line = header.or(item);
        first_lines += usize::from(first_line.is_some());
        if first_line.is_some_and(opens_with_clause) {
            let what = "the first line describes the thing by a clause";
            let cure = "name it with a noun, or begin with a verb";
            findings.push(Finding::new(&file.path, number, what, cure));
        }
        before = line;
    }
    (findings, first_lines)
}

fn opens_with_clause(text: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|letter: char| letter.is_alphanumeric());
    CLAUSES.iter().any(|clause| text.strip_prefix(clause).is_some_and(ends))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree_of;

    #[test]
    fn clauses_are_found_at_the_beginning_only() {
        let text = "//! What a file is.\n//! Why it is.\n/// Where it lies.\n/// When it went.\n\
                    fn a() {}\n/// Whole files.\nfn b() {}\n#[cfg(test)]\n/// How tests are.\n";
        let tree = tree_of(&[("crates/a/src/b.rs", text), ("crates/a/tests/c.rs", text)]);
        let lines: Vec<_> = check(&tree).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 3]);
        let many = format!("{text}{}", "/// A thing.\nfn c() {}\n".repeat(100));
        let many = many.replacen("#[cfg(test)]\n", "", 1).replace("/// How", "/// Kinds of");
        assert_eq!(check(&tree_of(&[("crates/a/src/b.rs", &many)])), [], "two of a hundred");
    }
}

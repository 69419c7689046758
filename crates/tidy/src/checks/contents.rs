//! Checks the table of contents: every page is listed once, and the front page links to tasks.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::markdown::{links, resolved};
use crate::tree::Tree;

/// The table of contents, from which mdBook makes the site.
const CONTENTS: &str = "docs/SUMMARY.md";
const FRONT: &str = "docs/index.md";
/// The fewest tasks that the front page has to link to.
const TASKS_MIN: usize = 12;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut listed = BTreeSet::new();
    for link in tree.file(CONTENTS).map(links).into_iter().flatten() {
        let path = link.within().and_then(|(path, _)| resolved(CONTENTS, path));
        if path.is_some_and(|path| !listed.insert(path)) {
            let what = format!("`{}` stands here twice", link.target);
            findings.push(Finding::new(CONTENTS, link.line, what, "give it one place"));
        }
    }
    let is_page = |path: &str| path.starts_with("docs/") && path != CONTENTS;
    for page in tree.files.iter().filter(|file| file.extension() == "md" && is_page(&file.path)) {
        if !listed.contains(&page.path) {
            let cure = "add it to the part that its readers look into";
            findings.push(Finding::new(&page.path, 1, format!("it is not in {CONTENTS}"), cure));
        }
    }
    findings.extend(few_tasks(tree));
    findings
}

/// Returns a finding if the table of the front page links to too few tasks.
fn few_tasks(tree: &Tree) -> Option<Finding> {
    let front = tree.file(FRONT);
    let is_row = |line: usize| {
        let mut lines = front.into_iter().flat_map(|front| front.lines());
        lines.any(|(number, text)| number == line && text.starts_with("| "))
    };
    let rows: BTreeSet<_> = front.map(links).into_iter().flatten().map(|link| link.line).collect();
    let tasks = rows.into_iter().filter(|line| is_row(*line)).count();
    (tasks < TASKS_MIN).then(|| {
        let what = format!("its table leads to {tasks} tasks, and not to {TASKS_MIN} or more");
        Finding::new(FRONT, 1, what, "say in a row what a reader wants to do, and where it is")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree_of;

    #[test]
    fn pages_without_a_place_or_with_two_are_found() {
        let tasks = "| do | [it](a.md) |\n".repeat(TASKS_MIN);
        let tree = tree_of(&[
            (CONTENTS, "- [A](a.md)\n- [Front](index.md)\n- [B](../B.md)\n- [A](./a.md#b)\n"),
            (FRONT, &tasks),
            ("docs/a.md", "# A\n"),
            ("docs/lab/c.md", "# C\n"),
            ("B.md", "# B\n"),
            ("D.md", "# D\n"),
        ]);
        let findings = check(&tree);
        let found: Vec<_> =
            findings.iter().map(|found| (&found.path[..], found.line, &found.what[..])).collect();
        let expected = [
            (CONTENTS, 4, "`./a.md#b` stands here twice"),
            ("docs/lab/c.md", 1, "it is not in docs/SUMMARY.md"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_front_page_with_few_tasks_is_found() {
        let rows = "| do | [it](#a), [too](#b) |\n".repeat(TASKS_MIN - 1);
        let front = format!("# A\n[prose](#a)\n{rows}");
        let findings = check(&tree_of(&[(CONTENTS, "[A](index.md)\n"), (FRONT, &front)]));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].what.contains("leads to 11 tasks"), "{}", findings[0]);
        assert_eq!(check(&tree_of(&[])).len(), 1, "no front page is one without tasks");
    }
}

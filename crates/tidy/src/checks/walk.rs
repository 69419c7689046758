//! Checks the walk of a request in docs/architecture.md: every function is in the file named beside
//! it, and is called from that file or an earlier file of the walk. The numbers of functions and
//! files that the text gives are those of its table.

use std::collections::BTreeSet;

use super::words::has_word;
use crate::finding::Finding;
use crate::tree::Tree;

const DOCUMENT: &str = "docs/architecture.md";
const SECTION: &str = "## The walk of a request";

/// A function of the walk: its line in the document, its name, and its file.
struct Step {
    line: usize,
    name: String,
    /// The type that the function belongs to, if the document names one.
    owner: Option<String>,
    path: String,
    /// True if another walk passes it: the second one of a row.
    is_alternative: bool,
}

/// A table of the section.
#[derive(Default)]
struct Walk {
    steps: Vec<Step>,
    /// The numbers of functions and files that the text above the table gives, with their line.
    stated: Option<(usize, [usize; 2])>,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let walks = walks(tree);
    if walks.is_empty() {
        let what = format!("the tables of `{SECTION}` are missing");
        return vec![Finding::new(DOCUMENT, 1, what, "write down the walk of a GET and a PUT")];
    }
    walks.iter().flat_map(|walk| findings_in(tree, walk)).collect()
}

/// The tables of the section, each with its steps in their order.
fn walks(tree: &Tree) -> Vec<Walk> {
    let (mut walks, mut folder, mut is_within, mut is_table) =
        (Vec::<Walk>::new(), String::new(), false, false);
    let mut stated = None;
    for (line, text) in tree.file(DOCUMENT).into_iter().flat_map(|file| file.lines()) {
        if text.starts_with("## ") {
            is_within = text == SECTION;
        }
        if !is_within {
            continue;
        }
        let is_folder = |word: &&str| {
            (word.starts_with("crates/") || word.starts_with("backends/")) && word.contains("/src")
        };
        let sources = quoted(text).find(is_folder);
        if let Some(sources) = sources {
            folder = sources.trim_end_matches('/').to_owned();
        }
        stated = stated_numbers(text).map(|numbers| (line, numbers)).or(stated);
        let mut cells = text.strip_prefix("| ").into_iter().flat_map(|row| row.split(" | "));
        let (Some(names), Some(file)) = (cells.next(), cells.next()) else {
            is_table = false;
            continue;
        };
        let Some(file) = quoted(file).find(|word| word.ends_with(".rs")) else { continue };
        if !is_table {
            walks.push(Walk { steps: Vec::new(), stated: stated.take() });
            is_table = true;
        }
        let alternatives =
            names.split_once(", of a PUT ").map_or(0, |(_, rest)| quoted(rest).count());
        let names: Vec<_> = quoted(names).collect();
        let step = |(at, path_name): (usize, &&str)| {
            let (owner, name) = match path_name.rsplit_once("::") {
                Some((owner, name)) => (Some(owner.to_owned()), name),
                None => (None, *path_name),
            };
            Step {
                line,
                name: name.to_owned(),
                owner,
                path: format!("{folder}/{file}"),
                is_alternative: at + alternatives >= names.len(),
            }
        };
        if let Some(walk) = walks.last_mut() {
            walk.steps.extend(names.iter().enumerate().map(step));
        }
    }
    walks
}

/// The words of a text in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The numbers in a text like `18 functions in 7 files`.
fn stated_numbers(text: &str) -> Option<[usize; 2]> {
    let (before, after) = text.split_once(" functions in ")?;
    let functions = before.rsplit(' ').next()?.parse().ok()?;
    Some([functions, after.split(' ').next()?.parse().ok()?])
}

fn findings_in(tree: &Tree, walk: &Walk) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Walk { steps: walk, stated } = walk;
    if let Some((line, stated)) = *stated {
        let passed = walk.iter().filter(|step| !step.is_alternative);
        let files: BTreeSet<_> = passed.clone().map(|step| &step.path).collect();
        let numbers = [passed.count(), files.len()];
        if numbers != stated {
            let what = format!("the table has {} functions in {} files", numbers[0], numbers[1]);
            findings.push(Finding::new(DOCUMENT, line, what, "write down the walk as it is"));
        }
    }
    for (at, Step { line, name, owner, path, .. }) in walk.iter().enumerate() {
        let text = |path: &str| tree.file(path).and_then(|file| file.text()).unwrap_or("");
        let defined = [format!("fn {name}("), format!("fn {name}<")];
        let is_owned = owner.as_ref().is_none_or(|owner| has_word(text(path), owner));
        if !is_owned || !defined.iter().any(|mark| text(path).contains(mark)) {
            let name = owner.as_ref().map_or(name.clone(), |owner| format!("{owner}::{name}"));
            let what = format!("`{name}` is not in {path}");
            let cure = "write down the walk as it is";
            findings.push(Finding::new(DOCUMENT, *line, what, cure));
            continue;
        }
        let calls = |path: &str| {
            let is_call =
                |line: &str| has_word(line, name) && !line.contains(&format!("fn {name}"));
            text(path).lines().any(|line| !line.trim_start().starts_with("//") && is_call(line))
        };
        if at > 0 && !walk[..=at].iter().any(|step| calls(&step.path)) {
            let what = format!("nothing before it on the walk calls `{name}`");
            let cure = "write down the functions between, or the walk as it is";
            findings.push(Finding::new(DOCUMENT, *line, what, cure));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree_of;

    #[test]
    fn functions_are_where_the_walk_says_and_call_each_other() {
        let walk = "# A\n## The walk of a request\nIn `crates/a/src`: 3 functions in 2 files.\n\n\
                    | function | file |\n|---|---|\n| `A::first`, of a PUT `put` | `b.rs` |\n\
                    | `second`, `B::third` | `c.rs` |\n| `A::gone` | `b.rs` |\n\n## More\n\
                    | `other` | `b.rs` |\n";
        let tree = tree_of(&[
            (DOCUMENT, walk),
            ("crates/a/src/b.rs", "impl A {\nfn first() {\n second();\n put();\n}\nfn put() {}\n}"),
            (
                "crates/a/src/c.rs",
                "impl B {\n// third is not called\nfn second() {}\nfn third() {}\n}",
            ),
        ]);
        let findings = check(&tree);
        let whats: Vec<_> = findings.iter().map(|found| (found.line, &found.what[..])).collect();
        let third = "nothing before it on the walk calls `third`";
        let count = "the table has 4 functions in 2 files";
        let gone = "`A::gone` is not in crates/a/src/b.rs";
        assert_eq!(whats, [(3, count), (8, third), (9, gone)]);
        assert_eq!(check(&tree_of(&[(DOCUMENT, "# A\n")])).len(), 1, "a walk that is missing");
    }
}

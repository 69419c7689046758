//! Checks the walk of a request in docs/architecture.md: every function is in the file named beside
//! it, and is called from that file or an earlier file of the walk. The numbers of functions and
//! files that the text gives are those of its table, or of all tables of a GET or a PUT.

use std::collections::BTreeSet;

use super::words::has_word;
use crate::finding::Finding;
use crate::tree::Tree;

const DOCUMENT: &str = "docs/architecture.md";
const SECTION: &str = "## The walk of a request";

/// The requests that pass a function or a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Get,
    Put,
    Both,
}

impl Method {
    /// The methods that a text names; both if it names none.
    fn of(text: &str) -> Method {
        match (text.contains("GET"), text.contains("PUT")) {
            (true, false) => Method::Get,
            (false, true) => Method::Put,
            _ => Method::Both,
        }
    }

    fn includes(self, other: Method) -> bool {
        self == Method::Both || self == other
    }
}

/// A function of the walk: its line in the document, its name, and its file.
struct Step {
    line: usize,
    name: String,
    /// The type that the function belongs to, if the document names one.
    owner: Option<String>,
    path: String,
    method: Method,
}

/// A table of the section.
struct Walk {
    method: Method,
    steps: Vec<Step>,
    stated: Option<Stated>,
}

/// The numbers of functions and files that a line of the document gives.
#[derive(Clone, Copy)]
struct Stated {
    line: usize,
    numbers: [usize; 2],
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (walks, totals) = walks(tree);
    if walks.is_empty() {
        let what = format!("the tables of `{SECTION}` are missing");
        return vec![Finding::new(DOCUMENT, 1, what, "write down the walk of a GET and a PUT")];
    }
    let of_totals = totals.iter().filter_map(|(method, stated)| {
        let of_method = walks.iter().filter(|walk| walk.method.includes(*method));
        miscounted("the tables have", *stated, numbers(of_method, *method))
    });
    let of_tables = walks.iter().flat_map(|walk| findings_in(tree, walk));
    of_totals.chain(of_tables).collect()
}

/// The tables of the section, each with its steps in their order, and the numbers of all tables
/// that the text gives for a method.
fn walks(tree: &Tree) -> (Vec<Walk>, Vec<(Method, Stated)>) {
    let (mut walks, mut totals) = (Vec::<Walk>::new(), Vec::new());
    let (mut folder, mut is_within, mut is_table) = (String::new(), false, false);
    let (mut stated, mut method) = (None, Method::Both);
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
        if let Some(sources) = quoted(text).find(is_folder) {
            folder = sources.trim_end_matches('/').to_owned();
        }
        if text.is_empty() || text.starts_with("### ") {
            is_table = false;
        }
        let Some(row) = text.strip_prefix("| ") else {
            let found = stated_numbers(text).map(|numbers| Stated { line, numbers });
            match found.filter(|_| text.starts_with("- ")) {
                Some(total) => totals.push((Method::of(text), total)),
                None => stated = found.or(stated),
            }
            if !text.is_empty() && !text.starts_with('|') {
                method = Method::of(text);
            }
            continue;
        };
        let mut cells = row.split(" | ");
        let (Some(names), Some(file)) = (cells.next(), cells.next()) else { continue };
        let Some(file) = quoted(file).find(|word| word.ends_with(".rs")) else { continue };
        if !is_table {
            walks.push(Walk { method, steps: Vec::new(), stated: stated.take() });
            is_table = true;
        }
        if let Some(walk) = walks.last_mut() {
            walk.steps.extend(steps_of(line, names, &format!("{folder}/{file}")));
        }
    }
    (walks, totals)
}

/// The functions in a cell of a table. Behind `of a PUT` stand those that a PUT passes instead.
fn steps_of(line: usize, names: &str, path: &str) -> Vec<Step> {
    let (before, behind) = names.split_once("of a PUT ").unwrap_or((names, ""));
    let method = if behind.is_empty() { Method::Both } else { Method::Get };
    let named = quoted(before).map(|name| (name, method));
    let named = named.chain(quoted(behind).map(|name| (name, Method::Put)));
    let step = |(whole, method): (&str, Method)| {
        let (owner, name) = match whole.rsplit_once("::") {
            Some((owner, name)) => (Some(owner.to_owned()), name),
            None => (None, whole),
        };
        Step { line, name: name.to_owned(), owner, path: path.to_owned(), method }
    };
    named.map(step).collect()
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

/// The numbers of functions and files that a request passes in these tables.
fn numbers<'a>(walks: impl Iterator<Item = &'a Walk>, method: Method) -> [usize; 2] {
    let steps: Vec<_> =
        walks.flat_map(|walk| &walk.steps).filter(|step| step.method.includes(method)).collect();
    let files: BTreeSet<_> = steps.iter().map(|step| &step.path).collect();
    [steps.len(), files.len()]
}

fn miscounted(whose: &str, stated: Stated, numbers: [usize; 2]) -> Option<Finding> {
    let [functions, files] = numbers;
    let what = format!("{whose} {functions} functions in {files} files");
    let finding = Finding::new(DOCUMENT, stated.line, what, "write down the walk as it is");
    (stated.numbers != numbers).then_some(finding)
}

fn findings_in(tree: &Tree, walk: &Walk) -> Vec<Finding> {
    let method = if walk.method == Method::Put { Method::Put } else { Method::Get };
    let counted = walk.stated.and_then(|stated| {
        miscounted("the table has", stated, numbers(std::iter::once(walk), method))
    });
    let mut findings: Vec<Finding> = counted.into_iter().collect();
    for (at, Step { line, name, owner, path, .. }) in walk.steps.iter().enumerate() {
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
        if at > 0 && !walk.steps[..=at].iter().any(|step| calls(&step.path)) {
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
        let walk = "# A\n## The walk of a request\n- a GET passes 4 functions in 2 files\n\
                    - a PUT passes 3 functions in 2 files\n\n\
                    In `crates/a/src`: 3 functions in 2 files.\n\n| function | file |\n|---|---|\n\
                    | `A::first`, of a PUT `put` | `b.rs` |\n| `second`, `B::third` | `c.rs` |\n\
                    | `A::gone` | `b.rs` |\n\nA PUT: 1 functions in 1 files.\n\n\
                    | function | file |\n|---|---|\n| `second` | `c.rs` |\n\n\
                    ## More\n| `other` | `b.rs` |\n";
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
        let total = "the tables have 5 functions in 2 files";
        assert_eq!(whats, [(4, total), (6, count), (11, third), (12, gone)]);
        assert_eq!(check(&tree_of(&[(DOCUMENT, "# A\n")])).len(), 1, "a walk that is missing");
    }
}

//! Checks the walk of a request in docs/architecture.md: every function is in the file named beside
//! it, and is called from that file or an earlier file of the walk.

use super::words::has_word;
use crate::finding::Finding;
use crate::tree::Tree;

const DOCUMENT: &str = "docs/architecture.md";
const SECTION: &str = "## The walk of a request";

/// A function of the walk: its line in the document, its name, and its file.
struct Step {
    line: usize,
    name: String,
    path: String,
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
fn walks(tree: &Tree) -> Vec<Vec<Step>> {
    let (mut walks, mut folder, mut is_within, mut is_table) =
        (Vec::<Vec<Step>>::new(), String::new(), false, false);
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
        let mut cells = text.strip_prefix("| ").into_iter().flat_map(|row| row.split(" | "));
        let (Some(names), Some(file)) = (cells.next(), cells.next()) else {
            is_table = false;
            continue;
        };
        let Some(file) = quoted(file).find(|word| word.ends_with(".rs")) else { continue };
        if !is_table {
            walks.push(Vec::new());
            is_table = true;
        }
        let step = |name: &str| {
            let name = name.rsplit("::").next().unwrap_or(name).to_owned();
            Step { line, name, path: format!("{folder}/{file}") }
        };
        if let Some(walk) = walks.last_mut() {
            walk.extend(quoted(names).map(step));
        }
    }
    walks
}

/// The words of a text in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn findings_in(tree: &Tree, walk: &[Step]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, Step { line, name, path }) in walk.iter().enumerate() {
        let text = |path: &str| tree.file(path).and_then(|file| file.text()).unwrap_or("");
        let defined = [format!("fn {name}("), format!("fn {name}<")];
        if !defined.iter().any(|mark| text(path).contains(mark)) {
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
        let walk = "# A\n## The walk of a request\nWithin `crates/a/src`:\n\n| function | file |\n\
                    |---|---|\n| `A::first` | `b.rs` |\n| `second`, `B::third` | `c.rs` |\n\
                    | `gone` | `b.rs` |\n\n## More\n| `other` | `b.rs` |\n";
        let tree = tree_of(&[
            (DOCUMENT, walk),
            ("crates/a/src/b.rs", "fn first() {\n second();\n}\n"),
            ("crates/a/src/c.rs", "// third is not called\nfn second() {}\nfn third() {}\n"),
        ]);
        let findings = check(&tree);
        let whats: Vec<_> = findings.iter().map(|found| (found.line, &found.what[..])).collect();
        let third = "nothing before it on the walk calls `third`";
        assert_eq!(whats, [(8, third), (9, "`gone` is not in crates/a/src/b.rs")]);
        assert_eq!(check(&tree_of(&[(DOCUMENT, "# A\n")])).len(), 1, "a walk that is missing");
    }
}

//! Checks that every row of a table in a document belongs to a table with a head. An empty line
//! ends a table, and the rows behind it are shown as text.

use crate::finding::Finding;
use crate::markdown::lines;
use crate::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().filter(|file| file.extension() == "md").flat_map(stray_rows).collect()
}

/// The first rows of tables without a separator behind them, which would make them heads.
fn stray_rows(file: &File) -> Vec<Finding> {
    let lines: Vec<_> = lines(file).collect();
    let begins = |at: usize, mark: &str| {
        lines.get(at).is_some_and(|(_, text, is_code)| !is_code && text.starts_with(mark))
    };
    let is_first = |at: &usize| begins(*at, "|") && (*at == 0 || !begins(*at - 1, "|"));
    let is_separator = |at: usize| {
        let of_separator = |byte: u8| b"|-: ".contains(&byte);
        begins(at, "|") && lines[at].1.bytes().all(of_separator)
    };
    let stray = (0..lines.len()).filter(is_first).filter(|at| !is_separator(at + 1));
    let what = "a row of a table without a head";
    let cure = "take away the empty line before it, or give it a head and `|---|`";
    stray.map(|at| Finding::new(&file.path, lines[at].0, what, cure)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree_of;

    #[test]
    fn rows_behind_an_empty_line_are_found() {
        let table = "| a | b |\n| --- |:--|\n| c | d |\n";
        let text = format!("{table}\n| e | f |\n| g | h |\n```\n| i |\n```\n{table}| j | k |");
        let findings = check(&tree_of(&[("a.md", &text)]));
        let rows: Vec<_> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(rows, [5]);
    }
}

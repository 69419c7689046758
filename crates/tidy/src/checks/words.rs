//! Finds words that are forbidden in code. They are concatenated from pieces, so that the check
//! does not find this file.

use crate::finding::Finding;
use crate::tree::{File, Tree};

/// The files in which a word is forbidden.
#[derive(Clone, Copy)]
enum WordScope {
    /// In code of any language.
    Code,
    /// In Rust.
    Rust,
    /// In the sources of these crates, except for tests.
    Sources(&'static [&'static str]),
}

/// A word, the files in which it is forbidden, and the cure.
type ForbiddenWord = (&'static str, WordScope, &'static str);

/// Crates on the path of a request, whose times go into the account.
const TIMED: &[&str] = &["account", "engine", "http", "server", "store"];

const LATER: &str = "write it, or leave it out and open an issue";
const WRONG: &str = "mend it now, or open an issue and say there what is wrong";
const TEST: &str = "mend the test or delete it: one that does not run proves nothing";
const TO_BYTES: &str = "use `to_le_bytes`: files mean the same on every machine";
const FROM_BYTES: &str = "use `from_le_bytes`: files mean the same on every machine";
const CLOCK: &str = "take the time from pellucid_clock, which a simulation can hold";
const FILES: &str = "go through pellucid_io, so that tests can make it fail";

const FORBIDDEN: &[ForbiddenWord] = &[
    (concat!("to", "do!("), WordScope::Rust, LATER),
    (concat!("unimple", "mented!("), WordScope::Rust, LATER),
    (concat!("#[ig", "nore"), WordScope::Rust, TEST),
    (concat!("FIX", "ME"), WordScope::Code, WRONG),
    (concat!("XX", "X"), WordScope::Code, WRONG),
    (concat!("to_n", "e_bytes"), WordScope::Rust, TO_BYTES),
    (concat!("from_n", "e_bytes"), WordScope::Rust, FROM_BYTES),
    (concat!("Instant", "::now"), WordScope::Sources(TIMED), CLOCK),
    (concat!("std", "::fs"), WordScope::Sources(&["engine"]), FILES),
];

const CODE: &[&str] = &["css", "js", "lua", "py", "rs", "sh", "toml", "ts"];

impl WordScope {
    fn holds(self, file: &File, line: usize) -> bool {
        match self {
            WordScope::Code => CODE.contains(&file.extension()),
            WordScope::Rust => file.extension() == "rs",
            WordScope::Sources(crates) => {
                file.extension() == "rs"
                    && file.source_of().is_some_and(|name| crates.contains(&name))
                    && line < file.tests_from()
            }
        }
    }
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.written() {
        for (number, line) in file.lines() {
            for (word, place, cure) in FORBIDDEN {
                if has_word(line, word) && place.holds(file, number) {
                    let what = format!("`{word}` stands there");
                    findings.push(Finding::new(&file.path, number, what, *cure));
                }
            }
        }
    }
    findings
}

/// Returns true if `word` occurs in `line`, and not only as a part of a longer word, such as the
/// run of capital letters in a pattern for `mktemp`.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(word).any(|(at, _)| {
        let begins = !line[..at].ends_with(part_of_word) || !word.starts_with(part_of_word);
        let ends =
            !line[at + word.len()..].starts_with(part_of_word) || !word.ends_with(part_of_word);
        begins && ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree_of;

    #[test]
    fn each_word_is_found_where_it_is_forbidden() {
        for (word, ..) in FORBIDDEN {
            let text = format!("//! A.\nlet a = {word};\n");
            let tree = tree_of(&[("crates/engine/src/a.rs", &text), ("docs/a.md", &text)]);
            let findings = check(&tree);
            assert_eq!(findings.len(), 1, "{word}: {findings:?}");
            assert_eq!((&findings[0].path[..], findings[0].line), ("crates/engine/src/a.rs", 2));
        }
    }

    #[test]
    fn tests_and_other_crates_may_read_files_and_clocks() {
        let text = format!("//! A.\n#[cfg(test)]\nuse {}::read;\n", FORBIDDEN[8].0);
        let elsewhere = format!("//! A.\nlet a = {}();\n", FORBIDDEN[7].0);
        let tree = tree_of(&[("crates/engine/src/a.rs", &text), ("lab/load/src/a.rs", &elsewhere)]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn a_part_of_a_longer_word_is_another_word() {
        let text = format!("mktemp -d a.{0}{0}\nB{1}\n", FORBIDDEN[4].0, FORBIDDEN[3].0);
        assert_eq!(check(&tree_of(&[("a.sh", &text)])), []);
    }
}

//! The list of all checks, each with the rule that it enforces.

mod contents;
mod document_paths;
mod documents;
mod first_lines;
mod hygiene;
mod import_cycles;
mod layers;
mod licences;
mod line_width;
mod links;
mod machine_paths;
mod modules;
mod packages;
mod tables;
mod types;
mod walk;
mod words;

use crate::finding::Finding;
use crate::tree::Tree;

/// A check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check {
    /// The rule, as a sentence without its full stop.
    pub(crate) rule: &'static str,
    /// Finds the places that break the rule.
    pub(crate) run: fn(&Tree) -> Vec<Finding>,
}

/// Every check, in the order in which they run.
pub(crate) const CHECKS: &[Check] = &[
    Check { rule: "lines of Rust have at most 100 characters", run: line_width::check },
    Check { rule: "every module says what it is for", run: modules::check },
    Check { rule: "at most 3 % of first lines are clauses", run: first_lines::check },
    Check { rule: "a type lives in one file, and is narrow", run: types::check },
    Check {
        rule: "files of a crate import each other in one direction",
        run: import_cycles::check,
    },
    Check { rule: "the walk of a request is as it is told", run: walk::check },
    Check { rule: "nothing stands there that is forbidden or unfinished", run: words::check },
    Check { rule: "no file names one machine or one registry", run: machine_paths::check },
    Check { rule: "crates depend on each other in one direction", run: layers::check },
    Check { rule: "every package from outside is used and has its reason", run: packages::check },
    Check { rule: "the documents say what a newcomer looks for", run: documents::check },
    Check { rule: "links of the documents lead somewhere", run: links::check },
    Check { rule: "rows of tables have a head", run: tables::check },
    Check { rule: "every page has its place, and the front page tasks", run: contents::check },
    Check { rule: "files and targets that documents name are there", run: document_paths::check },
    Check { rule: "files are small, clean text", run: hygiene::check },
    Check { rule: "every package has a licence that we accept", run: licences::check },
    Check { rule: "no locked package has a known weakness", run: crate::advisories::check },
];

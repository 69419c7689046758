//! Checks of the house rules of this repository, around the working directory.
//!
//! `pellucid-tidy` checks and ends with `N passed, N failed`; `pellucid-tidy advisories --database
//! DIR` rewrites `docs/advisories.toml` from a checkout of the RustSec database.
//!
//! The compiler and linters have their own checks; here are the other rules, such as the order of
//! crates, or words that are forbidden in a file. A [`finding::Finding`] names the place, the
//! defect and the cure, because its reader may never have heard of the rule.
//!
//! # Licences and advisories
//!
//! They are checked here and not by cargo-deny, which takes minutes to compile and reads the
//! advisories from a git repository, which a build may not reach. Licences come from
//! `cargo metadata`. Advisories come from `docs/advisories.toml`: [`refresh`] writes this file of
//! facts about the packages in our lock files from a checkout of the RustSec database. If a lock
//! file contains a package that the facts do not cover, the check fails, so the facts cannot fall
//! behind unnoticed; old facts give a note. Yanked versions are not checked, because only the index
//! of the registry lists them.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for developers, whose output is all that it is for"
)]

mod advisories;
mod checks;
mod finding;
mod markdown;
mod tree;

use std::io;
use std::path::Path;
use std::process::ExitCode;

use advisories::refresh;
use checks::CHECKS;
use finding::Severity;
use tree::Tree;

const USAGE: &str = "usage: pellucid-tidy [advisories --database DIR]";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let outcome = Tree::around(Path::new(".")).and_then(|tree| match arguments[..] {
        [] => Ok(check(&tree)),
        ["advisories", "--database", directory] => {
            println!("{}", refresh(&tree, Path::new(directory))?);
            Ok(true)
        }
        _ => Err(io::Error::other(USAGE)),
    });
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("pellucid-tidy: {error}");
            ExitCode::from(2)
        }
    }
}

fn check(tree: &Tree) -> bool {
    let (mut passed, mut failed) = (0, 0);
    for check in CHECKS {
        let findings = (check.run)(tree);
        findings.iter().for_each(|finding| println!("{finding}"));
        if findings.iter().any(|finding| finding.weight == Severity::Failure) {
            println!("failed: {}", check.rule);
            failed += 1;
        } else {
            passed += 1;
        }
    }
    println!("{passed} passed, {failed} failed");
    failed == 0
}

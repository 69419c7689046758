//! Runs the checks on the repository around the working directory, or refreshes the facts of
//! advisories. `pellucid-tidy` checks and ends with `N passed, N failed`; `pellucid-tidy advisories
//! --database DIR` rewrites `docs/advisories.toml` from a checkout of the RustSec database.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for developers, whose output is all that it is for"
)]

use std::io;
use std::path::Path;
use std::process::ExitCode;

use pellucid_tidy::{CHECKS, Severity, Tree, refresh};

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

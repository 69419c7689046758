//! Checks of the house rules of this repository.
//!
//! The compiler and linters have their own checks; here are the other rules, such as the order of
//! crates, or words that are forbidden in a file. A [`Finding`] names the place, the defect and the
//! cure, because its reader may never have heard of the rule.
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

mod advisories;
mod checks;
mod finding;
mod markdown;
mod tree;

pub use advisories::refresh;
pub use checks::{CHECKS, Check};
pub use finding::{Finding, Severity};
pub use tree::{File, Tree};

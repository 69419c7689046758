//! The house rules that a machine can see, as checks.
//!
//! What a compiler or a linter checks is theirs; here is the rest, such as which crate may depend
//! on which, or what must not stand in a file. A [`Finding`] says where, what is wrong, and the
//! cure, because whoever reads it may never have heard of the rule.
//!
//! # Licences and advisories
//!
//! They are checked here and not by cargo-deny, which takes minutes to compile and reads the
//! advisories from a repository that a build with nothing but the package registry cannot reach.
//! Licences come from `cargo metadata`. Advisories come from `docs/advisories.toml`: the facts of
//! what was published about the packages in our locks, taken by [`refresh`] from a checkout of the
//! RustSec database. A lock that names a package which the file does not cover fails, so the file
//! cannot fall behind the locks unseen; that it grows old shows as a note. Whether a locked version
//! was yanked is not checked: only the index of the registry knows.

mod advisories;
mod checks;
mod finding;
mod markdown;
mod tree;

pub use advisories::refresh;
pub use checks::{CHECKS, Check};
pub use finding::{Finding, Weight};
pub use tree::{File, Tree};

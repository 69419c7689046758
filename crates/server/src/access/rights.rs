//! Rights of accounts to tables, databases and collections, and to the server itself (`admin`).
//!
//! A grant has a pattern: `admin`, `table/NAME`, `database/NAME` or `database/NAME/COLLECTION`.
//! `*` stands for any name; `*` alone is everything except `admin`. The most precise grant that
//! matches decides, so that an account can have all tables except one.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The limit of grants of one account.
pub(crate) const GRANTS_MAX: usize = 1_000;
/// The longest pattern of a grant, in bytes.
const SCOPE_LENGTH_MAX: usize = 512;

/// A right to an object. Each includes the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// No right.
    #[default]
    None,
    /// The right to read.
    Read,
    /// The right to read and to write.
    Write,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Right::None => "none",
            Right::Read => "read",
            Right::Write => "write",
        })
    }
}

impl FromStr for Right {
    type Err = String;

    fn from_str(text: &str) -> Result<Right, String> {
        match text {
            "none" => Ok(Right::None),
            "read" | "ro" => Ok(Right::Read),
            "write" | "rw" => Ok(Right::Write),
            _ => Err(format!("`{text}` is no right: the rights are `none`, `read` and `write`")),
        }
    }
}

/// The object that a request needs a right to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope<'a> {
    /// The server itself: its pages, its metrics, its accounts.
    Admin,
    /// A table of the store.
    Table(&'a str),
    /// A database, as a whole.
    Database(&'a str),
    /// A collection of a database: database, collection.
    Collection(&'a str, &'a str),
}

impl Scope<'_> {
    /// The precision with which `pattern` matches; higher is more precise. `None` if it does not
    /// match.
    fn fits(self, pattern: &str) -> Option<u8> {
        let name_fits = |name: &str, pattern: &str, exact: u8| match pattern {
            _ if pattern == name => Some(exact),
            "*" => Some(exact - 1),
            _ => None,
        };
        if pattern == "*" {
            return (self != Scope::Admin).then_some(0);
        }
        match self {
            Scope::Admin => (pattern == "admin").then_some(1),
            Scope::Table(name) => name_fits(name, pattern.strip_prefix("table/")?, 2),
            Scope::Database(name) => name_fits(name, pattern.strip_prefix("database/")?, 2),
            Scope::Collection(database, collection) => {
                let path = pattern.strip_prefix("database/")?;
                match path.split_once('/') {
                    None => name_fits(database, path, 2),
                    Some((first, second)) => {
                        let outer = name_fits(database, first, 2)?;
                        let inner = name_fits(collection, second, 2)?;
                        // More precise than every grant for a database. An exact database counts
                        // more than an exact collection.
                        Some(outer * 2 + inner)
                    }
                }
            }
        }
    }
}

/// The grants of one account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Grants {
    rights: BTreeMap<String, Right>,
}

impl Grants {
    /// The right of the most precise grant that matches; [`Right::None`] if no grant matches.
    pub(crate) fn right(&self, scope: Scope<'_>) -> Right {
        let fitting = self.rights.iter().filter_map(|(pattern, right)| {
            scope.fits(pattern).map(|precision| (precision, *right))
        });
        fitting.max_by_key(|(precision, _)| *precision).map_or(Right::None, |(_, right)| right)
    }

    /// The grant for exactly this pattern.
    #[must_use]
    pub fn exact(&self, pattern: &str) -> Option<Right> {
        self.rights.get(pattern).copied()
    }

    /// All grants, as pairs of pattern and right.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Right)> {
        self.rights.iter().map(|(pattern, right)| (pattern.as_str(), *right))
    }

    /// Checks grants that were read from a file.
    ///
    /// # Errors
    /// If a pattern is invalid, or there are too many grants.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.rights.len() > GRANTS_MAX {
            return Err(format!("an account has {GRANTS_MAX} grants at most"));
        }
        self.rights.keys().try_for_each(|pattern| check_pattern(pattern))
    }

    /// Sets the right of a pattern.
    ///
    /// # Errors
    /// If the pattern is invalid, or there are too many grants.
    pub fn set(&mut self, pattern: &str, right: Right) -> Result<(), String> {
        check_pattern(pattern)?;
        if self.rights.len() >= GRANTS_MAX && !self.rights.contains_key(pattern) {
            return Err(format!("an account has {GRANTS_MAX} grants at most"));
        }
        self.rights.insert(pattern.to_owned(), right);
        Ok(())
    }

    /// True if there is a grant for this database or one of its collections.
    pub(crate) fn has_of_database(&self, name: &str) -> bool {
        self.rights.keys().any(|pattern| is_of_database(pattern, name))
    }

    /// Removes the grants for a database and for its collections.
    pub(crate) fn unset_database(&mut self, name: &str) {
        self.rights.retain(|pattern, _| !is_of_database(pattern, name));
    }

    /// Removes the grant of a pattern. Returns true if there was one.
    pub fn unset(&mut self, pattern: &str) -> bool {
        self.rights.remove(pattern).is_some()
    }
}

fn is_of_database(pattern: &str, name: &str) -> bool {
    let path = pattern.strip_prefix("database/");
    path.is_some_and(|path| path.split('/').next() == Some(name))
}

fn check_pattern(pattern: &str) -> Result<(), String> {
    // An asterisk stands for a whole name: as a part of a name it would match nothing.
    let is_name = |name: &str| name == "*" || !(name.is_empty() || name.contains(['*', '/']));
    let names_something = match pattern.split_once('/') {
        None => matches!(pattern, "admin" | "*"),
        Some(("table", name)) => is_name(name),
        Some(("database", path)) => match path.split_once('/') {
            None => is_name(path),
            Some((database, collection)) => is_name(database) && is_name(collection),
        },
        Some(_) => false,
    };
    if names_something && pattern.len() <= SCOPE_LENGTH_MAX {
        return Ok(());
    }
    Err(format!(
        "`{pattern}` names nothing to grant: write admin, table/NAME, database/NAME, \
         database/NAME/COLLECTION, or * for all but admin; a NAME may be * for every one"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(list: &[(&str, Right)]) -> Grants {
        let mut grants = Grants::default();
        list.iter().for_each(|(pattern, right)| grants.set(pattern, *right).unwrap());
        grants
    }

    #[test]
    fn the_most_precise_grant_decides() {
        let grants = grants(&[
            ("*", Right::Read),
            ("table/secrets", Right::None),
            ("database/shop", Right::Write),
            ("database/shop/prices", Right::Read),
            ("database/*/audit", Right::None),
        ]);
        assert_eq!(grants.right(Scope::Table("entities")), Right::Read);
        assert_eq!(grants.right(Scope::Table("secrets")), Right::None);
        assert_eq!(grants.right(Scope::Database("shop")), Right::Write);
        assert_eq!(grants.right(Scope::Database("other")), Right::Read);
        assert_eq!(grants.right(Scope::Collection("shop", "orders")), Right::Write);
        assert_eq!(grants.right(Scope::Collection("shop", "prices")), Right::Read);
        assert_eq!(grants.right(Scope::Collection("shop", "audit")), Right::None);
        assert_eq!(grants.right(Scope::Admin), Right::None, "everything is not the server itself");
    }

    #[test]
    fn without_a_grant_nothing_is_allowed() {
        let grants = grants(&[("table/a", Right::Write), ("admin", Right::Read)]);
        assert_eq!(grants.right(Scope::Table("b")), Right::None);
        assert_eq!(grants.right(Scope::Database("a")), Right::None);
        assert_eq!(grants.right(Scope::Admin), Right::Read);
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for pattern in [
            "", "all", "table/", "table", "database//x", "database/x/", "/", "admin/x",
            // Regression: these were accepted but matched nothing, so that a grant of `none` did
            // not hide what it should.
            "table/secret*", "table/a/b", "database/shop/a/b", "database/sh*p", "database/*/a*",
        ] {
            let refused = Grants::default().set(pattern, Right::Read).unwrap_err();
            assert!(refused.contains("database/NAME"), "{pattern}");
        }
    }
}

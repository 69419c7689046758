//! Text to a tree, by recursive descent, with errors that say where and what was expected.

pub(crate) mod ast;
mod clause;
mod collections;
mod expression;
mod lex;
mod parser;
mod place;
mod primary;
mod refused;
mod statement;
mod token;
mod write;

use std::collections::BTreeSet;

use ast::Query;
pub use parser::DEPTH_MAX;
pub(crate) use parser::too_deep;
use parser::{Parser, Rules};

use crate::{QueryError, QueryOptions, Result, number};

/// The greatest length of the text of a query.
pub const QUERY_BYTES_MAX: usize = 16 << 20;

/// A query that was read, not yet bound to values and collections. Reading is the costly part of
/// short queries, so that it is worth keeping.
#[derive(Debug)]
pub struct Parsed {
    pub(crate) query: Query,
    bind_names: BTreeSet<String>,
    /// The bytes that it takes, at most.
    pub(crate) bytes: usize,
}

impl Parsed {
    /// The names of its bind variables, those of collections with `@` in front.
    #[must_use]
    pub fn bind_names(&self) -> &BTreeSet<String> {
        &self.bind_names
    }

    /// The collections that its text names, in the order of their names.
    #[must_use]
    pub fn collections(&self) -> BTreeSet<String> {
        collections::collections_of(&self.query)
    }
}

/// Reads a query, whatever memory that takes.
///
/// # Errors
/// 1501 with the place, 1502 if it is empty, 9 for what this version refuses and is written as it
/// should be.
pub fn parse(text: &str) -> Result<Parsed> {
    parse_within(text, &QueryOptions::default())
}

/// Reads a query. What that takes counts as memory of the query until it is read.
///
/// # Errors
/// As [`parse`]; 32 if it would take more memory than the query may.
pub fn parse_within(text: &str, options: &QueryOptions) -> Result<Parsed> {
    if text.len() > QUERY_BYTES_MAX {
        let message = format!("query is longer than {QUERY_BYTES_MAX} bytes");
        return Err(QueryError::new(number::PARSE, message));
    }
    let mut share = options.share();
    let (tokens, tree_bytes) = lex::tokens(text, &mut share)?;
    if tokens.len() == 1 {
        return Err(QueryError::new(number::EMPTY, "query is empty"));
    }
    let rules = Rules { expression: expression::parse_expression, query: statement::parse_query };
    let mut parser = Parser::new(text, tokens, rules);
    let query = statement::parse_query(&mut parser)?;
    let bind_names = parser.finish()?;
    let bytes = tree_bytes + text.len();
    Ok(Parsed { query, bind_names, bytes })
}

#[cfg(test)]
mod tests;

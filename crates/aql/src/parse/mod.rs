//! The parser: from text to a syntax tree, by recursive descent. Errors tell the position and what
//! was expected.

pub(crate) mod ast;
mod clause;
mod expression;
mod lex;
mod parser;
mod position;
mod primary;
mod statement;
mod token;
mod unsupported_syntax;
mod write;

use std::collections::BTreeSet;

use ast::Query;
use lex::PositionedToken;
pub use parser::DEPTH_MAX;
pub(crate) use parser::too_deep;
use parser::{CollectionNames, Parser, Rules};

use crate::{QueryError, QueryOptions, Result, number};

/// The most bytes of the text of a query.
pub const QUERY_BYTES_MAX: usize = 16 << 20;

/// A parsed query, not yet bound to values and collections. Parsing is the expensive part of short
/// queries, so it is worth keeping.
#[derive(Debug)]
pub struct ParsedQuery {
    pub(crate) query: Query,
    bind_names: BTreeSet<String>,
    /// The most bytes that it takes.
    pub(crate) bytes: usize,
}

impl ParsedQuery {
    /// The names of its bind variables. Those of collections begin with `@`.
    #[must_use]
    pub fn bind_names(&self) -> &BTreeSet<String> {
        &self.bind_names
    }
}

/// Parses a query, without a limit of memory.
///
/// # Errors
/// 1501 for a syntax error, with the position; 1502 if the query is empty; 9 if it is valid but
/// uses something that this version does not support.
pub fn parse(text: &str) -> Result<ParsedQuery> {
    parse_within(text, &QueryOptions::default())
}

/// Parses a query. The memory counts as that of the query until the parsing ends.
///
/// # Errors
/// Those of [`parse`], and 32 if it would take more memory than the query may.
pub fn parse_within(text: &str, options: &QueryOptions) -> Result<ParsedQuery> {
    Ok(parse_with(text, options, None)?.0)
}

/// Parses a query, like [`parse_within`]. Returns also the names of the collections in its text.
///
/// # Errors
/// Those of [`parse_within`].
pub fn parse_with_collections(
    text: &str,
    options: &QueryOptions,
) -> Result<(ParsedQuery, BTreeSet<String>)> {
    parse_with(text, options, Some(CollectionNames::default()))
}

fn parse_with(
    text: &str,
    options: &QueryOptions,
    names: Option<CollectionNames>,
) -> Result<(ParsedQuery, BTreeSet<String>)> {
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
    if names.is_some() {
        // Each token may be a name, of a variable and of a collection.
        share.take(2 * (text.len() + tokens.len() * size_of::<PositionedToken>()))?;
    }
    let mut parser = Parser::new(text, tokens, rules, names);
    let query = statement::parse_query(&mut parser)?;
    let (bind_names, collections) = parser.finish()?;
    let bytes = tree_bytes + text.len();
    Ok((ParsedQuery { query, bind_names, bytes }, collections))
}

#[cfg(test)]
mod tests;

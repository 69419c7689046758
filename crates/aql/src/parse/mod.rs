//! Text to a tree, by recursive descent, with errors that say where and what was expected.

pub(crate) mod ast;
mod collections;
mod expression;
mod lex;
mod place;
mod primary;
mod refused;
mod statement;
mod token;
mod write;

use std::collections::BTreeSet;

use ast::Query;
use lex::Placed;
use token::{Keyword, Sign, Token};

use crate::{QueryError, QueryOptions, number};

/// The greatest length of the text of a query.
pub const QUERY_BYTES_MAX: usize = 16 << 20;
/// The greatest depth of expressions and subqueries within each other; a chain of operators counts
/// each.
pub const DEPTH_MAX: usize = 400;

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
pub fn parse(text: &str) -> Result<Parsed, QueryError> {
    parse_within(text, &QueryOptions::default())
}

/// Reads a query. What that takes counts as memory of the query until it is read.
///
/// # Errors
/// As [`parse`]; 32 if it would take more memory than the query may.
pub fn parse_within(text: &str, options: &QueryOptions) -> Result<Parsed, QueryError> {
    if text.len() > QUERY_BYTES_MAX {
        let message = format!("query is longer than {QUERY_BYTES_MAX} bytes");
        return Err(QueryError::new(number::PARSE, message));
    }
    let mut share = options.share();
    let (tokens, tree_bytes) = lex::tokens(text, &mut share)?;
    if tokens.len() == 1 {
        return Err(QueryError::new(number::EMPTY, "query is empty"));
    }
    let mut parser = Parser {
        text,
        tokens,
        place: 0,
        height: 0,
        depth: 0,
        is_in_excluded: false,
        refused: None,
        bind_names: BTreeSet::new(),
    };
    let query = parser.query()?;
    if *parser.peek() != Token::End {
        return Err(parser.unexpected("the end of the query"));
    }
    if let Some(what) = parser.refused {
        return Err(QueryError::unsupported(what));
    }
    let bytes = tree_bytes + text.len();
    Ok(Parsed { query, bind_names: parser.bind_names, bytes })
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Placed>,
    place: usize,
    /// Of the expression that was read last.
    height: usize,
    /// The number of calls that lie in each other.
    depth: usize,
    /// `IN` ends an expression, as it names the collection that is written to.
    is_in_excluded: bool,
    /// The first thing that was read and is refused.
    refused: Option<&'static str>,
    bind_names: BTreeSet<String>,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.place].token
    }

    fn peek_second(&self) -> &Token {
        let last = self.tokens.len() - 1;
        &self.tokens[(self.place + 1).min(last)].token
    }

    /// The offset at which the next token begins.
    fn at(&self) -> usize {
        self.tokens[self.place].at
    }

    fn next(&mut self) -> Token {
        let token = self.tokens[self.place].token.clone();
        self.place = (self.place + 1).min(self.tokens.len() - 1);
        token
    }

    fn unexpected(&self, expected: &str) -> QueryError {
        let mut what = format!("syntax error, unexpected {}", self.peek().description());
        if !expected.is_empty() {
            what.push_str(", expecting ");
            what.push_str(expected);
        }
        place::error(self.text, self.at(), &what)
    }

    fn take_sign(&mut self, sign: Sign) -> bool {
        let is_here = *self.peek() == Token::Sign(sign);
        if is_here {
            self.next();
        }
        is_here
    }

    fn expect_sign(&mut self, sign: Sign) -> Result<(), QueryError> {
        if self.take_sign(sign) {
            return Ok(());
        }
        Err(self.unexpected(Token::Sign(sign).description()))
    }

    fn take_keyword(&mut self, keyword: Keyword) -> bool {
        let is_here = *self.peek() == Token::Keyword(keyword);
        if is_here {
            self.next();
        }
        is_here
    }

    fn expect_keyword(&mut self, keyword: Keyword) -> Result<(), QueryError> {
        if self.take_keyword(keyword) {
            return Ok(());
        }
        Err(self.unexpected(Token::Keyword(keyword).description()))
    }

    /// True if the next token is a word that means something only here.
    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Name(name, false) if name.eq_ignore_ascii_case(word))
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_here = self.is_word(word);
        if is_here {
            self.next();
        }
        is_here
    }

    fn expect_name(&mut self, what: &str) -> Result<String, QueryError> {
        match self.peek() {
            Token::Name(..) => match self.next() {
                Token::Name(name, _) => Ok(name),
                _ => Err(self.unexpected(what)),
            },
            _ => Err(self.unexpected(what)),
        }
    }

    fn bind(&mut self, name: &str) -> String {
        self.bind_names.insert(name.to_owned());
        name.to_owned()
    }

    /// Takes note of an expression over others of which the highest is `highest`.
    fn raise(&mut self, highest: usize) -> Result<(), QueryError> {
        self.height = highest + 1;
        if self.height > DEPTH_MAX { Err(too_deep()) } else { Ok(()) }
    }

    /// Enters a call that may lead to itself again.
    fn enter(&mut self) -> Result<(), QueryError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(too_deep()) } else { Ok(()) }
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }
}

/// Something lies deeper in each other than [`DEPTH_MAX`].
pub(crate) fn too_deep() -> QueryError {
    let message = format!("too much nesting or too many objects: more than {DEPTH_MAX} levels");
    QueryError::new(number::TOO_MUCH_NESTING, message)
}

#[cfg(test)]
mod tests;

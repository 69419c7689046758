//! The state of the parser: its place among the tokens, and how deep it is.

use std::collections::BTreeSet;

use super::ast::{Expression, Query};
use super::lex::Placed;
use super::place;
use super::token::{Keyword, Sign, Token};
use crate::{QueryError, Result, number};

/// The greatest depth of expressions and subqueries within each other; a chain of operators counts
/// each.
pub const DEPTH_MAX: usize = 400;

/// A rule of the grammar.
pub(super) type Rule<T> = fn(&mut Parser<'_>) -> Result<T>;

/// The rules that lie in each other: expressions have subqueries, and those have expressions.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) expression: Rule<Expression>,
    pub(super) query: Rule<Query>,
}

/// A text that is being read.
pub(super) struct Parser<'a> {
    text: &'a str,
    rules: Rules,
    /// The last one is the end.
    tokens: Vec<Placed>,
    place: usize,
    /// Of the highest among the expressions that were read since [`Parser::apart`] began.
    height: usize,
    /// The number of calls that lie in each other.
    depth: usize,
    /// `IN` ends an expression, as it names the collection that is written to.
    is_in_excluded: bool,
    /// The first thing that was read and is refused.
    refused: Option<&'static str>,
    bind_names: BTreeSet<String>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, tokens: Vec<Placed>, rules: Rules) -> Self {
        Self {
            text,
            rules,
            tokens,
            place: 0,
            height: 0,
            depth: 0,
            is_in_excluded: false,
            refused: None,
            bind_names: BTreeSet::new(),
        }
    }

    /// The names of the bind variables, once all tokens are read.
    pub(super) fn finish(self) -> Result<BTreeSet<String>> {
        if *self.peek() != Token::End {
            return Err(self.unexpected("the end of the query"));
        }
        match self.refused {
            Some(refused) => Err(QueryError::unsupported(refused)),
            None => Ok(self.bind_names),
        }
    }

    pub(super) fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    /// The token so many behind the next one.
    pub(super) fn peek_at(&self, distance: usize) -> &Token {
        &self.tokens[(self.place + distance).min(self.tokens.len() - 1)].token
    }

    pub(super) fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.place = (self.place + 1).min(self.tokens.len() - 1);
        token
    }

    /// The next word as it is written, a keyword too.
    pub(super) fn word(&self) -> &'a str {
        let rest = &self.text[self.tokens[self.place].at..];
        let end = rest.find(|next: char| !next.is_ascii_alphanumeric() && next != '_');
        &rest[..end.unwrap_or(rest.len())]
    }

    pub(super) fn unexpected(&self, expected: &str) -> QueryError {
        let mut message = format!("syntax error, unexpected {}", self.peek().description());
        if !expected.is_empty() {
            message.push_str(", expecting ");
            message.push_str(expected);
        }
        place::error(self.text, self.tokens[self.place].at, &message)
    }

    fn take(&mut self, is_here: bool) -> bool {
        if is_here {
            self.next();
        }
        is_here
    }

    pub(super) fn take_sign(&mut self, sign: Sign) -> bool {
        self.take(*self.peek() == Token::Sign(sign))
    }

    pub(super) fn expect_sign(&mut self, sign: Sign) -> Result<()> {
        if self.take_sign(sign) {
            return Ok(());
        }
        Err(self.unexpected(Token::Sign(sign).description()))
    }

    pub(super) fn take_keyword(&mut self, keyword: Keyword) -> bool {
        self.take(*self.peek() == Token::Keyword(keyword))
    }

    pub(super) fn expect_keyword(&mut self, keyword: Keyword) -> Result<()> {
        if self.take_keyword(keyword) {
            return Ok(());
        }
        Err(self.unexpected(Token::Keyword(keyword).description()))
    }

    /// True if the token so many behind the next one is a word that means something only here.
    pub(super) fn is_word_at(&self, distance: usize, word: &str) -> bool {
        match self.peek_at(distance) {
            Token::Name(name, false) => name.eq_ignore_ascii_case(word),
            _ => false,
        }
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        self.take(self.is_word_at(0, word))
    }

    pub(super) fn expect_name(&mut self, expected: &str) -> Result<String> {
        let Token::Name(name, _) = self.peek() else { return Err(self.unexpected(expected)) };
        let name = name.clone();
        self.next();
        Ok(name)
    }

    /// Reads the bind variable that stands here.
    pub(super) fn bind(&mut self, name: String) -> String {
        self.next();
        self.bind_names.insert(name.clone());
        name
    }

    /// Takes note of something that the query, if the rest of it can be read, is refused for.
    pub(super) fn refuse(&mut self, refused: &'static str) {
        self.refused.get_or_insert(refused);
    }

    /// Any expression.
    pub(super) fn expression(&mut self) -> Result<Expression> {
        (self.rules.expression)(self)
    }

    /// An expression that ends before `IN`, which names a collection there.
    pub(super) fn expression_before_in(&mut self) -> Result<Expression> {
        self.with_in(true, self.rules.expression)
    }

    /// Reads something within brackets, where `IN` is an operator again.
    pub(super) fn within<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.with_in(false, read)
    }

    fn with_in<T>(
        &mut self,
        is_excluded: bool,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let before = std::mem::replace(&mut self.is_in_excluded, is_excluded);
        let result = read(self);
        self.is_in_excluded = before;
        result
    }

    pub(super) fn is_in_excluded(&self) -> bool {
        self.is_in_excluded
    }

    /// A subquery, without its parentheses.
    pub(super) fn subquery(&mut self) -> Result<Query> {
        self.nested(|parser| {
            let query = (parser.rules.query)(parser)?;
            parser.raise()?;
            Ok(query)
        })
    }

    /// Reads something that may lead to itself again.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_deep());
        }
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Reads something whose height does not depend on that of what stands beside it.
    pub(super) fn apart<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let beside = std::mem::take(&mut self.height);
        let result = read(self);
        self.height = self.height.max(beside);
        result
    }

    /// Takes note of an expression over all those that were read since [`Parser::apart`] began.
    pub(super) fn raise(&mut self) -> Result<()> {
        self.height += 1;
        if self.height > DEPTH_MAX { Err(too_deep()) } else { Ok(()) }
    }
}

/// The error of something deeper in itself than [`DEPTH_MAX`].
pub(crate) fn too_deep() -> QueryError {
    let message = format!("too much nesting or too many objects: more than {DEPTH_MAX} levels");
    QueryError::new(number::TOO_MUCH_NESTING, message)
}

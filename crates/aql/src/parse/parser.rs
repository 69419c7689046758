//! The state of the parser: its position in the tokens, and its depth.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::ast::{CURRENT, Expression, Query};
use super::lex::PositionedToken;
use super::position;
use super::token::{Keyword, Sign, Token};
use crate::{QueryError, Result, number};

/// The most levels of nested expressions and subqueries. Each operator of a chain is a level.
pub const DEPTH_MAX: usize = 400;

/// A rule of the grammar.
pub(super) type Rule<T> = fn(&mut Parser<'_>) -> Result<T>;

/// The mutually recursive rules: expressions contain subqueries, which contain expressions.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) expression: Rule<Expression>,
    pub(super) query: Rule<Query>,
}

/// The state of the parser.
pub(super) struct Parser<'a> {
    text: &'a str,
    rules: Rules,
    /// The tokens, the last of which is the end.
    tokens: Vec<PositionedToken>,
    place: usize,
    /// The greatest height of the expressions that were parsed since [`Parser::apart`] began.
    height: usize,
    /// The number of nested calls.
    depth: usize,
    /// True where `IN` ends an expression, because it introduces the collection to write to.
    is_in_excluded: bool,
    /// The first unsupported feature that was parsed.
    refused: Option<&'static str>,
    bind_names: BTreeSet<String>,
    /// The names of collections, if they are wanted.
    names: Option<CollectionNames>,
}

/// The names of the collections of a text. Other names are those of variables.
#[derive(Default)]
pub(super) struct CollectionNames {
    collections: BTreeSet<String>,
    /// The visible variables.
    visible: BTreeSet<Rc<str>>,
    /// The visible variables, the innermost last.
    declared: Vec<Rc<str>>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(
        text: &'a str,
        tokens: Vec<PositionedToken>,
        rules: Rules,
        names: Option<CollectionNames>,
    ) -> Self {
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
            names,
        }
    }

    /// Ends the parsing. Returns the names of the bind variables, and those of the collections.
    pub(super) fn finish(self) -> Result<(BTreeSet<String>, BTreeSet<String>)> {
        if *self.peek() != Token::End {
            return Err(self.unexpected("the end of the query"));
        }
        match self.refused {
            Some(refused) => Err(QueryError::unsupported(refused)),
            None => {
                let collections = self.names.map(|names| names.collections);
                Ok((self.bind_names, collections.unwrap_or_default()))
            }
        }
    }

    pub(super) fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    /// The token that is `distance` tokens after the next one.
    pub(super) fn peek_at(&self, distance: usize) -> &Token {
        &self.tokens[(self.place + distance).min(self.tokens.len() - 1)].token
    }

    pub(super) fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.place = (self.place + 1).min(self.tokens.len() - 1);
        token
    }

    /// The text of the next word, which may be a keyword.
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
        position::error(self.text, self.tokens[self.place].at, &message)
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

    /// True if the token `distance` tokens after the next one is this contextual keyword.
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
        let name = plain_name(name).to_owned();
        self.next();
        Ok(name)
    }

    /// Takes a bind variable, and records its name.
    pub(super) fn bind(&mut self, name: String) -> String {
        self.next();
        self.bind_names.insert(name.clone());
        name
    }

    /// Records a variable that is visible from here to the end of the query or subquery.
    pub(super) fn declare(&mut self, name: &str) {
        let Some(names) = &mut self.names else { return };
        let name: Rc<str> = name.into();
        if names.visible.insert(Rc::clone(&name)) {
            names.declared.push(name);
        }
    }

    /// Records the name of a collection.
    pub(super) fn note_collection(&mut self, name: &str) {
        if let Some(names) = &mut self.names {
            names.collections.insert(name.to_owned());
        }
    }

    /// Records a name in an expression. It is a collection if no variable has it.
    pub(super) fn note(&mut self, name: &str) {
        let is_variable = |names: &CollectionNames| names.visible.contains(name);
        if name != CURRENT && !self.names.as_ref().is_some_and(is_variable) {
            self.note_collection(name);
        }
    }

    /// Records an unsupported feature. The query is refused for it if the rest of it is valid.
    pub(super) fn refuse(&mut self, refused: &'static str) {
        self.refused.get_or_insert(refused);
    }

    /// Parses any expression.
    pub(super) fn expression(&mut self) -> Result<Expression> {
        (self.rules.expression)(self)
    }

    /// Parses an expression that ends before `IN`, which introduces a collection there.
    pub(super) fn expression_before_in(&mut self) -> Result<Expression> {
        self.with_in(true, self.rules.expression)
    }

    /// Parses something within brackets, where `IN` is an operator again.
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

    /// Parses a subquery, without its parentheses.
    pub(super) fn subquery(&mut self) -> Result<Query> {
        self.nested(|parser| {
            let around = parser.names.as_ref().map_or(0, |names| names.declared.len());
            let query = (parser.rules.query)(parser)?;
            if let Some(CollectionNames { visible, declared, .. }) = &mut parser.names {
                for name in declared.drain(around..) {
                    visible.remove(&name);
                }
            }
            parser.raise()?;
            Ok(query)
        })
    }

    /// Parses something that may be recursive; checks the depth.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_deep());
        }
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Parses something whose height is independent of the expressions beside it.
    pub(super) fn apart<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let beside = std::mem::take(&mut self.height);
        let result = read(self);
        self.height = self.height.max(beside);
        result
    }

    /// Records an expression above all those that were parsed since [`Parser::apart`] began.
    pub(super) fn raise(&mut self) -> Result<()> {
        self.height += 1;
        if self.height > DEPTH_MAX { Err(too_deep()) } else { Ok(()) }
    }
}

/// A name without the `$` with which those of pseudo-variables may begin.
pub(super) fn plain_name(name: &str) -> &str {
    let pseudo = name.strip_prefix('$').filter(|name| matches!(*name, CURRENT | "OLD" | "NEW"));
    pseudo.unwrap_or(name)
}

/// Makes the error for something that is nested deeper than [`DEPTH_MAX`].
pub(crate) fn too_deep() -> QueryError {
    let message = format!("too much nesting or too many objects: more than {DEPTH_MAX} levels");
    QueryError::new(number::TOO_MUCH_NESTING, message)
}

//! Parts of the language that this version refuses.
//!
//! It is read to its end all the same: whoever made a mistake in the text is told of that first,
//! wherever it is, and drivers tell a broken query from one that only another server can run.

use super::token::{Keyword, Sign, Token};
use super::{Parser, QueryError};

impl Parser<'_> {
    /// Takes note of something that the query, if the rest of it can be read, is refused for.
    fn refuse(&mut self, what: &'static str) {
        self.refused.get_or_insert(what);
    }

    /// The variable of a `FOR` or `LET`, or the pattern that takes a value apart.
    pub(super) fn variable(&mut self) -> Result<String, QueryError> {
        if !matches!(self.peek(), Token::Sign(Sign::OpenBracket | Sign::OpenBrace)) {
            return self.expect_name("a variable name");
        }
        self.refuse("destructuring");
        self.pattern()?;
        Ok(String::new())
    }

    fn pattern(&mut self) -> Result<(), QueryError> {
        self.enter()?;
        if self.take_sign(Sign::OpenBracket) {
            // Elements are left out by commas with nothing between.
            while !self.take_sign(Sign::CloseBracket) {
                if !self.take_sign(Sign::Comma) {
                    self.pattern()?;
                    self.expect_separator(Sign::CloseBracket)?;
                }
            }
        } else if self.take_sign(Sign::OpenBrace) {
            while !self.take_sign(Sign::CloseBrace) {
                self.expect_name("an attribute name or }")?;
                if self.take_sign(Sign::Colon) {
                    self.pattern()?;
                }
                self.expect_separator(Sign::CloseBrace)?;
            }
        } else {
            self.expect_name("a variable name")?;
        }
        self.leave();
        Ok(())
    }

    /// A comma, unless the list ends here.
    fn expect_separator(&mut self, end: Sign) -> Result<(), QueryError> {
        if *self.peek() == Token::Sign(end) { Ok(()) } else { self.expect_sign(Sign::Comma) }
    }

    /// True if the direction of a traversal stands here.
    pub(super) fn is_direction(&self) -> bool {
        use Keyword::{Any, Inbound, Outbound};
        matches!(self.peek(), Token::Keyword(Outbound | Inbound | Any))
    }

    /// A traversal of a graph, or a search for paths, from its direction on.
    pub(super) fn traversal(&mut self) -> Result<(), QueryError> {
        self.next();
        let paths = match self.peek() {
            Token::Keyword(Keyword::ShortestPath) => Some("SHORTEST_PATH"),
            Token::Keyword(Keyword::AllShortestPaths) => Some("ALL_SHORTEST_PATHS"),
            Token::Keyword(Keyword::KPaths) => Some("K_PATHS"),
            Token::Keyword(Keyword::KShortestPaths) => Some("K_SHORTEST_PATHS"),
            _ => None,
        };
        self.refuse(paths.unwrap_or("a graph traversal"));
        if paths.is_some() {
            self.next();
            self.expression()?;
            if !self.take_word("TO") {
                return Err(self.unexpected("TO"));
            }
        }
        self.expression()?;
        self.graph()?;
        if paths.is_none() && self.take_word("PRUNE") {
            let is_named = matches!(self.peek(), Token::Name(..))
                && *self.peek_second() == Token::Sign(Sign::Assign);
            if is_named {
                self.next();
                self.next();
            }
            self.expression()?;
        }
        Ok(())
    }

    /// The graph, or the collections of its edges, each perhaps with a direction of its own.
    fn graph(&mut self) -> Result<(), QueryError> {
        if self.take_keyword(Keyword::Graph) {
            return match self.peek().clone() {
                Token::Name(..) | Token::String(_) => self.skip(),
                Token::Bind(name) => {
                    self.bind(&name);
                    self.skip()
                }
                _ => Err(self.unexpected("the name of a graph")),
            };
        }
        loop {
            if self.is_direction() {
                self.next();
            }
            match self.peek().clone() {
                Token::Name(..) | Token::String(_) => self.skip()?,
                Token::CollectionBind(name) => {
                    self.bind(&name);
                    self.skip()?;
                }
                _ => return Err(self.unexpected("GRAPH or a collection name")),
            }
            if !self.take_sign(Sign::Comma) {
                return Ok(());
            }
        }
    }

    fn skip(&mut self) -> Result<(), QueryError> {
        self.next();
        Ok(())
    }

    /// `SEARCH` and its condition, if they stand here.
    pub(super) fn search(&mut self) -> Result<(), QueryError> {
        if self.take_word("SEARCH") {
            self.refuse("SEARCH");
            self.expression()?;
        }
        Ok(())
    }

    /// `WINDOW`, over rows or over a range of values.
    pub(super) fn window_statement(&mut self, highest: &mut usize) -> Result<(), QueryError> {
        self.refuse("WINDOW");
        self.next();
        self.expression()?;
        if self.take_keyword(Keyword::With) {
            self.expression()?;
        }
        self.expect_keyword(Keyword::Aggregate)?;
        self.assignments(highest).map(drop)
    }
}

//! The statements that write.

use super::ast::{Statement, Target, Upsert, UpsertSearch, Write};
use super::token::{Keyword, Token};
use super::{Parser, QueryError};
use crate::WriteKind;

impl Parser<'_> {
    /// The statement that writes and begins with this keyword; nothing if none does.
    pub(super) fn write_statement(
        &mut self,
        keyword: Keyword,
    ) -> Result<Option<Statement>, QueryError> {
        let kind = match keyword {
            Keyword::Insert => WriteKind::Insert,
            Keyword::Update => WriteKind::Update,
            Keyword::Replace => WriteKind::Replace,
            Keyword::Remove => WriteKind::Remove,
            Keyword::Upsert => return self.upsert().map(Some),
            _ => return Ok(None),
        };
        self.next();
        let document = self.expression_before_in()?;
        let mut highest = self.height;
        let mut with = None;
        if matches!(kind, WriteKind::Update | WriteKind::Replace)
            && self.take_keyword(Keyword::With)
        {
            with = Some(self.expression_before_in()?);
            highest = highest.max(self.height);
        }
        let target = self.target()?;
        let options = self.options()?;
        self.height = highest.max(self.height);
        Ok(Some(Statement::Write(Write { kind, document, with, target, options })))
    }

    /// `INTO` or `IN`, and the collection.
    fn target(&mut self) -> Result<Target, QueryError> {
        if !self.take_keyword(Keyword::Into) && !self.take_keyword(Keyword::In) {
            return Err(self.unexpected("INTO or IN"));
        }
        match self.peek().clone() {
            Token::Name(name, _) | Token::String(name) => {
                self.next();
                Ok(Target::Name(name))
            }
            Token::CollectionBind(name) => {
                self.next();
                Ok(Target::Bind(self.bind(&name)))
            }
            _ => Err(self.unexpected("a collection name")),
        }
    }

    fn upsert(&mut self) -> Result<Statement, QueryError> {
        self.next();
        let search = if self.take_keyword(Keyword::Filter) {
            UpsertSearch::Filter(self.expression()?)
        } else {
            UpsertSearch::Example(self.expression()?)
        };
        let mut highest = self.height;
        self.expect_keyword(Keyword::Insert)?;
        let insert = self.expression()?;
        highest = highest.max(self.height);
        let is_replace = match self.peek() {
            Token::Keyword(Keyword::Update) => false,
            Token::Keyword(Keyword::Replace) => true,
            _ => return Err(self.unexpected("UPDATE or REPLACE")),
        };
        self.next();
        let update = self.expression_before_in()?;
        highest = highest.max(self.height);
        let target = self.target()?;
        let options = self.options()?;
        self.height = highest.max(self.height);
        Ok(Statement::Upsert(Upsert { search, insert, update, is_replace, target, options }))
    }
}

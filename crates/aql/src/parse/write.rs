//! Parsing of statements that write.

use super::ast::{Statement, Target, Upsert, UpsertSearch, Write};
use super::clause::parse_options;
use super::parser::Parser;
use super::token::{Keyword, Token};
use crate::{Result, WriteKind};

/// The pseudo-variables for documents that are written.
const DOCUMENTS: [&str; 2] = ["OLD", "NEW"];

/// Parses the statement that writes and begins with this keyword; `None` if none does.
pub(super) fn parse_write(parser: &mut Parser<'_>, keyword: Keyword) -> Result<Option<Statement>> {
    let kind = match keyword {
        Keyword::Insert => WriteKind::Insert,
        Keyword::Update => WriteKind::Update,
        Keyword::Replace => WriteKind::Replace,
        Keyword::Remove => WriteKind::Remove,
        Keyword::Upsert => return parse_upsert(parser).map(Some),
        _ => return Ok(None),
    };
    parser.next();
    DOCUMENTS.into_iter().for_each(|name| parser.declare(name));
    let document = parser.expression_before_in()?;
    let mut with = None;
    if matches!(kind, WriteKind::Update | WriteKind::Replace) && parser.take_keyword(Keyword::With)
    {
        with = Some(parser.expression_before_in()?);
    }
    let target = parse_target(parser)?;
    let options = parse_options(parser)?;
    Ok(Some(Statement::Write(Write { kind, document, with, target, options })))
}

/// Parses `INTO` or `IN`, and the collection.
fn parse_target(parser: &mut Parser<'_>) -> Result<Target> {
    if !parser.take_keyword(Keyword::Into) && !parser.take_keyword(Keyword::In) {
        return Err(parser.unexpected("INTO or IN"));
    }
    match parser.peek().clone() {
        Token::Name(name, _) | Token::String(name) => {
            parser.next();
            parser.note_collection(&name);
            Ok(Target::Name(name))
        }
        Token::CollectionBind(name) => Ok(Target::Bind(parser.bind(name))),
        _ => Err(parser.unexpected("a collection name")),
    }
}

fn parse_upsert(parser: &mut Parser<'_>) -> Result<Statement> {
    parser.next();
    DOCUMENTS.into_iter().for_each(|name| parser.declare(name));
    let search = if parser.take_keyword(Keyword::Filter) {
        UpsertSearch::Filter(parser.expression()?)
    } else {
        UpsertSearch::Example(parser.expression()?)
    };
    parser.expect_keyword(Keyword::Insert)?;
    let insert = parser.expression()?;
    let is_replace = match parser.peek() {
        Token::Keyword(Keyword::Update) => false,
        Token::Keyword(Keyword::Replace) => true,
        _ => return Err(parser.unexpected("UPDATE or REPLACE")),
    };
    parser.next();
    let update = parser.expression_before_in()?;
    let target = parse_target(parser)?;
    let options = parse_options(parser)?;
    Ok(Statement::Upsert(Upsert { search, insert, update, is_replace, target, options }))
}

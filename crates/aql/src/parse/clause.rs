//! Parsing of clauses that several statements have.

use super::ast::Expression;
use super::parser::Parser;
use super::token::{Sign, Token};
use crate::Result;

/// Parses `OPTIONS { … }`, if it is here.
pub(super) fn parse_options(parser: &mut Parser<'_>) -> Result<Option<Expression>> {
    if !parser.take_word("OPTIONS") {
        return Ok(None);
    }
    if *parser.peek() != Token::Sign(Sign::OpenBrace) && !matches!(parser.peek(), Token::Bind(_)) {
        return Err(parser.unexpected("{"));
    }
    parser.expression().map(Some)
}

/// Parses a list of `name = expression`, separated by commas.
pub(super) fn parse_assignments(parser: &mut Parser<'_>) -> Result<Vec<(String, Expression)>> {
    let mut assignments = Vec::new();
    loop {
        let name = parser.expect_name("a variable name")?;
        parser.expect_sign(Sign::Assign)?;
        let value = parser.expression()?;
        assignments.push((name, value));
        if !parser.take_sign(Sign::Comma) {
            return Ok(assignments);
        }
    }
}

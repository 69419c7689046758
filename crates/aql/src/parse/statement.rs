//! Parsing of statements that read.

use pellucid_value::Value;

use super::ast::{Collect, Direction, Expression, Query, SortKey, Statement};
use super::clause::{parse_assignments, parse_options};
use super::parser::Parser;
use super::token::{Keyword, Sign, Token};
use super::unsupported_syntax::{
    is_direction, parse_variable, skip_search, skip_traversal, skip_window,
};
use super::write::parse_write;
use crate::Result;

/// The most variables of a traversal besides the vertex: the edge and the path.
const TRAVERSAL_OTHERS_MAX: usize = 2;

/// Parses a query or subquery, up to its end.
pub(super) fn parse_query(parser: &mut Parser<'_>) -> Result<Query> {
    let mut query = Query::default();
    if parser.take_keyword(Keyword::With) {
        skip_collections(parser)?;
    }
    while let Token::Keyword(keyword) = *parser.peek() {
        match keyword {
            Keyword::For => query.statements.push(parse_for(parser)?),
            Keyword::Filter => {
                parser.next();
                query.statements.push(Statement::Filter(parser.expression()?));
            }
            Keyword::Let => parse_lets(parser, &mut query)?,
            Keyword::Sort => query.statements.push(parse_sort(parser)?),
            Keyword::Limit => query.statements.push(parse_limit(parser)?),
            Keyword::Collect => query.statements.push(parse_collect(parser)?),
            Keyword::Return => {
                parser.next();
                let is_distinct = parser.take_keyword(Keyword::Distinct);
                let value = parser.expression()?;
                query.statements.push(Statement::Return { value, is_distinct });
            }
            Keyword::Window => skip_window(parser)?,
            _ => match parse_write(parser, keyword)? {
                Some(statement) => query.statements.push(statement),
                None => break,
            },
        }
        if matches!(query.statements.last(), Some(Statement::Return { .. })) {
            return Ok(query);
        }
    }
    let writes =
        |statement: &Statement| matches!(statement, Statement::Write(_) | Statement::Upsert(_));
    // Only a query that writes may end without a result.
    if query.statements.last().is_some_and(writes) {
        return Ok(query);
    }
    Err(parser.unexpected(""))
}

/// Skips the collections of a leading `WITH`, which matter only to clusters.
fn skip_collections(parser: &mut Parser<'_>) -> Result<()> {
    loop {
        match parser.peek().clone() {
            Token::CollectionBind(name) => {
                parser.bind(name);
            }
            _ => drop(parser.expect_name("a collection name")?),
        }
        if !parser.take_sign(Sign::Comma) && !matches!(parser.peek(), Token::Name(..)) {
            return Ok(());
        }
    }
}

fn parse_for(parser: &mut Parser<'_>) -> Result<Statement> {
    parser.next();
    let variable = parse_variable(parser)?;
    let mut others = 0;
    while others < TRAVERSAL_OTHERS_MAX && parser.take_sign(Sign::Comma) {
        others += 1;
        parser.expect_name("a variable name")?;
    }
    parser.expect_keyword(Keyword::In)?;
    let list = if is_direction(parser) {
        Expression::Constant(Value::Null)
    } else {
        parser.expression()?
    };
    if is_direction(parser) {
        skip_traversal(parser)?;
    } else if others > 0 {
        return Err(parser.unexpected("OUTBOUND, INBOUND or ANY"));
    } else {
        skip_search(parser)?;
    }
    let options = parse_options(parser)?;
    parser.declare(&variable);
    Ok(Statement::For { variable, list, options })
}

fn parse_lets(parser: &mut Parser<'_>, query: &mut Query) -> Result<()> {
    parser.next();
    loop {
        let variable = parse_variable(parser)?;
        parser.expect_sign(Sign::Assign)?;
        let value = parser.expression()?;
        parser.declare(&variable);
        query.statements.push(Statement::Let { variable, value });
        if !parser.take_sign(Sign::Comma) {
            return Ok(());
        }
    }
}

fn parse_sort(parser: &mut Parser<'_>) -> Result<Statement> {
    parser.next();
    let mut keys = Vec::new();
    loop {
        let value = parser.expression()?;
        let direction = match parser.peek() {
            Token::Keyword(Keyword::Asc) => {
                parser.next();
                Direction::Ascending
            }
            Token::Keyword(Keyword::Desc) => {
                parser.next();
                Direction::Descending
            }
            Token::Bind(_)
            | Token::String(_)
            | Token::Integer(_)
            | Token::Double(_)
            | Token::Keyword(Keyword::True | Keyword::False | Keyword::Null) => {
                Direction::Computed(parser.expression()?)
            }
            _ => Direction::Ascending,
        };
        keys.push(SortKey { value, direction });
        if !parser.take_sign(Sign::Comma) {
            return Ok(Statement::Sort(keys));
        }
    }
}

fn parse_limit(parser: &mut Parser<'_>) -> Result<Statement> {
    parser.next();
    let first = parser.expression()?;
    if !parser.take_sign(Sign::Comma) {
        return Ok(Statement::Limit { offset: None, count: first });
    }
    let count = parser.expression()?;
    Ok(Statement::Limit { offset: Some(first), count })
}

fn parse_collect(parser: &mut Parser<'_>) -> Result<Statement> {
    parser.next();
    let mut collect = Collect::default();
    if matches!(parser.peek(), Token::Name(..)) {
        collect.groups = parse_assignments(parser)?;
    }
    if parser.take_keyword(Keyword::Aggregate) {
        collect.aggregates = parse_assignments(parser)?;
    }
    if parser.take_keyword(Keyword::Into) {
        let name = parser.expect_name("a variable name")?;
        let mut value = None;
        if parser.take_sign(Sign::Assign) {
            value = Some(parser.expression()?);
        }
        collect.into = Some((name, value));
        if parser.take_word("KEEP") {
            let mut names = vec![parser.expect_name("a variable name")?];
            while parser.take_sign(Sign::Comma) {
                names.push(parser.expect_name("a variable name")?);
            }
            collect.keep = Some(names);
        }
    } else if parser.take_keyword(Keyword::With) {
        if !parser.take_word("COUNT") {
            return Err(parser.unexpected("COUNT"));
        }
        parser.expect_keyword(Keyword::Into)?;
        collect.count = Some(parser.expect_name("a variable name")?);
    }
    if collect.groups.is_empty() && collect.aggregates.is_empty() && collect.count.is_none() {
        return Err(parser.unexpected("a variable name, AGGREGATE or WITH COUNT"));
    }
    collect.options = parse_options(parser)?;
    let values = collect.groups.iter().chain(&collect.aggregates).map(|(name, _)| name);
    let rows = collect.into.iter().map(|(name, _)| name);
    values.chain(rows).chain(&collect.count).for_each(|name| parser.declare(name));
    Ok(Statement::Collect(collect))
}

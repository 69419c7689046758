//! Parts of the language that this version does not support.
//!
//! They are parsed all the same. A syntax error anywhere in the text is reported first, so that
//! drivers can tell an invalid query from an unsupported one.

use super::clause::parse_assignments;
use super::parser::Parser;
use super::token::{Keyword, Sign, Token};
use crate::Result;

/// Parses the variable of a `FOR` or `LET`, or a destructuring pattern, which is unsupported.
pub(super) fn parse_variable(parser: &mut Parser<'_>) -> Result<String> {
    if !matches!(parser.peek(), Token::Sign(Sign::OpenBracket | Sign::OpenBrace)) {
        return parser.expect_name("a variable name");
    }
    parser.refuse("destructuring");
    skip_pattern(parser)?;
    Ok(String::new())
}

fn skip_pattern(parser: &mut Parser<'_>) -> Result<()> {
    parser.nested(|parser| {
        if parser.take_sign(Sign::OpenBracket) {
            // Elements of the pattern may be empty.
            while !parser.take_sign(Sign::CloseBracket) {
                if !parser.take_sign(Sign::Comma) {
                    skip_pattern(parser)?;
                    expect_separator(parser, Sign::CloseBracket)?;
                }
            }
        } else if parser.take_sign(Sign::OpenBrace) {
            while !parser.take_sign(Sign::CloseBrace) {
                parser.expect_name("an attribute name or }")?;
                if parser.take_sign(Sign::Colon) {
                    skip_pattern(parser)?;
                }
                expect_separator(parser, Sign::CloseBrace)?;
            }
        } else {
            parser.expect_name("a variable name")?;
        }
        Ok(())
    })
}

/// Expects a comma, unless the list ends here.
fn expect_separator(parser: &mut Parser<'_>, end: Sign) -> Result<()> {
    if *parser.peek() == Token::Sign(end) { Ok(()) } else { parser.expect_sign(Sign::Comma) }
}

/// True if the next token is the direction of a traversal.
pub(super) fn is_direction(parser: &Parser<'_>) -> bool {
    use Keyword::{Any, Inbound, Outbound};
    matches!(parser.peek(), Token::Keyword(Outbound | Inbound | Any))
}

/// Parses a traversal of a graph or a search for paths, from its direction on.
pub(super) fn skip_traversal(parser: &mut Parser<'_>) -> Result<()> {
    parser.next();
    let paths = match parser.peek() {
        Token::Keyword(Keyword::ShortestPath) => Some("SHORTEST_PATH"),
        Token::Keyword(Keyword::AllShortestPaths) => Some("ALL_SHORTEST_PATHS"),
        Token::Keyword(Keyword::KPaths) => Some("K_PATHS"),
        Token::Keyword(Keyword::KShortestPaths) => Some("K_SHORTEST_PATHS"),
        _ => None,
    };
    parser.refuse(paths.unwrap_or("a graph traversal"));
    if paths.is_some() {
        parser.next();
        parser.expression()?;
        if !parser.take_word("TO") {
            return Err(parser.unexpected("TO"));
        }
    }
    parser.expression()?;
    skip_graph(parser)?;
    if paths.is_none() && parser.take_word("PRUNE") {
        let is_named = matches!(parser.peek(), Token::Name(..))
            && *parser.peek_at(1) == Token::Sign(Sign::Assign);
        if is_named {
            parser.next();
            parser.next();
        }
        parser.expression()?;
    }
    Ok(())
}

/// Parses the graph, or its edge collections, each with an optional direction.
fn skip_graph(parser: &mut Parser<'_>) -> Result<()> {
    if parser.take_keyword(Keyword::Graph) {
        return match parser.peek().clone() {
            Token::Name(..) | Token::String(_) => {
                parser.next();
                Ok(())
            }
            Token::Bind(name) => {
                parser.bind(name);
                Ok(())
            }
            _ => Err(parser.unexpected("the name of a graph")),
        };
    }
    loop {
        if is_direction(parser) {
            parser.next();
        }
        match parser.peek().clone() {
            Token::Name(..) | Token::String(_) => drop(parser.next()),
            Token::CollectionBind(name) => drop(parser.bind(name)),
            _ => return Err(parser.unexpected("GRAPH or a collection name")),
        }
        if !parser.take_sign(Sign::Comma) {
            return Ok(());
        }
    }
}

/// Parses `SEARCH` and its condition, if it is here.
pub(super) fn skip_search(parser: &mut Parser<'_>) -> Result<()> {
    if parser.take_word("SEARCH") {
        parser.refuse("SEARCH");
        parser.expression()?;
    }
    Ok(())
}

/// Parses `WINDOW`, over rows or over a range of values.
pub(super) fn skip_window(parser: &mut Parser<'_>) -> Result<()> {
    parser.refuse("WINDOW");
    parser.next();
    parser.expression()?;
    if parser.take_keyword(Keyword::With) {
        parser.expression()?;
    }
    parser.expect_keyword(Keyword::Aggregate)?;
    parse_assignments(parser).map(drop)
}

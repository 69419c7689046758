//! Parsing of literals, names and calls, and of what follows a value: attributes, elements,
//! expansions.

use std::sync::Arc;

use pellucid_value::{Number, Value};

use super::ast::{ArrayPredicate, Expansion, Expression, Member, MemberName, Quantifier};
use super::parser::{Parser, plain_name};
use super::token::{Keyword, Sign, Token};
use crate::Result;

/// Parses a value and all attributes, elements and expansions that follow it.
pub(super) fn parse_value(parser: &mut Parser<'_>) -> Result<Expression> {
    let mut value = parse_primary(parser)?;
    // After `[*]`, attributes and elements apply to each element of the array.
    let mut is_expanding = false;
    loop {
        if parser.take_sign(Sign::Dot) {
            parser.raise()?;
            value = parse_attribute(parser, value, is_expanding)?;
        } else if parser.take_sign(Sign::OpenBracket) {
            if *parser.peek() == Token::Sign(Sign::Times) {
                let expansion = parser.within(|parser| parser.apart(parse_expansion))?;
                // Several stars flatten the result of the expansion before them.
                let in_each = is_expanding && expansion.levels == 1;
                value = within_each(value, in_each, |list| {
                    Expression::Expansion(Box::new(Expansion { list, ..expansion }))
                });
                is_expanding = true;
            } else if *parser.peek() == Token::Sign(Sign::Question) {
                let question = parser.within(|parser| parser.apart(parse_question))?;
                // As several stars do, several question marks flatten the result before them.
                let in_each = is_expanding && question.levels == 1;
                value = within_each(value, in_each, |list| {
                    Expression::Question(Box::new(ArrayPredicate { list, ..question }))
                });
            } else {
                let place = parser.within(Parser::expression)?;
                value = within_each(value, is_expanding, |list| {
                    Expression::Element(Box::new(list), Box::new(place))
                });
            }
            parser.expect_sign(Sign::CloseBracket)?;
            parser.raise()?;
        } else {
            return Ok(value);
        }
    }
}

fn parse_attribute(
    parser: &mut Parser<'_>,
    value: Expression,
    is_expanding: bool,
) -> Result<Expression> {
    let name: Arc<str> = match parser.peek().clone() {
        Token::Name(name, _) => name.into(),
        // A keyword is a valid name here.
        Token::Keyword(_) => parser.word().into(),
        Token::Bind(name) => {
            let name = parser.bind(name);
            return Ok(within_each(value, is_expanding, |value| {
                Expression::AttributeBind(Box::new(value), name)
            }));
        }
        _ => return Err(parser.unexpected("an attribute name")),
    };
    parser.next();
    Ok(within_each(value, is_expanding, |value| Expression::Attribute(Box::new(value), name)))
}

/// Parses the content of `[*…]`, from the stars on.
fn parse_expansion(parser: &mut Parser<'_>) -> Result<Expansion> {
    let mut expansion = Expansion {
        list: Expression::Constant(Value::Null),
        levels: 0,
        filter: None,
        limit: None,
        projection: None,
    };
    while parser.take_sign(Sign::Times) {
        expansion.levels += 1;
    }
    if parser.take_keyword(Keyword::Filter) {
        expansion.filter = Some(parser.expression()?);
    }
    if parser.take_keyword(Keyword::Limit) {
        let first = parser.expression()?;
        let limit = if parser.take_sign(Sign::Comma) {
            (first, parser.expression()?)
        } else {
            (Expression::Constant(Value::Int(0)), first)
        };
        expansion.limit = Some(limit);
    }
    if parser.take_keyword(Keyword::Return) {
        expansion.projection = Some(parser.expression()?);
    }
    parser.raise()?;
    Ok(expansion)
}

/// Parses the content of `[?…]`, from the question marks on.
fn parse_question(parser: &mut Parser<'_>) -> Result<ArrayPredicate> {
    let mut question = ArrayPredicate {
        list: Expression::Constant(Value::Null),
        levels: 0,
        quantifier: None,
        count: None,
        filter: None,
    };
    while parser.take_sign(Sign::Question) {
        question.levels += 1;
    }
    match parser.peek() {
        Token::Keyword(Keyword::All) => question.quantifier = Some(Quantifier::All),
        Token::Keyword(Keyword::Any) => question.quantifier = Some(Quantifier::Any),
        Token::Keyword(Keyword::None) => question.quantifier = Some(Quantifier::None),
        _ => {}
    }
    if question.quantifier.is_some() {
        parser.next();
    } else if parser.take_word("AT") {
        if !parser.take_word("LEAST") {
            return Err(parser.unexpected("LEAST"));
        }
        question.quantifier = Some(parse_at_least(parser)?);
    } else if !matches!(
        parser.peek(),
        Token::Keyword(Keyword::Filter) | Token::Sign(Sign::CloseBracket)
    ) {
        question.count = Some(parser.expression()?);
    }
    if parser.take_keyword(Keyword::Filter) {
        question.filter = Some(parser.expression()?);
    }
    parser.raise()?;
    Ok(question)
}

fn parse_primary(parser: &mut Parser<'_>) -> Result<Expression> {
    let leaf = match parser.peek().clone() {
        Token::Keyword(Keyword::Null) => Expression::Constant(Value::Null),
        Token::Keyword(Keyword::True) => Expression::Constant(Value::Bool(true)),
        Token::Keyword(Keyword::False) => Expression::Constant(Value::Bool(false)),
        Token::Integer(value) => Expression::Constant(Value::number(Number::Uint(value))),
        Token::Double(value) if value.is_finite() => Expression::Constant(Value::from(value)),
        Token::Double(_) => Expression::OutOfRange,
        Token::String(text) => Expression::Constant(Value::from(text)),
        Token::Bind(name) => {
            parser.raise()?;
            return Ok(Expression::Bind(parser.bind(name)));
        }
        Token::CollectionBind(name) => {
            parser.raise()?;
            return Ok(Expression::CollectionBind(parser.bind(name)));
        }
        Token::Name(name, _) => {
            parser.next();
            return parse_named(parser, name);
        }
        Token::Keyword(Keyword::Like) if *parser.peek_at(1) == Token::Sign(Sign::Open) => {
            parser.next();
            return parse_call(parser, "LIKE".to_owned());
        }
        Token::Sign(Sign::Open) => return parser.within(parse_parenthesis),
        Token::Sign(Sign::OpenBracket) => return parser.within(parse_array),
        Token::Sign(Sign::OpenBrace) => return parser.within(parse_object),
        _ => return Err(parser.unexpected("")),
    };
    parser.raise()?;
    parser.next();
    Ok(leaf)
}

/// Parses a variable, a collection, or a function call.
fn parse_named(parser: &mut Parser<'_>, first: String) -> Result<Expression> {
    let mut name = first;
    while parser.take_sign(Sign::Scope) {
        name.push_str("::");
        name.push_str(&parser.expect_name("a function name")?);
    }
    if *parser.peek() == Token::Sign(Sign::Open) {
        return parse_call(parser, name);
    }
    if name.contains("::") {
        return Err(parser.unexpected("("));
    }
    parser.raise()?;
    Ok(reference(parser, &name))
}

/// The variable or collection of this name.
fn reference(parser: &mut Parser<'_>, name: &str) -> Expression {
    let name = plain_name(name);
    parser.note(name);
    Expression::Name(name.to_owned())
}

fn parse_call(parser: &mut Parser<'_>, name: String) -> Result<Expression> {
    parser.next();
    let arguments =
        parser.within(|parser| parse_list(parser, Sign::Close, parse_expression_or_query))?;
    Ok(Expression::Call { name, arguments })
}

/// Parses a list, with an optional comma at the end.
fn parse_list<'a>(
    parser: &mut Parser<'a>,
    end: Sign,
    parse_element: fn(&mut Parser<'a>) -> Result<Expression>,
) -> Result<Vec<Expression>> {
    let mut elements = Vec::new();
    while !parser.take_sign(end) {
        elements.push(parse_element(parser)?);
        if !parser.take_sign(Sign::Comma) {
            parser.expect_sign(end)?;
            break;
        }
    }
    parser.raise()?;
    Ok(elements)
}

fn parse_parenthesis(parser: &mut Parser<'_>) -> Result<Expression> {
    parser.next();
    let value = parse_expression_or_query(parser)?;
    parser.expect_sign(Sign::Close)?;
    Ok(value)
}

fn parse_expression_or_query(parser: &mut Parser<'_>) -> Result<Expression> {
    if is_query_begin(parser) {
        return parser.subquery().map(|query| Expression::Subquery(Box::new(query)));
    }
    parser.expression()
}

/// True if a statement begins here, which makes a parenthesis or an argument a subquery.
fn is_query_begin(parser: &Parser<'_>) -> bool {
    let Token::Keyword(keyword) = parser.peek() else { return false };
    use Keyword::{Collect, Filter, For, Insert, Let, Limit, Remove, Replace, Return};
    matches!(keyword, For | Return | Let | Filter | Collect | Limit | Insert | Remove | Replace)
        || matches!(keyword, Keyword::Sort | Keyword::Update | Keyword::Upsert | Keyword::Window)
}

fn parse_array(parser: &mut Parser<'_>) -> Result<Expression> {
    parser.next();
    parse_list(parser, Sign::CloseBracket, Parser::expression).map(Expression::Array)
}

fn parse_object(parser: &mut Parser<'_>) -> Result<Expression> {
    parser.next();
    let mut members = Vec::new();
    while !parser.take_sign(Sign::CloseBrace) {
        members.push(parse_member(parser)?);
        if !parser.take_sign(Sign::Comma) {
            parser.expect_sign(Sign::CloseBrace)?;
            break;
        }
    }
    parser.raise()?;
    Ok(Expression::Object(members))
}

fn parse_member(parser: &mut Parser<'_>) -> Result<Member> {
    let name = match parser.peek().clone() {
        Token::Name(name, _) => {
            parser.next();
            if *parser.peek() != Token::Sign(Sign::Colon) {
                parser.apart(Parser::raise)?;
                let value = reference(parser, &name);
                return Ok(Member { name: MemberName::Fixed(name), value });
            }
            MemberName::Fixed(name)
        }
        Token::String(name) => {
            parser.next();
            MemberName::Fixed(name)
        }
        Token::Keyword(_) => {
            let name = parser.word().to_owned();
            parser.next();
            MemberName::Fixed(name)
        }
        Token::Bind(name) => MemberName::Computed(Expression::Bind(parser.bind(name))),
        Token::Sign(Sign::OpenBracket) => {
            parser.next();
            let name = parser.expression()?;
            parser.expect_sign(Sign::CloseBracket)?;
            MemberName::Computed(name)
        }
        _ => return Err(parser.unexpected("an attribute name or }")),
    };
    parser.expect_sign(Sign::Colon)?;
    let value = parser.expression()?;
    Ok(Member { name, value })
}

/// Parses the count behind `AT LEAST`.
pub(super) fn parse_at_least(parser: &mut Parser<'_>) -> Result<Quantifier> {
    parser.expect_sign(Sign::Open)?;
    let count = parser.within(Parser::expression)?;
    parser.expect_sign(Sign::Close)?;
    Ok(Quantifier::AtLeast(Box::new(count)))
}

/// Applies an attribute or element to a value, or to each element if the value is an open
/// expansion.
fn within_each(
    value: Expression,
    is_expanding: bool,
    take: impl FnOnce(Expression) -> Expression,
) -> Expression {
    match value {
        Expression::Expansion(mut expansion) if is_expanding => {
            let before = expansion.projection.take().unwrap_or(Expression::Current);
            expansion.projection = Some(within_each(before, true, take));
            Expression::Expansion(expansion)
        }
        value => take(value),
    }
}

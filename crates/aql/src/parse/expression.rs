//! Parsing of operators, by precedence.

use super::ast::{BinaryOperator, Expression, Quantifier, UnaryOperator};
use super::parser::Parser;
use super::primary::{parse_at_least, parse_value};
use super::token::{Keyword, Sign, Token};
use crate::Result;

/// The precedence of operators; a greater number binds tighter.
mod power {
    pub(super) const TERNARY: u8 = 1;
    pub(super) const OR: u8 = 2;
    pub(super) const AND: u8 = 3;
    pub(super) const QUANTIFIER: u8 = 4;
    pub(super) const EQUALITY: u8 = 5;
    pub(super) const IN: u8 = 6;
    pub(super) const COMPARISON: u8 = 7;
    pub(super) const RANGE: u8 = 8;
    pub(super) const SUM: u8 = 9;
    pub(super) const PRODUCT: u8 = 10;
}

/// Parses any expression.
pub(super) fn parse_expression(parser: &mut Parser<'_>) -> Result<Expression> {
    parse_operators(parser, 0)
}

/// Parses an expression with operators of at least this precedence.
fn parse_operators(parser: &mut Parser<'_>, least: u8) -> Result<Expression> {
    parser.nested(|parser| parser.apart(|parser| parse_chain(parser, least)))
}

fn parse_chain(parser: &mut Parser<'_>, least: u8) -> Result<Expression> {
    let mut left = parse_unary(parser)?;
    loop {
        if *parser.peek() == Token::Sign(Sign::Question) && least <= power::TERNARY {
            left = parse_ternary(parser, left)?;
        } else if let Some(quantifier) = parse_quantifier(parser, least)? {
            left = parse_quantified(parser, left, quantifier)?;
        } else if let Some((operator, tightness, tokens)) = operator_at(parser, 0) {
            if tightness < least {
                return Ok(left);
            }
            let right = parse_operand(parser, tightness, tokens)?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        } else {
            return Ok(left);
        }
    }
}

/// Parses the right operand of an operator that has `tokens` tokens.
fn parse_operand(parser: &mut Parser<'_>, tightness: u8, tokens: usize) -> Result<Expression> {
    (0..tokens).for_each(|_| drop(parser.next()));
    let right = parse_operators(parser, tightness + 1)?;
    parser.raise()?;
    Ok(right)
}

fn parse_ternary(parser: &mut Parser<'_>, condition: Expression) -> Result<Expression> {
    parser.next();
    let middle = if parser.take_sign(Sign::Colon) {
        None
    } else {
        let middle = parser.within(|parser| parse_operators(parser, power::TERNARY))?;
        parser.expect_sign(Sign::Colon)?;
        Some(middle)
    };
    let otherwise = parse_operators(parser, power::TERNARY)?;
    parser.raise()?;
    Ok(Expression::Ternary(Box::new((condition, middle, otherwise))))
}

/// Parses a quantifier in front of a comparison; `None` if there is none here.
fn parse_quantifier(parser: &mut Parser<'_>, least: u8) -> Result<Option<Quantifier>> {
    if least > power::QUANTIFIER {
        return Ok(None);
    }
    let quantifier = match parser.peek() {
        Token::Keyword(Keyword::All) => Quantifier::All,
        Token::Keyword(Keyword::Any) => Quantifier::Any,
        Token::Keyword(Keyword::None) => Quantifier::None,
        _ if parser.is_word_at(0, "AT") && parser.is_word_at(1, "LEAST") => {
            parser.next();
            parser.next();
            return parse_at_least(parser).map(Some);
        }
        _ => return Ok(None),
    };
    // Otherwise the word is something else, such as the direction of a traversal.
    let compares = operator_at(parser, 1).is_some_and(|(operator, ..)| operator.compares());
    if compares {
        parser.next();
    }
    Ok(compares.then_some(quantifier))
}

fn parse_quantified(
    parser: &mut Parser<'_>,
    left: Expression,
    quantifier: Quantifier,
) -> Result<Expression> {
    let operator = operator_at(parser, 0).filter(|(operator, ..)| operator.compares());
    let Some((operator, tightness, tokens)) = operator else {
        return Err(parser.unexpected("a comparison"));
    };
    let right = parse_operand(parser, tightness, tokens)?;
    Ok(Expression::Quantified { quantifier, operator, operands: Box::new((left, right)) })
}

/// The binary operator that begins `distance` tokens after the next one, with its precedence and
/// its number of tokens.
fn operator_at(parser: &Parser<'_>, distance: usize) -> Option<(BinaryOperator, u8, usize)> {
    let (operator, tightness) = match parser.peek_at(distance) {
        Token::Sign(sign) => sign_operator(*sign)?,
        Token::Keyword(Keyword::Or) => (BinaryOperator::Or, power::OR),
        Token::Keyword(Keyword::And) => (BinaryOperator::And, power::AND),
        Token::Keyword(Keyword::Like) => (BinaryOperator::Like, power::EQUALITY),
        Token::Keyword(Keyword::In) if !parser.is_in_excluded() => (BinaryOperator::In, power::IN),
        Token::Keyword(Keyword::Not) => match parser.peek_at(distance + 1) {
            Token::Keyword(Keyword::In) => return Some((BinaryOperator::NotIn, power::IN, 2)),
            Token::Keyword(Keyword::Like) => {
                return Some((BinaryOperator::NotLike, power::EQUALITY, 2));
            }
            Token::Sign(Sign::Regex) => {
                return Some((BinaryOperator::NotRegex, power::EQUALITY, 2));
            }
            Token::Sign(Sign::NotRegex) => {
                return Some((BinaryOperator::Regex, power::EQUALITY, 2));
            }
            _ => return None,
        },
        _ => return None,
    };
    Some((operator, tightness, 1))
}

fn parse_unary(parser: &mut Parser<'_>) -> Result<Expression> {
    let operator = match parser.peek() {
        Token::Sign(Sign::Not) | Token::Keyword(Keyword::Not) => UnaryOperator::Not,
        Token::Sign(Sign::Plus) => UnaryOperator::Plus,
        Token::Sign(Sign::Minus) => UnaryOperator::Minus,
        _ => return parse_value(parser),
    };
    parser.next();
    let operand = parser.nested(parse_unary)?;
    parser.raise()?;
    Ok(Expression::Unary(operator, Box::new(operand)))
}

fn sign_operator(sign: Sign) -> Option<(BinaryOperator, u8)> {
    Some(match sign {
        Sign::Or => (BinaryOperator::Or, power::OR),
        Sign::And => (BinaryOperator::And, power::AND),
        Sign::Equal => (BinaryOperator::Equal, power::EQUALITY),
        Sign::NotEqual => (BinaryOperator::NotEqual, power::EQUALITY),
        Sign::Regex => (BinaryOperator::Regex, power::EQUALITY),
        Sign::NotRegex => (BinaryOperator::NotRegex, power::EQUALITY),
        Sign::Less => (BinaryOperator::Less, power::COMPARISON),
        Sign::LessEqual => (BinaryOperator::LessEqual, power::COMPARISON),
        Sign::Greater => (BinaryOperator::Greater, power::COMPARISON),
        Sign::GreaterEqual => (BinaryOperator::GreaterEqual, power::COMPARISON),
        Sign::Range => (BinaryOperator::Range, power::RANGE),
        Sign::Plus => (BinaryOperator::Plus, power::SUM),
        Sign::Minus => (BinaryOperator::Minus, power::SUM),
        Sign::Times => (BinaryOperator::Times, power::PRODUCT),
        Sign::Divide => (BinaryOperator::Divide, power::PRODUCT),
        Sign::Modulo => (BinaryOperator::Modulo, power::PRODUCT),
        _ => return None,
    })
}

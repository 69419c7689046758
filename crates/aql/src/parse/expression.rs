//! Operators, by their precedence.

use super::ast::{Binary, Expression, Quantifier, Unary};
use super::token::{Keyword, Sign, Token};
use super::{Parser, QueryError};

/// The precedence of operators: the greater the tighter.
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

impl Parser<'_> {
    /// Any expression.
    pub(super) fn expression(&mut self) -> Result<Expression, QueryError> {
        self.operators(0)
    }

    /// An expression that ends before `IN`, which names a collection there.
    pub(super) fn expression_before_in(&mut self) -> Result<Expression, QueryError> {
        let before = std::mem::replace(&mut self.is_in_excluded, true);
        let expression = self.operators(0);
        self.is_in_excluded = before;
        expression
    }

    /// Reads something within brackets, where `IN` is an operator again.
    pub(super) fn within<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        let before = std::mem::replace(&mut self.is_in_excluded, false);
        let result = read(self);
        self.is_in_excluded = before;
        result
    }

    /// An expression of operators that bind at least this tightly.
    fn operators(&mut self, least: u8) -> Result<Expression, QueryError> {
        self.enter()?;
        let mut left = self.unary()?;
        let mut height = self.height;
        loop {
            if *self.peek() == Token::Sign(Sign::Question) && least <= power::TERNARY {
                left = self.ternary(left, height)?;
            } else if let Some(quantifier) = self.quantifier(least)? {
                left = self.quantified(left, quantifier, height)?;
            } else if let Some((operator, tightness, tokens)) = self.operator() {
                if tightness < least {
                    break;
                }
                (0..tokens).for_each(|_| drop(self.next()));
                let right = self.operators(tightness + 1)?;
                self.raise(height.max(self.height))?;
                left = Expression::Binary(operator, Box::new(left), Box::new(right));
            } else {
                break;
            }
            height = self.height;
        }
        self.leave();
        Ok(left)
    }

    fn ternary(&mut self, condition: Expression, height: usize) -> Result<Expression, QueryError> {
        self.next();
        let mut highest = height;
        let middle = if self.take_sign(Sign::Colon) {
            None
        } else {
            let middle = self.within(|parser| parser.operators(power::TERNARY))?;
            highest = highest.max(self.height);
            self.expect_sign(Sign::Colon)?;
            Some(middle)
        };
        let otherwise = self.operators(power::TERNARY)?;
        self.raise(highest.max(self.height))?;
        Ok(Expression::Ternary(Box::new((condition, middle, otherwise))))
    }

    /// The quantifier that stands here in front of a comparison.
    fn quantifier(&mut self, least: u8) -> Result<Option<Quantifier>, QueryError> {
        if least > power::QUANTIFIER {
            return Ok(None);
        }
        let quantifier = match self.peek() {
            Token::Keyword(Keyword::All) => Quantifier::All,
            Token::Keyword(Keyword::Any) => Quantifier::Any,
            Token::Keyword(Keyword::None) => Quantifier::None,
            _ if self.is_word("AT") && self.is_second_word("LEAST") => {
                self.next();
                self.next();
                return self.at_least().map(Some);
            }
            _ => return Ok(None),
        };
        let place = self.place;
        self.next();
        if self.operator().is_some_and(|(operator, ..)| is_comparison(operator)) {
            return Ok(Some(quantifier));
        }
        // A direction of a traversal, say.
        self.place = place;
        Ok(None)
    }

    /// The count behind `AT LEAST`.
    pub(super) fn at_least(&mut self) -> Result<Quantifier, QueryError> {
        self.expect_sign(Sign::Open)?;
        let count = self.within(Self::expression)?;
        self.expect_sign(Sign::Close)?;
        Ok(Quantifier::AtLeast(Box::new(count)))
    }

    fn is_second_word(&self, word: &str) -> bool {
        matches!(self.peek_second(), Token::Name(name, false) if name.eq_ignore_ascii_case(word))
    }

    fn quantified(
        &mut self,
        left: Expression,
        quantifier: Quantifier,
        height: usize,
    ) -> Result<Expression, QueryError> {
        let Some((operator, tightness, tokens)) =
            self.operator().filter(|(operator, ..)| is_comparison(*operator))
        else {
            return Err(self.unexpected("a comparison"));
        };
        (0..tokens).for_each(|_| drop(self.next()));
        let right = self.operators(tightness + 1)?;
        self.raise(height.max(self.height))?;
        Ok(Expression::Quantified { quantifier, operator, operands: Box::new((left, right)) })
    }

    /// The operator that stands here between two operands, how tightly it binds, and of how many
    /// tokens it is.
    fn operator(&self) -> Option<(Binary, u8, usize)> {
        let (operator, tightness) = match self.peek() {
            Token::Sign(sign) => sign_operator(*sign)?,
            Token::Keyword(Keyword::Or) => (Binary::Or, power::OR),
            Token::Keyword(Keyword::And) => (Binary::And, power::AND),
            Token::Keyword(Keyword::Like) => (Binary::Like, power::EQUALITY),
            Token::Keyword(Keyword::In) if !self.is_in_excluded => (Binary::In, power::IN),
            Token::Keyword(Keyword::Not) => match self.peek_second() {
                Token::Keyword(Keyword::In) => return Some((Binary::NotIn, power::IN, 2)),
                Token::Keyword(Keyword::Like) => {
                    return Some((Binary::NotLike, power::EQUALITY, 2));
                }
                _ => return None,
            },
            _ => return None,
        };
        Some((operator, tightness, 1))
    }

    fn unary(&mut self) -> Result<Expression, QueryError> {
        let operator = match self.peek() {
            Token::Sign(Sign::Not) | Token::Keyword(Keyword::Not) => Unary::Not,
            Token::Sign(Sign::Plus) => Unary::Plus,
            Token::Sign(Sign::Minus) => Unary::Minus,
            _ => return self.postfix(),
        };
        self.enter()?;
        self.next();
        let operand = self.unary()?;
        self.raise(self.height)?;
        self.leave();
        Ok(Expression::Unary(operator, Box::new(operand)))
    }
}

fn sign_operator(sign: Sign) -> Option<(Binary, u8)> {
    Some(match sign {
        Sign::Or => (Binary::Or, power::OR),
        Sign::And => (Binary::And, power::AND),
        Sign::Equal => (Binary::Equal, power::EQUALITY),
        Sign::NotEqual => (Binary::NotEqual, power::EQUALITY),
        Sign::Regex => (Binary::Regex, power::EQUALITY),
        Sign::NotRegex => (Binary::NotRegex, power::EQUALITY),
        Sign::Less => (Binary::Less, power::COMPARISON),
        Sign::LessEqual => (Binary::LessEqual, power::COMPARISON),
        Sign::Greater => (Binary::Greater, power::COMPARISON),
        Sign::GreaterEqual => (Binary::GreaterEqual, power::COMPARISON),
        Sign::Range => (Binary::Range, power::RANGE),
        Sign::Plus => (Binary::Plus, power::SUM),
        Sign::Minus => (Binary::Minus, power::SUM),
        Sign::Times => (Binary::Times, power::PRODUCT),
        Sign::Divide => (Binary::Divide, power::PRODUCT),
        Sign::Modulo => (Binary::Modulo, power::PRODUCT),
        _ => return None,
    })
}

fn is_comparison(operator: Binary) -> bool {
    matches!(
        operator,
        Binary::Equal
            | Binary::NotEqual
            | Binary::Less
            | Binary::LessEqual
            | Binary::Greater
            | Binary::GreaterEqual
            | Binary::In
            | Binary::NotIn
    )
}

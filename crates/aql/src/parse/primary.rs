//! Literals, names, calls, and what follows a value: attributes, elements, expansions.

use std::sync::Arc;

use pellucid_value::{Number, Value};

use super::ast::{CURRENT, Expansion, Expression, Member, MemberName, Quantifier, Question};
use super::token::{Keyword, Sign, Token};
use super::{Parser, QueryError};

impl Parser<'_> {
    /// A value and all that is taken from it.
    pub(super) fn postfix(&mut self) -> Result<Expression, QueryError> {
        let mut value = self.primary()?;
        // Once there were brackets with a star, what follows is taken from each element.
        let mut is_expanding = false;
        loop {
            if self.take_sign(Sign::Dot) {
                self.raise(self.height)?;
                value = self.attribute(value, is_expanding)?;
            } else if *self.peek() == Token::Sign(Sign::OpenBracket) {
                let height = self.height;
                self.next();
                if *self.peek() == Token::Sign(Sign::Times) {
                    let expansion = self.within(Self::expansion)?;
                    value = within_each(value, is_expanding, |list| {
                        Expression::Expansion(Box::new(Expansion { list, ..expansion }))
                    });
                    is_expanding = true;
                } else if *self.peek() == Token::Sign(Sign::Question) {
                    let question = self.within(Self::question)?;
                    value = within_each(value, is_expanding, |list| {
                        Expression::Question(Box::new(Question { list, ..question }))
                    });
                } else {
                    let place = self.within(Self::expression)?;
                    value = within_each(value, is_expanding, |list| {
                        Expression::Element(Box::new(list), Box::new(place))
                    });
                }
                self.expect_sign(Sign::CloseBracket)?;
                self.raise(height.max(self.height))?;
            } else {
                return Ok(value);
            }
        }
    }

    fn attribute(
        &mut self,
        value: Expression,
        is_expanding: bool,
    ) -> Result<Expression, QueryError> {
        let at = self.at();
        let name: Arc<str> = match self.peek().clone() {
            Token::Name(name, _) => name.into(),
            // A keyword is as good a name here.
            Token::Keyword(_) => self.word_at(at).into(),
            Token::Bind(name) => {
                self.next();
                let name = self.bind(&name);
                return Ok(within_each(value, is_expanding, |value| {
                    Expression::AttributeBind(Box::new(value), name)
                }));
            }
            _ => return Err(self.unexpected("an attribute name")),
        };
        self.next();
        Ok(within_each(value, is_expanding, |value| Expression::Attribute(Box::new(value), name)))
    }

    fn word_at(&self, at: usize) -> &str {
        let rest = &self.text[at..];
        let end = rest.find(|next: char| !next.is_ascii_alphanumeric() && next != '_');
        &rest[..end.unwrap_or(rest.len())]
    }

    /// The text between `[` and `]`, from the stars on.
    fn expansion(&mut self) -> Result<Expansion, QueryError> {
        let mut expansion = Expansion {
            list: Expression::Constant(Value::Null),
            levels: 0,
            filter: None,
            limit: None,
            projection: None,
        };
        let mut highest = 0;
        while self.take_sign(Sign::Times) {
            expansion.levels += 1;
        }
        if self.take_keyword(Keyword::Filter) {
            expansion.filter = Some(self.expression()?);
            highest = self.height;
        }
        if self.take_keyword(Keyword::Limit) {
            let first = self.expression()?;
            let limit = if self.take_sign(Sign::Comma) {
                (first, self.expression()?)
            } else {
                (Expression::Constant(Value::Int(0)), first)
            };
            highest = highest.max(self.height);
            expansion.limit = Some(limit);
        }
        if self.take_keyword(Keyword::Return) {
            expansion.projection = Some(self.expression()?);
            highest = highest.max(self.height);
        }
        self.raise(highest)?;
        Ok(expansion)
    }

    /// The text between `[` and `]`, from the question mark on.
    fn question(&mut self) -> Result<Question, QueryError> {
        self.next();
        let mut question = Question {
            list: Expression::Constant(Value::Null),
            quantifier: None,
            count: None,
            filter: None,
        };
        self.height = 0;
        match self.peek() {
            Token::Keyword(Keyword::All) => question.quantifier = Some(Quantifier::All),
            Token::Keyword(Keyword::Any) => question.quantifier = Some(Quantifier::Any),
            Token::Keyword(Keyword::None) => question.quantifier = Some(Quantifier::None),
            _ => {}
        }
        if question.quantifier.is_some() {
            self.next();
        } else if self.is_word("AT") {
            self.next();
            if !self.take_word("LEAST") {
                return Err(self.unexpected("LEAST"));
            }
            question.quantifier = Some(self.at_least()?);
        } else if !matches!(
            self.peek(),
            Token::Keyword(Keyword::Filter) | Token::Sign(Sign::CloseBracket)
        ) {
            question.count = Some(self.expression()?);
        }
        let highest = self.height;
        if self.take_keyword(Keyword::Filter) {
            question.filter = Some(self.expression()?);
        }
        self.raise(highest.max(self.height))?;
        Ok(question)
    }

    fn primary(&mut self) -> Result<Expression, QueryError> {
        self.height = 1;
        let constant = |value: Value| Ok(Expression::Constant(value));
        match self.peek().clone() {
            Token::Keyword(Keyword::Null) => self.then(constant(Value::Null)),
            Token::Keyword(Keyword::True) => self.then(constant(Value::Bool(true))),
            Token::Keyword(Keyword::False) => self.then(constant(Value::Bool(false))),
            Token::Integer(value) => self.then(constant(Value::number(Number::Uint(value)))),
            Token::Double(value) => self.then(constant(Value::from(value))),
            Token::String(text) => self.then(constant(Value::from(text))),
            Token::Bind(name) => {
                self.next();
                Ok(Expression::Bind(self.bind(&name)))
            }
            Token::CollectionBind(name) => {
                self.next();
                Ok(Expression::CollectionBind(self.bind(&name)))
            }
            Token::Name(name, _) => {
                self.next();
                self.named(name)
            }
            Token::Keyword(Keyword::Like) if *self.peek_second() == Token::Sign(Sign::Open) => {
                self.next();
                self.call("LIKE".to_owned())
            }
            Token::Sign(Sign::Open) => self.within(Self::parenthesis),
            Token::Sign(Sign::OpenBracket) => self.within(Self::array),
            Token::Sign(Sign::OpenBrace) => self.within(Self::object),
            _ => Err(self.unexpected("")),
        }
    }

    fn then(&mut self, value: Result<Expression, QueryError>) -> Result<Expression, QueryError> {
        self.next();
        value
    }

    /// A variable, a collection, or the function that is called.
    fn named(&mut self, first: String) -> Result<Expression, QueryError> {
        let mut name = first;
        while self.take_sign(Sign::Scope) {
            name.push_str("::");
            name.push_str(&self.expect_name("a function name")?);
        }
        if *self.peek() == Token::Sign(Sign::Open) {
            return self.call(name);
        }
        if name.contains("::") {
            return Err(self.unexpected("("));
        }
        Ok(Expression::Name(name))
    }

    fn call(&mut self, name: String) -> Result<Expression, QueryError> {
        self.next();
        let arguments = self.within(|parser| {
            if parser.is_query_begin() {
                let query = parser.subquery()?;
                parser.expect_sign(Sign::Close)?;
                return Ok(vec![query]);
            }
            parser.list(Sign::Close)
        })?;
        Ok(Expression::Call { name, arguments })
    }

    /// Expressions with commas between them, and perhaps one at the end.
    fn list(&mut self, end: Sign) -> Result<Vec<Expression>, QueryError> {
        let (mut elements, mut highest) = (Vec::new(), 0);
        while !self.take_sign(end) {
            elements.push(self.expression()?);
            highest = highest.max(self.height);
            if !self.take_sign(Sign::Comma) {
                self.expect_sign(end)?;
                break;
            }
        }
        self.raise(highest)?;
        Ok(elements)
    }

    fn parenthesis(&mut self) -> Result<Expression, QueryError> {
        self.next();
        let value = if self.is_query_begin() { self.subquery()? } else { self.expression()? };
        self.expect_sign(Sign::Close)?;
        Ok(value)
    }

    /// True if a statement begins here, which makes a parenthesis a subquery.
    fn is_query_begin(&self) -> bool {
        let Token::Keyword(keyword) = self.peek() else { return false };
        use Keyword::{Collect, Filter, For, Insert, Let, Limit, Remove, Replace, Return};
        matches!(keyword, For | Return | Let | Filter | Collect | Limit | Insert | Remove | Replace)
            || matches!(
                keyword,
                Keyword::Sort | Keyword::Update | Keyword::Upsert | Keyword::Window
            )
    }

    fn subquery(&mut self) -> Result<Expression, QueryError> {
        self.enter()?;
        let query = self.query()?;
        self.raise(self.height)?;
        self.leave();
        Ok(Expression::Subquery(Box::new(query)))
    }

    fn array(&mut self) -> Result<Expression, QueryError> {
        self.next();
        self.list(Sign::CloseBracket).map(Expression::Array)
    }

    fn object(&mut self) -> Result<Expression, QueryError> {
        self.next();
        let (mut members, mut highest) = (Vec::new(), 0);
        while !self.take_sign(Sign::CloseBrace) {
            members.push(self.member()?);
            highest = highest.max(self.height);
            if !self.take_sign(Sign::Comma) {
                self.expect_sign(Sign::CloseBrace)?;
                break;
            }
        }
        self.raise(highest)?;
        Ok(Expression::Object(members))
    }

    fn member(&mut self) -> Result<Member, QueryError> {
        let at = self.at();
        let name = match self.peek().clone() {
            Token::Name(name, _) => {
                self.next();
                if *self.peek() != Token::Sign(Sign::Colon) {
                    self.height = 1;
                    let value = Expression::Name(name.clone());
                    return Ok(Member { name: MemberName::Fixed(name), value });
                }
                MemberName::Fixed(name)
            }
            Token::String(name) => {
                self.next();
                MemberName::Fixed(name)
            }
            Token::Keyword(_) => {
                let name = self.word_at(at).to_owned();
                self.next();
                MemberName::Fixed(name)
            }
            Token::Bind(name) => {
                self.next();
                MemberName::Computed(Expression::Bind(self.bind(&name)))
            }
            Token::Sign(Sign::OpenBracket) => {
                self.next();
                let name = self.expression()?;
                self.expect_sign(Sign::CloseBracket)?;
                MemberName::Computed(name)
            }
            _ => return Err(self.unexpected("an attribute name or }")),
        };
        let height = if matches!(name, MemberName::Computed(_)) { self.height } else { 0 };
        self.expect_sign(Sign::Colon)?;
        let value = self.expression()?;
        self.height = self.height.max(height);
        Ok(Member { name, value })
    }
}

/// Takes something from a value, or from each element if the value is an expansion that was begun.
fn within_each(
    value: Expression,
    is_expanding: bool,
    take: impl FnOnce(Expression) -> Expression,
) -> Expression {
    match value {
        Expression::Expansion(mut expansion) if is_expanding => {
            let current = || Expression::Name(CURRENT.to_owned());
            let before = expansion.projection.take().unwrap_or_else(current);
            expansion.projection = Some(within_each(before, true, take));
            Expression::Expansion(expansion)
        }
        value => take(value),
    }
}

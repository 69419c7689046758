//! The statements that read.

use pellucid_value::Value;

use super::ast::{Collect, Direction, Expression, Query, SortKey, Statement};
use super::token::{Keyword, Sign, Token};
use super::{Parser, QueryError};

/// A traversal gives a vertex, and also the edge to it and the path if they have names.
const TRAVERSAL_OTHERS_MAX: usize = 2;

impl Parser<'_> {
    /// A query or subquery, up to its end.
    pub(super) fn query(&mut self) -> Result<Query, QueryError> {
        let mut query = Query::default();
        let mut highest = 0;
        if self.take_keyword(Keyword::With) {
            self.named_collections()?;
        }
        while let Token::Keyword(keyword) = *self.peek() {
            let begin = self.place;
            match keyword {
                Keyword::For => query.statements.push(self.for_statement()?),
                Keyword::Filter => {
                    self.next();
                    query.statements.push(Statement::Filter(self.expression()?));
                }
                Keyword::Let => self.let_statements(&mut query, &mut highest)?,
                Keyword::Sort => query.statements.push(self.sort_statement()?),
                Keyword::Limit => query.statements.push(self.limit_statement()?),
                Keyword::Collect => query.statements.push(self.collect_statement()?),
                Keyword::Return => {
                    self.next();
                    let is_distinct = self.take_keyword(Keyword::Distinct);
                    let value = self.expression()?;
                    query.statements.push(Statement::Return { value, is_distinct });
                }
                Keyword::Window => self.window_statement(&mut highest)?,
                _ => match self.write_statement(keyword)? {
                    Some(statement) => query.statements.push(statement),
                    None => break,
                },
            }
            debug_assert!(self.place > begin, "a statement has tokens");
            highest = highest.max(self.height);
            if matches!(query.statements.last(), Some(Statement::Return { .. })) {
                self.height = highest;
                return Ok(query);
            }
        }
        self.height = highest;
        let writes =
            |statement: &Statement| matches!(statement, Statement::Write(_) | Statement::Upsert(_));
        // Only what writes may end without a result.
        if query.statements.last().is_some_and(writes) {
            return Ok(query);
        }
        Err(self.unexpected(""))
    }

    /// The collections of `WITH` at the front, which matter to clusters only.
    fn named_collections(&mut self) -> Result<(), QueryError> {
        loop {
            match self.peek().clone() {
                Token::CollectionBind(name) => {
                    self.next();
                    self.bind(&name);
                }
                _ => drop(self.expect_name("a collection name")?),
            }
            if !self.take_sign(Sign::Comma) && !matches!(self.peek(), Token::Name(..)) {
                return Ok(());
            }
        }
    }

    fn for_statement(&mut self) -> Result<Statement, QueryError> {
        self.next();
        let variable = self.variable()?;
        let mut others = 0;
        while others < TRAVERSAL_OTHERS_MAX && self.take_sign(Sign::Comma) {
            others += 1;
            self.expect_name("a variable name")?;
        }
        self.expect_keyword(Keyword::In)?;
        let list = if self.is_direction() {
            Expression::Constant(Value::Null)
        } else {
            self.expression()?
        };
        let height = self.height;
        if self.is_direction() {
            self.traversal()?;
        } else if others > 0 {
            return Err(self.unexpected("OUTBOUND, INBOUND or ANY"));
        } else {
            self.search()?;
        }
        let options = self.options()?;
        self.height = height.max(self.height);
        Ok(Statement::For { variable, list, options })
    }

    /// `OPTIONS { … }`, if it stands here.
    pub(super) fn options(&mut self) -> Result<Option<Expression>, QueryError> {
        if !self.take_word("OPTIONS") {
            return Ok(None);
        }
        if *self.peek() != Token::Sign(Sign::OpenBrace) && !matches!(self.peek(), Token::Bind(_)) {
            return Err(self.unexpected("{"));
        }
        self.expression().map(Some)
    }

    fn let_statements(&mut self, query: &mut Query, highest: &mut usize) -> Result<(), QueryError> {
        self.next();
        loop {
            let variable = self.variable()?;
            self.expect_sign(Sign::Assign)?;
            let value = self.expression()?;
            *highest = self.height.max(*highest);
            query.statements.push(Statement::Let { variable, value });
            if !self.take_sign(Sign::Comma) {
                return Ok(());
            }
        }
    }

    fn sort_statement(&mut self) -> Result<Statement, QueryError> {
        self.next();
        let (mut keys, mut highest) = (Vec::new(), 0);
        loop {
            let value = self.expression()?;
            highest = highest.max(self.height);
            let direction = match self.peek() {
                Token::Keyword(Keyword::Asc) => {
                    self.next();
                    Direction::Ascending
                }
                Token::Keyword(Keyword::Desc) => {
                    self.next();
                    Direction::Descending
                }
                Token::Bind(_) | Token::String(_) => Direction::Computed(self.expression()?),
                _ => Direction::Ascending,
            };
            keys.push(SortKey { value, direction });
            if !self.take_sign(Sign::Comma) {
                self.height = highest;
                return Ok(Statement::Sort(keys));
            }
        }
    }

    fn limit_statement(&mut self) -> Result<Statement, QueryError> {
        self.next();
        let first = self.expression()?;
        let height = self.height;
        if !self.take_sign(Sign::Comma) {
            return Ok(Statement::Limit { offset: None, count: first });
        }
        let count = self.expression()?;
        self.height = height.max(self.height);
        Ok(Statement::Limit { offset: Some(first), count })
    }

    fn collect_statement(&mut self) -> Result<Statement, QueryError> {
        self.next();
        let mut collect = Collect::default();
        let mut highest = 0;
        if matches!(self.peek(), Token::Name(..)) {
            collect.groups = self.assignments(&mut highest)?;
        }
        if self.take_keyword(Keyword::Aggregate) {
            collect.aggregates = self.assignments(&mut highest)?;
        }
        if self.take_keyword(Keyword::Into) {
            let name = self.expect_name("a variable name")?;
            let mut value = None;
            if self.take_sign(Sign::Assign) {
                value = Some(self.expression()?);
                highest = highest.max(self.height);
            }
            collect.into = Some((name, value));
            if self.take_word("KEEP") {
                let mut names = vec![self.expect_name("a variable name")?];
                while self.take_sign(Sign::Comma) {
                    names.push(self.expect_name("a variable name")?);
                }
                collect.keep = Some(names);
            }
        } else if self.take_keyword(Keyword::With) {
            if !self.take_word("COUNT") {
                return Err(self.unexpected("COUNT"));
            }
            self.expect_keyword(Keyword::Into)?;
            collect.count = Some(self.expect_name("a variable name")?);
        }
        if collect.groups.is_empty() && collect.aggregates.is_empty() && collect.count.is_none() {
            return Err(self.unexpected("a variable name, AGGREGATE or WITH COUNT"));
        }
        collect.options = self.options()?;
        self.height = highest.max(self.height);
        Ok(Statement::Collect(collect))
    }

    /// `name = expression`, with commas between.
    pub(super) fn assignments(
        &mut self,
        highest: &mut usize,
    ) -> Result<Vec<(String, Expression)>, QueryError> {
        let mut assignments = Vec::new();
        loop {
            let name = self.expect_name("a variable name")?;
            self.expect_sign(Sign::Assign)?;
            let value = self.expression()?;
            *highest = self.height.max(*highest);
            assignments.push((name, value));
            if !self.take_sign(Sign::Comma) {
                return Ok(assignments);
            }
        }
    }
}

//! The statements that read.

use super::ast::{Collect, Direction, Query, SortKey, Statement};
use super::token::{Keyword, Sign, Token};
use super::{Parser, QueryError};

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
                Keyword::Window => return Err(QueryError::unsupported("WINDOW")),
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

    /// What `WITH` names at the front matters to clusters only.
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
        if matches!(self.peek(), Token::Sign(Sign::OpenBracket | Sign::OpenBrace)) {
            return Err(QueryError::unsupported("destructuring"));
        }
        let variable = self.expect_name("a variable name")?;
        let mut is_traversal = false;
        while self.take_sign(Sign::Comma) {
            is_traversal = true;
            self.expect_name("a variable name")?;
        }
        self.expect_keyword(Keyword::In)?;
        self.refuse_traversal()?;
        let list = self.expression()?;
        self.refuse_traversal()?;
        if is_traversal {
            return Err(self.unexpected("OUTBOUND, INBOUND or ANY"));
        }
        if self.is_word("SEARCH") {
            return Err(QueryError::unsupported("SEARCH"));
        }
        let height = self.height;
        let options = self.options()?;
        self.height = height.max(self.height);
        Ok(Statement::For { variable, list, options })
    }

    fn refuse_traversal(&self) -> Result<(), QueryError> {
        let what = match self.peek() {
            Token::Keyword(Keyword::Outbound | Keyword::Inbound | Keyword::Any) => {
                "a graph traversal"
            }
            Token::Keyword(Keyword::ShortestPath) => "SHORTEST_PATH",
            Token::Keyword(Keyword::AllShortestPaths) => "ALL_SHORTEST_PATHS",
            Token::Keyword(Keyword::KPaths) => "K_PATHS",
            Token::Keyword(Keyword::KShortestPaths) => "K_SHORTEST_PATHS",
            _ => return Ok(()),
        };
        Err(QueryError::unsupported(what))
    }

    /// `OPTIONS { … }`, if it stands here.
    pub(super) fn options(&mut self) -> Result<Option<super::ast::Expression>, QueryError> {
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
            if matches!(self.peek(), Token::Sign(Sign::OpenBracket | Sign::OpenBrace)) {
                return Err(QueryError::unsupported("destructuring"));
            }
            let variable = self.expect_name("a variable name")?;
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
    fn assignments(
        &mut self,
        highest: &mut usize,
    ) -> Result<Vec<(String, super::ast::Expression)>, QueryError> {
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

//! From expressions as they are written to those that are ready.

use std::sync::Arc;

use pellucid_value::{Ref, Value};

use super::build::Builder;
use super::{Access, Pipeline};
use crate::evaluate::{Code, Expansion, Name, Quantity, Question};
use crate::functions;
use crate::parse::ast::{self, CURRENT, Expression, MemberName};
use crate::parse::{DEPTH_MAX, too_deep};
use crate::{QueryError, number};

impl Builder<'_> {
    /// Makes an expression ready.
    pub(super) fn expression(&mut self, expression: &Expression) -> Result<Code, QueryError> {
        self.run.tick()?;
        let before_bytes = self.run.memory.passing_bytes();
        self.run.memory.take(size_of::<Code>())?;
        let code = match expression {
            Expression::Constant(value) => Code::Constant(value.clone()),
            Expression::Bind(name) => Code::Constant(self.fix(name)),
            Expression::CollectionBind(name) => {
                let name = self.bound_collection(name)?;
                return Err(self.collection_as_operand(&name));
            }
            Expression::Name(name) => self.name(name)?,
            Expression::Attribute(value, name) => {
                let value = self.expression(value)?;
                attribute(value, Arc::clone(name))
            }
            Expression::AttributeBind(value, name) => {
                let value = self.expression(value)?;
                self.bound_attribute(value, name)?
            }
            Expression::Element(value, place) => {
                let value = self.expression(value)?;
                let place = self.expression(place)?;
                match place.constant().and_then(Value::as_str) {
                    // `a["b"]` is `a.b`, but for arrays and strings of digits.
                    Some(name) if name.parse::<i64>().is_err() => attribute(value, name.into()),
                    _ => Code::Element(Box::new(value), Box::new(place)),
                }
            }
            Expression::Expansion(expansion) => self.expansion(expansion)?,
            Expression::Question(question) => self.question(question)?,
            Expression::Call { name, arguments } => self.call(name, arguments)?,
            Expression::Unary(operator, operand) => {
                Code::Unary(*operator, Box::new(self.expression(operand)?))
            }
            Expression::Binary(operator, left, right) => {
                let operands = (self.operand(*operator, left)?, self.operand(*operator, right)?);
                Code::Binary(*operator, Box::new(operands))
            }
            Expression::Quantified { quantifier, operator, operands } => {
                let quantity = Box::new(self.quantity(quantifier)?);
                let operands = (self.expression(&operands.0)?, self.expression(&operands.1)?);
                Code::Quantified { quantity, operator: *operator, operands: Box::new(operands) }
            }
            Expression::Ternary(parts) => {
                let condition = self.expression(&parts.0)?;
                let middle = parts.1.as_ref().map(|part| self.expression(part)).transpose()?;
                Code::Ternary(Box::new((condition, middle, self.expression(&parts.2)?)))
            }
            Expression::Array(elements) => Code::Array(self.all(elements)?),
            Expression::Object(members) => self.object(members)?,
            Expression::Subquery(query) => self.subquery(query)?,
        };
        self.fold(code, before_bytes)
    }

    fn all(&mut self, expressions: &[Expression]) -> Result<Vec<Code>, QueryError> {
        expressions.iter().map(|expression| self.expression(expression)).collect()
    }

    fn name(&self, name: &str) -> Result<Code, QueryError> {
        if let Some(binding) = self.find(name) {
            return Ok(binding.code.clone());
        }
        if name == CURRENT && self.locals > 0 {
            return Ok(Code::Local(self.locals - 1));
        }
        self.collection(name)?;
        Err(self.collection_as_operand(name))
    }

    fn collection_as_operand(&self, name: &str) -> QueryError {
        let message = format!("collection '{name}' used as expression operand");
        QueryError::new(number::COLLECTION_USED_IN_EXPRESSION, message)
    }

    /// `value.@name`: a name, or an array of names that follow each other.
    fn bound_attribute(&mut self, value: Code, name: &str) -> Result<Code, QueryError> {
        let bound = self.fix(name);
        let wrong = || {
            let message = format!("bind parameter '{name}' has an invalid value or type");
            QueryError::new(number::BIND_PARAMETER_TYPE, message)
        };
        match bound.view() {
            Ref::String(text) if !text.is_empty() => Ok(attribute(value, text.into())),
            Ref::Array(names) if names.len() > DEPTH_MAX => Err(too_deep()),
            Ref::Array(names) if !names.is_empty() => {
                names.iter().try_fold(value, |value, name| match name {
                    Ref::String(text) => Ok(attribute(value, text.into())),
                    _ => Err(wrong()),
                })
            }
            _ => Err(wrong()),
        }
    }

    fn expansion(&mut self, expansion: &ast::Expansion) -> Result<Code, QueryError> {
        let list = self.expression(&expansion.list)?;
        let limit = match &expansion.limit {
            Some((offset, count)) => Some((self.expression(offset)?, self.expression(count)?)),
            None => None,
        };
        let filter = self.optional_with_current(expansion.filter.as_ref())?;
        let projection = self.optional_with_current(expansion.projection.as_ref())?;
        let levels = expansion.levels;
        Ok(Code::Expansion(Box::new(Expansion { list, levels, filter, limit, projection })))
    }

    fn optional_with_current(
        &mut self,
        part: Option<&Expression>,
    ) -> Result<Option<Code>, QueryError> {
        let Some(part) = part else { return Ok(None) };
        self.locals += 1;
        let code = self.expression(part);
        self.locals -= 1;
        code.map(Some)
    }

    fn question(&mut self, question: &ast::Question) -> Result<Code, QueryError> {
        let list = self.expression(&question.list)?;
        let quantity = match &question.quantifier {
            Some(quantifier) => Some(self.quantity(quantifier)?),
            None => None,
        };
        let count = question.count.as_ref().map(|count| self.expression(count)).transpose()?;
        let filter = self.optional_with_current(question.filter.as_ref())?;
        Ok(Code::Question(Box::new(Question { list, quantity, count, filter })))
    }

    fn quantity(&mut self, quantifier: &ast::Quantifier) -> Result<Quantity, QueryError> {
        Ok(match quantifier {
            ast::Quantifier::All => Quantity::All,
            ast::Quantifier::Any => Quantity::Any,
            ast::Quantifier::None => Quantity::None,
            ast::Quantifier::AtLeast(count) => Quantity::AtLeast(self.expression(count)?),
        })
    }

    fn object(&mut self, members: &[ast::Member]) -> Result<Code, QueryError> {
        let mut codes = Vec::new();
        for member in members {
            let name = match &member.name {
                MemberName::Fixed(name) => Name::Fixed(name.as_str().into()),
                MemberName::Computed(name) => Name::Computed(self.expression(name)?),
            };
            codes.push((name, self.expression(&member.value)?));
        }
        Ok(Code::Object(codes))
    }

    fn subquery(&mut self, query: &ast::Query) -> Result<Code, QueryError> {
        self.serve_once();
        let writes = |statement: &ast::Statement| {
            matches!(statement, ast::Statement::Write(_) | ast::Statement::Upsert(_))
        };
        if query.statements.iter().any(writes) {
            return Err(QueryError::unsupported("a subquery that writes"));
        }
        let nodes = self.query(query)?;
        Ok(Code::Subquery(Arc::new(Pipeline { nodes, width: self.variables.len() })))
    }

    fn call(&mut self, name: &str, arguments: &[Expression]) -> Result<Code, QueryError> {
        self.serve_once();
        let upper = name.to_ascii_uppercase();
        let Some(function) = functions::find(&upper) else {
            let message = format!("usage of unknown function '{upper}()'");
            return Err(QueryError::new(number::FUNCTION_NAME_UNKNOWN, message));
        };
        if !(function.least..=function.most).contains(&arguments.len()) {
            let message = format!(
                "invalid number of arguments for function '{upper}()', expected number of \
                 arguments: minimum: {}, maximum: {}",
                function.least, function.most
            );
            return Err(QueryError::new(number::FUNCTION_ARGUMENT_NUMBER, message));
        }
        let mut codes = Vec::new();
        for argument in arguments {
            codes.push(match self.collection_argument(argument)? {
                Some(collection) => match upper.as_str() {
                    "LENGTH" | "COUNT" if arguments.len() == 1 => {
                        let name = collection.name.into();
                        return Ok(Code::CollectionCount(collection.id, name));
                    }
                    "DOCUMENT" | "COLLECTION_COUNT" => Code::Constant(collection.name.into()),
                    _ => Code::CollectionContents(collection.id, collection.name.into()),
                },
                None => self.expression(argument)?,
            });
        }
        Ok(Code::Call(function, codes))
    }

    /// The collection that an argument names.
    fn collection_argument(
        &mut self,
        argument: &Expression,
    ) -> Result<Option<crate::Collection>, QueryError> {
        let name = match argument {
            Expression::Name(name)
                if self.find(name).is_none() && !(name == CURRENT && self.locals > 0) =>
            {
                name.clone()
            }
            Expression::CollectionBind(name) => self.bound_collection(name)?,
            _ => return Ok(None),
        };
        let collection = self.collection(&name)?;
        self.note(&collection, Access::Read);
        Ok(Some(collection))
    }
}

/// The attribute of a value, as part of a path if it is one.
fn attribute(value: Code, name: Arc<str>) -> Code {
    match value {
        Code::Path(slot, mut names) => {
            names.push(name);
            Code::Path(slot, names)
        }
        value => Code::Attribute(Box::new(value), name),
    }
}

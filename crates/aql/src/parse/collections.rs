//! The names in a query that must be collections, because no variable has them.

use std::collections::BTreeSet;

use super::ast::{
    CURRENT, Direction, Expression, MemberName, Quantifier, Query, Statement, Target, UpsertSearch,
};

/// The pseudo-variables for documents that are written.
const DOCUMENTS: [&str; 2] = ["OLD", "NEW"];

/// The collections that a query names, sorted by name, without bound ones.
pub(super) fn collections_of(query: &Query) -> BTreeSet<String> {
    let mut names = NameCollector { found: BTreeSet::new(), variables: Vec::new() };
    names.query(query);
    names.found
}

struct NameCollector<'a> {
    found: BTreeSet<String>,
    /// The visible names, the innermost last.
    variables: Vec<&'a str>,
}

impl<'a> NameCollector<'a> {
    fn query(&mut self, query: &'a Query) {
        let around = self.variables.len();
        query.statements.iter().for_each(|statement| self.statement(statement));
        self.variables.truncate(around);
    }

    fn statement(&mut self, statement: &'a Statement) {
        match statement {
            Statement::For { variable, list, options } => {
                self.expression(list);
                self.all(options);
                self.variables.push(variable);
            }
            Statement::Let { variable, value } => {
                self.expression(value);
                self.variables.push(variable);
            }
            Statement::Filter(value) | Statement::Return { value, .. } => self.expression(value),
            Statement::Sort(keys) => {
                for key in keys {
                    self.expression(&key.value);
                    if let Direction::Computed(direction) = &key.direction {
                        self.expression(direction);
                    }
                }
            }
            Statement::Limit { offset, count } => {
                self.all(offset);
                self.expression(count);
            }
            Statement::Collect(collect) => {
                let groups = collect.groups.iter().chain(&collect.aggregates);
                groups.clone().for_each(|(_, value)| self.expression(value));
                if let Some((name, value)) = &collect.into {
                    self.all(value);
                    self.variables.push(name);
                }
                self.all(&collect.options);
                self.variables.extend(groups.map(|(name, _)| name.as_str()));
                self.variables.extend(collect.count.as_deref());
            }
            Statement::Write(write) => {
                self.variables.extend(DOCUMENTS);
                self.expression(&write.document);
                self.all(&write.with);
                self.all(&write.options);
                self.target(&write.target);
            }
            Statement::Upsert(upsert) => {
                self.variables.extend(DOCUMENTS);
                let (UpsertSearch::Example(search) | UpsertSearch::Filter(search)) = &upsert.search;
                self.expression(search);
                self.expression(&upsert.insert);
                self.expression(&upsert.update);
                self.all(&upsert.options);
                self.target(&upsert.target);
            }
        }
    }

    fn target(&mut self, target: &'a Target) {
        if let Target::Name(name) = target {
            self.found.insert(name.clone());
        }
    }

    fn all(&mut self, expressions: impl IntoIterator<Item = &'a Expression>) {
        expressions.into_iter().for_each(|expression| self.expression(expression));
    }

    fn expression(&mut self, expression: &'a Expression) {
        match expression {
            Expression::Constant(_) | Expression::Bind(_) | Expression::CollectionBind(_) => {}
            Expression::Name(name) => {
                if name != CURRENT && !self.variables.contains(&name.as_str()) {
                    self.found.insert(name.clone());
                }
            }
            Expression::Attribute(value, _)
            | Expression::AttributeBind(value, _)
            | Expression::Unary(_, value) => self.expression(value),
            Expression::Element(value, place) => self.all([&**value, &**place]),
            Expression::Binary(_, left, right) => self.all([&**left, &**right]),
            Expression::Expansion(expansion) => {
                self.expression(&expansion.list);
                self.all(expansion.filter.iter().chain(&expansion.projection));
                self.all(expansion.limit.iter().flat_map(|(offset, count)| [offset, count]));
            }
            Expression::Question(question) => {
                self.expression(&question.list);
                if let Some(Quantifier::AtLeast(count)) = &question.quantifier {
                    self.expression(count);
                }
                self.all(question.count.iter().chain(&question.filter));
            }
            Expression::Call { arguments, .. } | Expression::Array(arguments) => {
                self.all(arguments);
            }
            Expression::Quantified { quantifier, operands, .. } => {
                if let Quantifier::AtLeast(count) = quantifier {
                    self.expression(count);
                }
                self.all([&operands.0, &operands.1]);
            }
            Expression::Ternary(parts) => {
                self.expression(&parts.0);
                self.all(&parts.1);
                self.expression(&parts.2);
            }
            Expression::Object(members) => {
                for member in members {
                    if let MemberName::Computed(name) = &member.name {
                        self.expression(name);
                    }
                    self.expression(&member.value);
                }
            }
            Expression::Subquery(query) => self.query(query),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;

    #[test]
    fn names_without_a_variable_are_collections() {
        for (text, expected) in [
            ("RETURN 1", ""),
            ("FOR d IN c RETURN d", "c"),
            ("FOR d IN @@c RETURN d", ""),
            ("LET c = [1] FOR d IN c RETURN d", ""),
            ("FOR d IN b FOR e IN a FILTER e.x == d.x RETURN [d, e]", "a b"),
            ("FOR d IN a LET n = LENGTH(b) RETURN (FOR e IN c RETURN e)", "a b c"),
            ("FOR d IN a UPDATE d WITH {x: OLD.x} IN b RETURN NEW", "a b"),
            ("FOR d IN a COLLECT x = d.x INTO g RETURN [x, g]", "a"),
            ("FOR d IN a RETURN d.list[* FILTER CURRENT.x == 1 RETURN CURRENT.y]", "a"),
            ("LET x = (FOR inner IN a RETURN inner) RETURN inner", "a inner"),
        ] {
            let parsed = parse(text).unwrap();
            let found: Vec<_> = parsed.collections().into_iter().collect();
            assert_eq!(found.join(" "), expected, "{text}");
        }
    }
}

//! Plans of statements that write.

use std::sync::Arc;

use super::build::Builder;
use super::{Access, NodeKind, Pipeline, Upsert, Write};
use crate::evaluate::{Code, Slot};
use crate::parse::ast::{self, Binary, CURRENT, Expression, MemberName, Target, UpsertSearch};
use crate::parse::{DEPTH_MAX, too_deep};
use crate::{Collection, QueryError, number};

impl Builder<'_> {
    fn target(&mut self, target: &Target) -> Result<Collection, QueryError> {
        let name = match target {
            Target::Name(name) => name.clone(),
            Target::Bind(name) => self.bound_collection(name)?,
        };
        let collection = self.collection(&name)?;
        let is_written = self.nodes.iter().any(|node| match &node.kind {
            NodeKind::Write(write) => write.collection.id == collection.id,
            NodeKind::Upsert(upsert) => upsert.collection.id == collection.id,
            _ => false,
        });
        if is_written {
            let message = format!("multiple modifications of collection '{name}' in one query");
            return Err(QueryError::new(number::ACCESS_AFTER_MODIFICATION, message));
        }
        self.note(&collection, Access::Write);
        Ok(collection)
    }

    /// Slots for `OLD` and `NEW`, which are visible from here on.
    fn results(&mut self) -> (Slot, Slot) {
        let (old, new) = (self.slot(Some("OLD")), self.slot(Some("NEW")));
        self.redeclare("OLD", old);
        self.redeclare("NEW", new);
        (old, new)
    }

    pub(super) fn write(&mut self, write: &ast::Write) -> Result<(), QueryError> {
        let document = self.expression(&write.document)?;
        let with = write.with.as_ref().map(|with| self.expression(with)).transpose()?;
        let collection = self.target(&write.target)?;
        let statement = write.kind.node_name().trim_end_matches("Node").to_uppercase();
        let options = self.write_options(write.options.as_ref(), &statement)?;
        let (old, new) = self.results();
        let kind = write.kind;
        let write = Write { kind, collection, document, with, options, old, new };
        self.push(NodeKind::Write(Box::new(write)))
    }

    pub(super) fn upsert(&mut self, upsert: &ast::Upsert) -> Result<(), QueryError> {
        let insert = self.expression(&upsert.insert)?;
        let collection = self.target(&upsert.target)?;
        let options = self.write_options(upsert.options.as_ref(), "UPSERT")?;
        let found = self.slot(None);
        let condition = match &upsert.search {
            UpsertSearch::Example(example) => self.example(example, found)?,
            UpsertSearch::Filter(filter) => {
                let hidden = self.scope.len();
                self.scope.push(super::build::Binding {
                    name: CURRENT.to_owned(),
                    code: Code::Path(found, Vec::new()),
                });
                let code = self.expression(filter);
                self.scope.truncate(hidden);
                code?
            }
        };
        let search = self.search(&collection, found, condition.clone())?;
        let (old, new) = self.results();
        let update = self.expression(&upsert.update)?;
        let is_replace = upsert.is_replace;
        let condition = (found, condition);
        self.push(NodeKind::Upsert(Box::new(Upsert {
            collection,
            search,
            condition,
            insert,
            update,
            is_replace,
            options,
            old,
            new,
        })))
    }

    /// All attributes of the example are equal, those of objects within it one by one.
    fn example(&mut self, example: &Expression, found: Slot) -> Result<Code, QueryError> {
        let mut equals = Vec::new();
        let document = Code::Path(found, Vec::new());
        self.example_members(example, &document, &mut equals)?;
        let and = |left, right| Code::Binary(Binary::And, Box::new((left, right)));
        Ok(equals.into_iter().reduce(and).unwrap_or(Code::Constant(true.into())))
    }

    fn example_members(
        &mut self,
        example: &Expression,
        document: &Code,
        equals: &mut Vec<Code>,
    ) -> Result<(), QueryError> {
        let bound;
        let members = match example {
            Expression::Object(members) => members,
            Expression::Bind(name) => {
                bound = members_of(&self.bind_variables.attribute(name));
                &bound
            }
            _ => {
                let message = "the lookup of UPSERT must be an object literal";
                return Err(QueryError::new(number::PARSE, message));
            }
        };
        for member in members {
            let MemberName::Fixed(name) = &member.name else {
                let message = "the lookup of UPSERT cannot have computed attribute names";
                return Err(QueryError::new(number::PARSE, message));
            };
            let Code::Path(slot, names) = document else { continue };
            let mut names = names.clone();
            names.push(name.as_str().into());
            let attribute = Code::Path(*slot, names);
            if let Expression::Object(inner) = &member.value
                && !inner.is_empty()
            {
                self.example_members(&member.value, &attribute, equals)?;
                continue;
            }
            let value = self.expression(&member.value)?;
            if equals.len() == DEPTH_MAX {
                return Err(too_deep());
            }
            equals.push(Code::Binary(Binary::Equal, Box::new((attribute, value))));
        }
        Ok(())
    }

    /// Finds documents of a collection by a condition.
    fn search(
        &mut self,
        collection: &Collection,
        slot: Slot,
        condition: Code,
    ) -> Result<Arc<Pipeline>, QueryError> {
        let outer = std::mem::take(&mut self.nodes);
        self.push(NodeKind::Singleton)?;
        let (collection, filter) = (collection.clone(), Vec::new());
        self.push(NodeKind::EnumerateCollection { collection, slot, filter })?;
        self.filter(condition)?;
        let code = Code::Path(slot, Vec::new());
        self.push(NodeKind::Return { code, is_distinct: false })?;
        self.choose_indexes()?;
        let nodes = std::mem::replace(&mut self.nodes, outer);
        Ok(Arc::new(Pipeline { nodes, width: self.variables.len() }))
    }
}

/// The members of an object as if they had been written out.
fn members_of(value: &pellucid_value::Value) -> Vec<ast::Member> {
    let member = |(name, value): (pellucid_value::Text, pellucid_value::Value)| ast::Member {
        name: MemberName::Fixed(name.to_string()),
        value: Expression::Constant(value),
    };
    value.members(false).into_iter().map(member).collect()
}

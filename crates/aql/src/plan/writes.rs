//! Planning of statements that write.

use std::borrow::Cow;
use std::sync::Arc;

use pellucid_value::{Text, Value};

use super::builder::{Access, Builder};
use super::expressions::plan_expression;
use super::filters::add_filter;
use super::indexes::choose_indexes;
use super::options::plan_write_options;
use crate::parse::ast::{self, BinaryOperator, Expression, MemberName, Target, UpsertSearch};
use crate::parse::{DEPTH_MAX, too_deep};
use crate::tree::{Code, NodeKind, Pipeline, Slot, Upsert, Write};
use crate::{Collection, QueryError, Result, number};

fn plan_target(builder: &mut Builder<'_>, target: &Target) -> Result<Collection> {
    let name = match target {
        Target::Name(name) => name.clone(),
        Target::Bind(name) => builder.binds.fix_collection(name)?,
    };
    let collection = builder.collection(&name)?;
    if builder.has_written(|written| written.id == collection.id) {
        let message = format!("multiple modifications of collection '{name}' in one query");
        return Err(QueryError::new(number::ACCESS_AFTER_MODIFICATION, message));
    }
    Ok(collection)
}

/// Declares `OLD` and `NEW`, which are visible from here on. Returns their slots.
fn declare_results(builder: &mut Builder<'_>) -> (Slot, Slot) {
    let (old, new) = (builder.variables.add(Some("OLD")), builder.variables.add(Some("NEW")));
    builder.scope.redeclare("OLD", old);
    builder.scope.redeclare("NEW", new);
    (old, new)
}

pub(super) fn plan_write(builder: &mut Builder<'_>, write: &ast::Write) -> Result<()> {
    let document = plan_expression(builder, &write.document)?;
    let with = write.with.as_ref().map(|with| plan_expression(builder, with)).transpose()?;
    let collection = plan_target(builder, &write.target)?;
    let statement = write.kind.node_name().trim_end_matches("Node").to_uppercase();
    let options = plan_write_options(builder, write.options.as_ref(), &statement)?;
    let (old, new) = declare_results(builder);
    builder.note(&collection, Access::Write);
    let kind = write.kind;
    let write = Write { kind, collection, document, with, options, old, new };
    builder.push(NodeKind::Write(Box::new(write)))
}

pub(super) fn plan_upsert(builder: &mut Builder<'_>, upsert: &ast::Upsert) -> Result<()> {
    let insert = plan_expression(builder, &upsert.insert)?;
    let collection = plan_target(builder, &upsert.target)?;
    let options = plan_write_options(builder, upsert.options.as_ref(), "UPSERT")?;
    let found = builder.variables.add(None);
    let condition = match &upsert.search {
        UpsertSearch::Example(example) => plan_example(builder, example, found)?,
        UpsertSearch::Filter(filter) => {
            builder.scope.set_current_document(Some(found));
            let code = plan_expression(builder, filter);
            builder.scope.set_current_document(None);
            code?
        }
    };
    let search = plan_search(builder, &collection, found, condition.clone())?;
    let (old, new) = declare_results(builder);
    let update = plan_expression(builder, &upsert.update)?;
    builder.note(&collection, Access::Write);
    let is_replace = upsert.is_replace;
    let condition = (found, condition);
    builder.push(NodeKind::Upsert(Box::new(Upsert {
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

/// Plans the condition that a document has all attributes of an example; nested objects are
/// compared attribute by attribute.
fn plan_example(builder: &mut Builder<'_>, example: &Expression, found: Slot) -> Result<Code> {
    let Some(members) = members_of(builder, example) else {
        let message = "the lookup of UPSERT must be an object literal or a bound object";
        return Err(QueryError::new(number::PARSE, message));
    };
    let mut equals = Vec::new();
    plan_example_members(builder, &members, (found, &[]), &mut equals)?;
    let and = |left, right| Code::Binary(BinaryOperator::And, Box::new((left, right)));
    Ok(equals.into_iter().reduce(and).unwrap_or(Code::Constant(true.into())))
}

fn plan_example_members(
    builder: &mut Builder<'_>,
    members: &[ast::Member],
    (found, path): (Slot, &[Arc<str>]),
    equals: &mut Vec<Code>,
) -> Result<()> {
    for member in members {
        let MemberName::Fixed(name) = &member.name else {
            let message = "the lookup of UPSERT cannot have computed attribute names";
            return Err(QueryError::new(number::PARSE, message));
        };
        let mut names = path.to_vec();
        names.push(name.as_str().into());
        if names.len() > DEPTH_MAX || equals.len() == DEPTH_MAX {
            return Err(too_deep());
        }
        if let Some(inner) = members_of(builder, &member.value)
            && !inner.is_empty()
        {
            plan_example_members(builder, &inner, (found, &names), equals)?;
            continue;
        }
        let value = plan_expression(builder, &member.value)?;
        let attribute = Code::Path(found, names);
        equals.push(Code::Binary(BinaryOperator::Equal, Box::new((attribute, value))));
    }
    Ok(())
}

/// Plans the subquery that finds documents of a collection by a condition.
fn plan_search(
    builder: &mut Builder<'_>,
    collection: &Collection,
    slot: Slot,
    condition: Code,
) -> Result<Arc<Pipeline>> {
    let outer = std::mem::take(&mut builder.nodes);
    builder.push(NodeKind::Singleton)?;
    let (collection, filter) = (collection.clone(), Vec::new());
    builder.push(NodeKind::EnumerateCollection { collection, slot, filter })?;
    add_filter(builder, condition)?;
    let code = Code::Path(slot, Vec::new());
    builder.push(NodeKind::Return { code, is_distinct: false })?;
    choose_indexes(builder)?;
    let nodes = std::mem::replace(&mut builder.nodes, outer);
    Ok(Arc::new(Pipeline { nodes, width: builder.variables.len() }))
}

/// The members of an object literal, or of an object that is bound or constant; `None` if the
/// expression is neither.
fn members_of<'e>(
    builder: &mut Builder<'_>,
    example: &'e Expression,
) -> Option<Cow<'e, [ast::Member]>> {
    let value = match example {
        Expression::Object(members) => return Some(members.into()),
        Expression::Bind(name) => builder.binds.fix(name),
        Expression::Constant(value) => value.clone(),
        _ => return None,
    };
    value.view().as_object()?;
    let member = |(name, value): (Text, Value)| ast::Member {
        name: MemberName::Fixed(name.to_string()),
        value: Expression::Constant(value),
    };
    let members = value.each_member(false).map(member).collect();
    Some(Cow::Owned(members))
}

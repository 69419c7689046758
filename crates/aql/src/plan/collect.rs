//! Planning of `COLLECT`, which groups rows.

use super::builder::Builder;
use super::expressions::plan_expression;
use super::options::read_options;
use super::scope::Binding;
use crate::aggregator::Aggregator;
use crate::parse::ast::{self, Expression};
use crate::tree::{Aggregate, Code, Collect, IntoProjection, NodeKind, Slot};
use crate::{QueryError, Result, number};

pub(super) fn plan_collect(builder: &mut Builder<'_>, collect: &ast::Collect) -> Result<()> {
    let mut planned =
        Collect { groups: Vec::new(), aggregates: Vec::new(), into: None, count: None };
    let mut visible = Vec::new();
    let mut show = |name: &str, slot: Slot| visible.push((name.to_owned(), slot));
    for (name, value) in &collect.groups {
        let code = plan_expression(builder, value)?;
        let slot = builder.variables.add(Some(name));
        show(name, slot);
        planned.groups.push((slot, code));
    }
    for (name, value) in &collect.aggregates {
        let aggregate = plan_aggregate(builder, name, value)?;
        show(name, aggregate.slot);
        planned.aggregates.push(aggregate);
    }
    if let Some((name, value)) = &collect.into {
        let kept = match value {
            Some(value) => IntoProjection::Value(plan_expression(builder, value)?),
            None => IntoProjection::Variables(kept_variables(builder, collect.keep.as_deref())?),
        };
        let slot = builder.variables.add(Some(name));
        show(name, slot);
        planned.into = Some((slot, kept));
    }
    if let Some(name) = &collect.count {
        let slot = builder.variables.add(Some(name));
        show(name, slot);
        planned.count = Some(slot);
    }
    // Options are hints without effect here, but must be valid.
    if let Some(options) = &collect.options {
        read_options(builder, options)?;
    }
    // Earlier variables are not visible any more, except those of the outer query.
    builder.scope.forget_own();
    for (name, slot) in visible {
        builder.scope.declare(&name, Code::Path(slot, Vec::new()))?;
    }
    builder.push(NodeKind::Collect(Box::new(planned)))
}

fn kept_variables(
    builder: &mut Builder<'_>,
    keep: Option<&[String]>,
) -> Result<Vec<(String, Code)>> {
    let (scope, memory) = (&builder.scope, &mut builder.run.memory);
    let mut copy = |name: &String, code: &Code| -> Result<_> {
        memory.take(size_of::<(String, Code)>() + name.len() + code.names_bytes())?;
        Ok((name.clone(), code.clone()))
    };
    let Some(names) = keep else {
        // Variables that are declared before the first loop are the same in all rows.
        let first_loop = builder.nodes.iter().find_map(|node| match node.kind {
            NodeKind::EnumerateCollection { slot, .. } | NodeKind::EnumerateList { slot, .. } => {
                Some(slot)
            }
            _ => None,
        });
        let is_of_loop = |own: &Binding| match &own.code {
            Code::Path(slot, names) => names.is_empty() && Some(*slot) == first_loop,
            _ => false,
        };
        let from = scope.own().iter().position(is_of_loop).unwrap_or(0);
        return scope.own()[from..].iter().map(|own| copy(&own.name, &own.code)).collect();
    };
    let find = |name: &String| match scope.find(name) {
        Some(code) => copy(name, code),
        None => {
            let message = format!("unknown variable '{name}'");
            Err(QueryError::new(number::VARIABLE_NAME_UNKNOWN, message))
        }
    };
    names.iter().map(find).collect()
}

fn plan_aggregate(builder: &mut Builder<'_>, name: &str, value: &Expression) -> Result<Aggregate> {
    let wrong = || {
        let message = "invalid aggregate expression: an aggregate function of one argument is \
                       expected";
        QueryError::new(number::INVALID_AGGREGATE_EXPRESSION, message)
    };
    let Expression::Call { name: function, arguments } = value else { return Err(wrong()) };
    let aggregator = Aggregator::of(function).ok_or_else(wrong)?;
    let code = match arguments.as_slice() {
        [argument] => plan_expression(builder, argument)?,
        [] if aggregator == Aggregator::Count => Code::Constant(true.into()),
        _ => return Err(wrong()),
    };
    Ok(Aggregate { slot: builder.variables.add(Some(name)), aggregator, code })
}

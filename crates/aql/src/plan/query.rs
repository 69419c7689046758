//! Planning of queries and their statements. Names become slots, and filters move to the earliest
//! node where they can be checked.

use pellucid_value::{Ref, Value, to_number};

use super::builder::Builder;
use super::collect::plan_collect;
use super::expressions::{named_collection, plan_counted, plan_expression};
use super::filters::add_filter;
use super::indexes::choose_indexes;
use super::options::check_for_options;
use super::writes::{plan_upsert, plan_write};
use crate::parse::ast::{Direction, Expression, Query, SortKey, Statement};
use crate::tree::{Code, Node, NodeKind};
use crate::{QueryError, Result, number};

/// The most nodes whose calls nest when rows are pulled, including those of nested subqueries.
/// Calculations and filters do not count, because they are not called by each other.
const CALLS_MAX: usize = 250;

/// Plans a query or subquery in the current scope. Returns its nodes.
pub(super) fn plan_query(builder: &mut Builder<'_>, query: &Query) -> Result<Vec<Node>> {
    let scope_bytes = builder.scope.size_bytes();
    builder.run.memory.take(scope_bytes)?;
    builder.scope.begin_query()?;
    let outer = std::mem::take(&mut builder.nodes);
    let calls_around = std::mem::take(&mut builder.calls_within);
    builder.push(NodeKind::Singleton)?;
    for statement in &query.statements {
        plan_statement(builder, statement)?;
    }
    builder.scope.end_query();
    builder.run.memory.free(scope_bytes);
    let calls = builder.nodes.iter().filter(|node| !node.kind.is_step()).count();
    builder.calls_within += calls;
    if builder.calls_within > CALLS_MAX {
        let message = format!("more than {CALLS_MAX} loops and other nodes within each other");
        return Err(QueryError::new(number::TOO_MUCH_NESTING, message));
    }
    builder.calls_within = builder.calls_within.max(calls_around);
    choose_indexes(builder)?;
    limit_sorts(builder);
    Ok(std::mem::replace(&mut builder.nodes, outer))
}

fn plan_statement(builder: &mut Builder<'_>, statement: &Statement) -> Result<()> {
    match statement {
        Statement::For { variable, list, options } => {
            if let Some(options) = options {
                builder.binds.serve_once();
                check_for_options(builder, options)?;
            }
            plan_for(builder, variable, list)
        }
        Statement::Filter(condition) => {
            let code = plan_expression(builder, condition)?;
            add_filter(builder, code)
        }
        Statement::Let { variable, value } => plan_let(builder, variable, value),
        Statement::Sort(keys) => plan_sort(builder, keys),
        Statement::Limit { offset, count } => plan_limit(builder, offset.as_ref(), count),
        Statement::Return { value, is_distinct } => {
            let code = plan_expression(builder, value)?;
            builder.push(NodeKind::Return { code, is_distinct: *is_distinct })
        }
        Statement::Collect(collect) => {
            builder.binds.serve_once();
            plan_collect(builder, collect)
        }
        Statement::Write(write) => {
            builder.binds.serve_once();
            plan_write(builder, write)
        }
        Statement::Upsert(upsert) => {
            builder.binds.serve_once();
            plan_upsert(builder, upsert)
        }
    }
}

fn plan_for(builder: &mut Builder<'_>, variable: &str, list: &Expression) -> Result<()> {
    if let Some(collection) = named_collection(builder, list)? {
        let slot = builder.declare(variable)?;
        let filter = Vec::new();
        return builder.push(NodeKind::EnumerateCollection { collection, slot, filter });
    }
    let list = plan_counted(builder, list)?;
    let slot = builder.declare(variable)?;
    builder.push(NodeKind::EnumerateList { list, slot })
}

fn plan_let(builder: &mut Builder<'_>, variable: &str, value: &Expression) -> Result<()> {
    let code = plan_expression(builder, value)?;
    // A constant or a path needs no node: it is as cheap to compute as to read, and indexes can
    // still be used for it.
    if matches!(code, Code::Constant(_) | Code::Path(..)) {
        return builder.scope.declare(variable, code);
    }
    let slot = builder.declare(variable)?;
    builder.push(NodeKind::Calculation { slot, code })
}

fn plan_sort(builder: &mut Builder<'_>, keys: &[SortKey]) -> Result<()> {
    let mut sorted = Vec::new();
    for key in keys {
        let code = plan_expression(builder, &key.value)?;
        let is_descending = match &key.direction {
            Direction::Ascending => false,
            Direction::Descending => true,
            Direction::Computed(direction) => is_descending(builder, direction)?,
        };
        // Sorting by a constant has no effect.
        if code.constant().is_none() {
            sorted.push((code, is_descending));
        }
    }
    if sorted.is_empty() {
        return Ok(());
    }
    builder.push(NodeKind::Sort { keys: sorted, limit: None })
}

fn is_descending(builder: &mut Builder<'_>, direction: &Expression) -> Result<bool> {
    let code = plan_expression(builder, direction)?;
    match code.constant().and_then(Value::as_str) {
        Some(text) if text.eq_ignore_ascii_case("asc") => Ok(false),
        Some(text) if text.eq_ignore_ascii_case("desc") => Ok(true),
        _ => match code.constant() {
            Some(ascending) if ascending.as_str().is_none() => Ok(!ascending.is_true()),
            _ => {
                let message = "sort direction must be ASC or DESC";
                Err(QueryError::new(number::PARSE, message))
            }
        },
    }
}

fn plan_limit(
    builder: &mut Builder<'_>,
    offset: Option<&Expression>,
    count: &Expression,
) -> Result<()> {
    let offset = offset.map(|offset| limit_operand(builder, offset)).transpose()?.flatten();
    let count = limit_operand(builder, count)?;
    builder.push(NodeKind::Limit { offset: offset.unwrap_or(0), count, is_last: false })
}

/// The constant value of a limit's operand; `None` for null.
fn limit_operand(builder: &mut Builder<'_>, operand: &Expression) -> Result<Option<u64>> {
    let code = plan_expression(builder, operand)?;
    let wrong = |what: &str| QueryError::new(number::NUMBER_OUT_OF_RANGE, what);
    let Some(value) = code.constant() else {
        let message = "LIMIT operands must be constant numbers, not expressions";
        return Err(QueryError::new(number::PARSE, message));
    };
    match value.view() {
        Ref::Null => Ok(None),
        Ref::Number(_) => u64::try_from(to_number(value.view()).to_int())
            .map(Some)
            .map_err(|_| wrong("LIMIT value is not a valid number: it is negative")),
        _ => Err(wrong("LIMIT value is not a valid number")),
    }
}

/// Sets the limit of each sort that a limit follows.
fn limit_sorts(builder: &mut Builder<'_>) {
    for place in 0..builder.nodes.len() {
        let is_other = |node: &&Node| !matches!(node.kind, NodeKind::Calculation { .. });
        let most = match builder.nodes[place + 1..].iter().find(is_other).map(|node| &node.kind) {
            Some(NodeKind::Limit { offset, count: Some(count), .. }) => {
                usize::try_from(offset.saturating_add(*count)).ok()
            }
            _ => None,
        };
        if let (NodeKind::Sort { limit, .. }, Some(most)) = (&mut builder.nodes[place].kind, most) {
            *limit = Some(most);
            builder.rules.push("sort-limit");
        }
    }
}

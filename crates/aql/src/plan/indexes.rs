//! The choice of an index for each loop over a collection: one that answers the filter or the sort,
//! or covers all attributes that are read.

use std::sync::Arc;

use pellucid_value::{ArrayRef, Kind};

use super::builder::Builder;
use super::prefixes::{self, is_same};
use crate::evaluate::range_bounds;
use crate::execute::RANGES_MAX;
use crate::parse::ast::BinaryOperator;
use crate::tree::{Code, IndexAccess, Match, NodeKind, Slot};
use crate::{Collection, Index, IndexKind, Result};

/// An index that can be used, with the conditions that it answers.
struct Candidate {
    access: IndexAccess,
    /// The indexes in the filter of conditions that need not be checked again.
    answered: Vec<usize>,
    score: f64,
}

/// Replaces loops over collections by index accesses where an index helps.
pub(super) fn choose_indexes(builder: &mut Builder<'_>) -> Result<()> {
    let mut place = 0;
    // The number of nodes may decrease, because sorts can be dropped.
    while place + 1 < builder.nodes.len() {
        place += 1;
        let NodeKind::EnumerateCollection { collection, slot, filter } = &builder.nodes[place].kind
        else {
            continue;
        };
        let (collection, slot, filter) = (collection.clone(), *slot, filter.clone());
        let indexes = builder.run.source.indexes(collection.id);
        let known = |code: &Code| code.is_pure() && !code.slots().contains(&slot);
        let is_value = |code: &Code| {
            let constant = code.constant();
            constant.is_some_and(|value| value.kind() != Kind::Null)
                || builder.binds.is_parameter(code)
        };
        let best = indexes
            .iter()
            .filter_map(|index| candidate(&collection, slot, &filter, index, &known, &is_value))
            .max_by(|left, right| left.score.total_cmp(&right.score));
        let mut access = match best {
            Some(mut best) => {
                let stays = |place: &usize| !best.answered.contains(place);
                let rest = (0..filter.len()).filter(stays);
                best.access.filter = rest.map(|place| filter[place].clone()).collect();
                builder.rules.push("use-indexes");
                if best.access.filter.len() < filter.len() {
                    builder.rules.push("remove-filter-covered-by-index");
                }
                Some(best.access)
            }
            None => None,
        };
        use_order(builder, place, slot, &mut access, &collection, &indexes, &filter);
        if let Some(mut access) = access {
            access.is_covering = is_covered(builder, place, &access);
            if access.is_covering {
                builder.rules.push("reduce-extraction-to-projection");
            }
            builder.nodes[place].kind = NodeKind::Index(Box::new(access));
        }
    }
    Ok(())
}

/// Drops a sort if the documents come in its order already, or if an index has that order.
fn use_order(
    builder: &mut Builder<'_>,
    place: usize,
    slot: Slot,
    access: &mut Option<IndexAccess>,
    collection: &Collection,
    indexes: &[Index],
    filter: &[Code],
) {
    let gives_one =
        |kind: &NodeKind| matches!(kind, NodeKind::Singleton | NodeKind::Calculation { .. });
    if !builder.nodes[..place].iter().all(|node| gives_one(&node.kind)) {
        return;
    }
    let between = builder.nodes[place + 1..].iter().take_while(|node| {
        matches!(node.kind, NodeKind::Calculation { .. } | NodeKind::Filter { .. })
    });
    let sort = place + 1 + between.count();
    let Some(NodeKind::Sort { keys, .. }) = builder.nodes.get(sort).map(|node| &node.kind) else {
        return;
    };
    let is_reverse = keys[0].1;
    let paths: Option<Vec<&[Arc<str>]>> = keys
        .iter()
        .map(|(code, descends)| match code {
            Code::Path(of, names) if *of == slot && *descends == is_reverse => {
                Some(names.as_slice())
            }
            _ => None,
        })
        .collect();
    let Some(paths) = paths else { return };
    if let Some(access) = access {
        let equal = access.matches.iter().all(|found| matches!(found, Match::Equal(_)));
        if equal && let Some(count) = ordered_fields(&access.index, access.matches.len(), &paths) {
            (access.is_reverse, access.ordered_fields) = (is_reverse, count);
            drop_sort(builder, sort);
        }
        return;
    }
    // A scan returns the documents in the order of their keys.
    if !is_reverse && paths.len() == 1 && paths[0].len() == 1 && &*paths[0][0] == "_key" {
        drop_sort(builder, sort);
        return;
    }
    // Reading all documents by an index costs more than sorting them, unless a limit follows.
    let after = builder.nodes[sort + 1..].iter();
    let mut after = after.skip_while(|node| gives_one(&node.kind));
    let is_limited =
        matches!(after.next().map(|node| &node.kind), Some(NodeKind::Limit { count: Some(_), .. }));
    let is_complete = |index: &&Index| {
        let has_one_entry_each = !index.sparse && !index.fields.iter().any(|field| field.expands);
        index.kind == IndexKind::Persistent && has_one_entry_each
    };
    let fitting = indexes.iter().filter(is_complete).find_map(|index| {
        ordered_fields(index, 0, &paths).map(|ordered_fields| (index, ordered_fields))
    });
    let Some((index, ordered_fields)) = fitting.filter(|_| is_limited) else { return };
    let whole = IndexAccess::new(collection, slot, index);
    let filter = filter.to_vec();
    *access = Some(IndexAccess { is_reverse, ordered_fields, filter, ..whole });
    drop_sort(builder, sort);
}

fn drop_sort(builder: &mut Builder<'_>, place: usize) {
    builder.nodes.remove(place);
    builder.rules.push("use-index-for-sort");
}

/// True if the index contains all attributes that the query reads of the documents.
fn is_covered(builder: &Builder<'_>, place: usize, access: &IndexAccess) -> bool {
    let fields = &access.index.fields;
    let is_persistent = access.index.kind == IndexKind::Persistent;
    if !is_persistent || fields.iter().any(|field| field.expands) {
        return false;
    }
    let covers = |names: &[Arc<str>]| {
        fields.iter().any(|field| {
            names.get(..field.path.len()).is_some_and(|names| is_same(names, &field.path))
        })
    };
    let mut is_covered = true;
    let mut visit = |code: &Code| {
        code.walk(&mut |part| match part {
            Code::Path(slot, names) if *slot == access.slot => is_covered &= covers(names),
            // The attributes that a subquery reads are not examined.
            Code::Subquery(pipeline) => {
                is_covered &= !pipeline.slots_read().contains(&access.slot);
            }
            _ => {}
        });
    };
    access.filter.iter().for_each(&mut visit);
    builder.nodes[place + 1..].iter().for_each(|node| node.kind.for_each_code(&mut visit));
    is_covered
}

/// The number of leading fields whose order is that of these paths, in entries whose first `equal`
/// fields are equal: 0 if any order is. `None` if the entries do not come in that order.
fn ordered_fields(index: &Index, equal: usize, paths: &[&[Arc<str>]]) -> Option<usize> {
    let is_range_of_keys = index.kind == IndexKind::Primary && equal == 0;
    if index.kind != IndexKind::Persistent && !is_range_of_keys {
        return None;
    }
    let same =
        |field: &crate::IndexField, path: &[Arc<str>]| !field.expands && is_same(path, &field.path);
    // Fields that are equal in all entries may be named anywhere.
    let is_equal = |path: &[Arc<str>]| index.fields[..equal].iter().any(|field| same(field, path));
    let mut count = equal;
    for path in paths.iter().filter(|path| !is_equal(path)) {
        index.fields.get(count).filter(|field| same(field, path))?;
        count += 1;
    }
    Some(if count == equal { 0 } else { count })
}

/// A condition on one attribute of the document.
struct Condition<'a> {
    place: usize,
    names: &'a [Arc<str>],
    operator: BinaryOperator,
    other: &'a Code,
}

/// The conditions that compare an attribute with a value that does not depend on the document.
fn conditions<'a>(
    slot: Slot,
    filter: &'a [Code],
    known: &dyn Fn(&Code) -> bool,
) -> Vec<Condition<'a>> {
    let mut conditions = Vec::new();
    for (place, code) in filter.iter().enumerate() {
        let Code::Binary(operator, operands) = code else { continue };
        for (own, other, operator) in [
            (&operands.0, &operands.1, Some(*operator)),
            (&operands.1, &operands.0, mirrored(*operator)),
        ] {
            let (Code::Path(of, names), Some(operator)) = (own, operator) else { continue };
            if *of == slot && !names.is_empty() && known(other) {
                conditions.push(Condition { place, names, operator, other });
            }
        }
    }
    conditions
}

/// The operator for exchanged operands.
fn mirrored(operator: BinaryOperator) -> Option<BinaryOperator> {
    Some(match operator {
        BinaryOperator::Equal => BinaryOperator::Equal,
        BinaryOperator::Less => BinaryOperator::Greater,
        BinaryOperator::LessEqual => BinaryOperator::GreaterEqual,
        BinaryOperator::Greater => BinaryOperator::Less,
        BinaryOperator::GreaterEqual => BinaryOperator::LessEqual,
        _ => return None,
    })
}

fn candidate(
    collection: &Collection,
    slot: Slot,
    filter: &[Code],
    index: &Index,
    known: &dyn Fn(&Code) -> bool,
    is_value: &dyn Fn(&Code) -> bool,
) -> Option<Candidate> {
    let conditions = conditions(slot, filter, known);
    let mut access = IndexAccess::new(collection, slot, index);
    let mut answered = Vec::new();
    if index.kind == IndexKind::Primary {
        return primary(access, &conditions, filter);
    }
    if let Some(candidate) = by_element(&access, filter, known) {
        return Some(candidate);
    }
    // A document has an entry for each element, and would be found once for each.
    if index.fields.iter().any(|field| field.expands) {
        return None;
    }
    for field in &index.fields {
        let of_field = |condition: &&Condition<'_>| is_same(condition.names, &field.path);
        let own: Vec<_> = conditions.iter().filter(of_field).collect();
        let equal = own.iter().find(|own| matches!(own.operator, BinaryOperator::Equal));
        let equal = equal.or_else(|| own.iter().find(|own| own.operator == BinaryOperator::In));
        if let Some(equal) = equal {
            let code = equal.other.clone();
            let is_equal = equal.operator == BinaryOperator::Equal;
            access.matches.push(if is_equal { Match::Equal(code) } else { Match::In(code) });
            if !needs_too_many_lookups(&access) {
                answered.push(equal.place);
                continue;
            }
            access.matches.pop();
        }
        answered.extend(bounds_of(&own, &mut access));
        prefixes::bound(filter, &field.path, &mut access);
        break;
    }
    let bounds = access.bounds();
    if access.matches.is_empty() && bounds == 0
        || (index.sparse && !excludes_null(&access, is_value))
    {
        return None;
    }
    let all_equal = access.matches.len() == index.fields.len();
    let mut score = 10.0 * access.matches.len() as f64 + 3.0 * bounds as f64 + index.selectivity;
    if all_equal && index.unique {
        score += 1000.0;
    }
    Some(Candidate { access, answered, score })
}

/// The candidate of the primary index, which answers equality of `_key` and `_id`, and ranges of
/// `_key`.
fn primary(
    mut access: IndexAccess,
    conditions: &[Condition<'_>],
    filter: &[Code],
) -> Option<Candidate> {
    let is_named = |condition: &Condition<'_>, name: &str| {
        condition.names.len() == 1 && &*condition.names[0] == name
    };
    let find = |operator: BinaryOperator| {
        conditions.iter().find(|condition| {
            (is_named(condition, "_key") || is_named(condition, "_id"))
                && condition.operator == operator
        })
    };
    if let Some(found) = find(BinaryOperator::Equal).or_else(|| find(BinaryOperator::In)) {
        let code = found.other.clone();
        let is_equal = found.operator == BinaryOperator::Equal;
        access.matches.push(if is_equal { Match::Equal(code) } else { Match::In(code) });
        if !needs_too_many_lookups(&access) {
            access.is_by_id = &*found.names[0] == "_id";
            return Some(Candidate { access, answered: vec![found.place], score: 2000.0 });
        }
        access.matches.pop();
    }
    let of_key: Vec<_> =
        conditions.iter().filter(|condition| is_named(condition, "_key")).collect();
    let answered = bounds_of(&of_key, &mut access);
    let has_prefix = prefixes::bound(filter, &["_key".to_owned()], &mut access);
    (has_prefix || !answered.is_empty()).then_some(Candidate {
        score: 2.0 * access.bounds() as f64,
        access,
        answered,
    })
}

/// Sets the bounds of the next field from its conditions. Returns the conditions that it used.
fn bounds_of(conditions: &[&Condition<'_>], access: &mut IndexAccess) -> Vec<usize> {
    let mut answered = Vec::new();
    for bound in conditions {
        let side = match bound.operator {
            BinaryOperator::Greater | BinaryOperator::GreaterEqual => &mut access.low,
            BinaryOperator::Less | BinaryOperator::LessEqual => &mut access.high,
            _ => continue,
        };
        if side.is_none() {
            let is_inside =
                matches!(bound.operator, BinaryOperator::GreaterEqual | BinaryOperator::LessEqual);
            *side = Some((bound.other.clone(), is_inside));
            answered.push(bound.place);
        }
    }
    answered
}

/// The candidate of an index on the elements of an array, which finds the arrays that contain a
/// value. The condition is checked again, because values that are no arrays have entries as well.
/// There must be one entry for each document that has the value, so no other field may be an array,
/// and a sparse index may have no other field.
fn by_element(
    access: &IndexAccess,
    filter: &[Code],
    known: &dyn Fn(&Code) -> bool,
) -> Option<Candidate> {
    let (field, others) = access.index.fields.split_first().filter(|(field, _)| field.expands)?;
    if others.iter().any(|other| other.expands) || (access.index.sparse && !others.is_empty()) {
        return None;
    }
    let is_field = |code: &Code| match code {
        Code::Path(of, names) => *of == access.slot && is_same(names, &field.path),
        _ => false,
    };
    let is_elements = |code: &Code| match code {
        Code::Expansion(expansion) => {
            let is_plain = expansion.filter.is_none() && expansion.limit.is_none();
            let is_all = is_plain && expansion.projection.is_none() && expansion.levels == 1;
            is_all && is_field(&expansion.list)
        }
        code => is_field(code),
    };
    // A document without elements has an entry with null, which a sparse index leaves out.
    let is_there = |code: &Code| {
        !access.index.sparse || code.constant().is_some_and(|value| value.kind() != Kind::Null)
    };
    let other = filter.iter().find_map(|code| match code {
        Code::Binary(BinaryOperator::In, operands)
            if is_elements(&operands.1) && known(&operands.0) && is_there(&operands.0) =>
        {
            Some(operands.0.clone())
        }
        _ => None,
    })?;
    let mut access = access.clone();
    access.matches.push(Match::Equal(other));
    Some(Candidate { access, answered: Vec::new(), score: 5.0 })
}

/// True if a row is known to need more look-ups than it may.
fn needs_too_many_lookups(access: &IndexAccess) -> bool {
    let lengths = access.matches.iter().map(|found| match found {
        Match::Equal(_) => 1,
        Match::In(code) => known_length(code).unwrap_or(1),
    });
    lengths.fold(1, usize::saturating_mul) > RANGES_MAX
}

/// The number of elements of a constant list or range; `None` for others.
fn known_length(code: &Code) -> Option<usize> {
    let Some((first, last)) = code.range() else {
        return code.constant().map(|list| list.view().as_array().map_or(0, ArrayRef::len));
    };
    let (first, last) = range_bounds(first.constant()?, last.constant()?);
    Some(usize::try_from(first.abs_diff(last)).unwrap_or(usize::MAX).saturating_add(1))
}

/// True if no document with null in one of the fields can match. Only then does a sparse index have
/// entries for all documents that match.
fn excludes_null(access: &IndexAccess, is_value: &dyn Fn(&Code) -> bool) -> bool {
    let equal = access.matches.iter().all(|found| match found {
        Match::Equal(code) => is_value(code),
        // The elements of a range are numbers.
        Match::In(code) if code.range().is_some() => true,
        Match::In(code) => code
            .constant()
            .is_some_and(|list| list.elements().iter().all(|value| value.kind() != Kind::Null)),
    });
    let fields = access.index.fields.len();
    let matched = access.matches.len();
    let bound = access.low.as_ref().is_some_and(|(code, is_inside)| !is_inside || is_value(code));
    equal && (matched == fields || (matched + 1 == fields && bound))
}

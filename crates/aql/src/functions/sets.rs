//! Arrays as sets. Where an order is not promised it is that of first appearance.

use std::collections::{BTreeMap, HashMap, HashSet};

use pellucid_value::{Value, compare, index_key};

use super::{ARGUMENTS_MAX, Function, array, is_array, wrong};
use crate::QueryError;
use crate::run::Run;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("UNION", 2, ARGUMENTS_MAX, union),
    Function::pure("UNION_DISTINCT", 2, ARGUMENTS_MAX, union_distinct),
    Function::pure("INTERSECTION", 2, ARGUMENTS_MAX, intersection),
    Function::pure("OUTERSECTION", 2, ARGUMENTS_MAX, outersection),
    Function::pure("MINUS", 2, ARGUMENTS_MAX, minus),
    Function::pure("UNIQUE", 1, 1, unique),
    Function::pure("SORTED", 1, 1, sorted),
    Function::pure("SORTED_UNIQUE", 1, 1, sorted_unique),
    Function::pure("COUNT_DISTINCT", 1, 1, count_distinct),
    Function::pure("COUNT_UNIQUE", 1, 1, count_distinct),
    Function::pure("JACCARD", 2, 2, jaccard),
];

/// Bytes that are equal for equal values.
pub(super) fn key(value: &Value) -> Vec<u8> {
    let mut key = Vec::new();
    index_key::encode(value.view(), &mut key);
    key
}

/// The elements, each once.
pub(super) fn once(
    run: &mut Run,
    elements: impl IntoIterator<Item = Value>,
) -> Result<Vec<Value>, QueryError> {
    let (mut seen, mut unique) = (HashSet::new(), Vec::new());
    for element in elements {
        run.tick()?;
        let key = key(&element);
        run.take_memory(key.len())?;
        if seen.insert(key) {
            unique.push(element);
        }
    }
    Ok(unique)
}

/// The elements whose keys are such.
pub(super) fn filtered(
    run: &mut Run,
    elements: Vec<Value>,
    stays: impl Fn(&[u8]) -> bool,
) -> Result<Vec<Value>, QueryError> {
    let mut left = Vec::new();
    for element in elements {
        run.tick()?;
        if stays(&key(&element)) {
            left.push(element);
        }
    }
    Ok(left)
}

fn union(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !arguments.iter().all(is_array) {
        return wrong(run, "UNION");
    }
    Ok(Value::array(arguments.iter().flat_map(Value::elements).collect())?)
}

fn union_distinct(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !arguments.iter().all(is_array) {
        return wrong(run, "UNION_DISTINCT");
    }
    once(run, arguments.iter().flat_map(Value::elements)).and_then(array)
}

/// In how many of the arrays each value is.
fn counts(run: &mut Run, lists: &[Value]) -> Result<HashMap<Vec<u8>, usize>, QueryError> {
    let mut counts = HashMap::new();
    for list in lists {
        for element in once(run, list.elements())? {
            *counts.entry(key(&element)).or_insert(0) += 1;
        }
    }
    Ok(counts)
}

fn intersection(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !arguments.iter().all(is_array) {
        return wrong(run, "INTERSECTION");
    }
    let counts = counts(run, arguments)?;
    let elements = once(run, arguments[0].elements())?;
    filtered(run, elements, |key| counts.get(key) == Some(&arguments.len())).and_then(array)
}

fn outersection(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !arguments.iter().all(is_array) {
        return wrong(run, "OUTERSECTION");
    }
    let counts = counts(run, arguments)?;
    let elements = once(run, arguments.iter().flat_map(Value::elements))?;
    filtered(run, elements, |key| counts.get(key) == Some(&1)).and_then(array)
}

fn minus(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !arguments.iter().all(is_array) {
        return wrong(run, "MINUS");
    }
    let others = counts(run, &arguments[1..])?;
    let elements = once(run, arguments[0].elements())?;
    filtered(run, elements, |key| !others.contains_key(key)).and_then(array)
}

fn unique(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_array(&arguments[0]) {
        return wrong(run, "UNIQUE");
    }
    once(run, arguments[0].elements()).and_then(array)
}

fn sorted(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_array(&arguments[0]) {
        return wrong(run, "SORTED");
    }
    let mut elements = arguments[0].elements();
    elements.sort_by(|left, right| compare(left.view(), right.view()));
    Ok(Value::array(elements)?)
}

fn sorted_unique(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_array(&arguments[0]) {
        return wrong(run, "SORTED_UNIQUE");
    }
    let mut elements = BTreeMap::new();
    for element in arguments[0].elements() {
        run.tick()?;
        elements.entry(key(&element)).or_insert(element);
    }
    Ok(Value::array(elements.into_values().collect())?)
}

fn count_distinct(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_array(&arguments[0]) {
        return wrong(run, "COUNT_DISTINCT");
    }
    Ok(Value::count(once(run, arguments[0].elements())?.len()))
}

fn jaccard(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !arguments.iter().all(is_array) {
        return wrong(run, "JACCARD");
    }
    let counts = counts(run, arguments)?;
    if counts.is_empty() {
        return Ok(Value::from(1.0));
    }
    let common = counts.values().filter(|count| **count == 2).count();
    Ok(Value::from(common as f64 / counts.len() as f64))
}

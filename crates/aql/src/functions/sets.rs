//! Arrays as sets. Where an order is not promised it is that of first appearance.

use std::collections::{BTreeMap, HashMap, HashSet};

use pellucid_value::{Value, compare, index_key};

use super::{ARGUMENTS_MAX, Function, is_array, wrong};
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
fn key(value: &Value) -> Vec<u8> {
    let mut key = Vec::new();
    index_key::encode(value.view(), &mut key);
    key
}

/// The elements, each once.
fn once(elements: Vec<Value>) -> Vec<Value> {
    let mut seen = HashSet::new();
    elements.into_iter().filter(|element| seen.insert(key(element))).collect()
}

fn union(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !arguments.iter().all(is_array) {
        return wrong(run, "UNION");
    }
    Ok(Value::array(arguments.iter().flat_map(Value::elements).collect()))
}

fn union_distinct(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !arguments.iter().all(is_array) {
        return wrong(run, "UNION_DISTINCT");
    }
    Ok(Value::array(once(arguments.iter().flat_map(Value::elements).collect())))
}

/// In how many of the arrays each value is.
fn counts(lists: &[Value]) -> HashMap<Vec<u8>, usize> {
    let mut counts = HashMap::new();
    for list in lists {
        for element in once(list.elements()) {
            *counts.entry(key(&element)).or_insert(0) += 1;
        }
    }
    counts
}

fn intersection(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !arguments.iter().all(is_array) {
        return wrong(run, "INTERSECTION");
    }
    let counts = counts(arguments);
    let mut elements = once(arguments[0].elements());
    elements.retain(|element| counts.get(&key(element)) == Some(&arguments.len()));
    Ok(Value::array(elements))
}

fn outersection(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !arguments.iter().all(is_array) {
        return wrong(run, "OUTERSECTION");
    }
    let counts = counts(arguments);
    let mut elements = once(arguments.iter().flat_map(Value::elements).collect());
    elements.retain(|element| counts.get(&key(element)) == Some(&1));
    Ok(Value::array(elements))
}

fn minus(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !arguments.iter().all(is_array) {
        return wrong(run, "MINUS");
    }
    let others = counts(&arguments[1..]);
    let mut elements = once(arguments[0].elements());
    elements.retain(|element| !others.contains_key(&key(element)));
    Ok(Value::array(elements))
}

fn unique(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_array(&arguments[0]) {
        return wrong(run, "UNIQUE");
    }
    Ok(Value::array(once(arguments[0].elements())))
}

fn sorted(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_array(&arguments[0]) {
        return wrong(run, "SORTED");
    }
    let mut elements = arguments[0].elements();
    elements.sort_by(|left, right| compare(left.view(), right.view()));
    Ok(Value::array(elements))
}

fn sorted_unique(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_array(&arguments[0]) {
        return wrong(run, "SORTED_UNIQUE");
    }
    let mut elements = BTreeMap::new();
    for element in arguments[0].elements() {
        elements.entry(key(&element)).or_insert(element);
    }
    Ok(Value::array(elements.into_values().collect()))
}

fn count_distinct(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_array(&arguments[0]) {
        return wrong(run, "COUNT_DISTINCT");
    }
    Ok(Value::count(once(arguments[0].elements()).len()))
}

fn jaccard(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !arguments.iter().all(is_array) {
        return wrong(run, "JACCARD");
    }
    let counts = counts(arguments);
    if counts.is_empty() {
        return Ok(Value::from(1.0));
    }
    let common = counts.values().filter(|count| **count == 2).count();
    Ok(Value::from(common as f64 / counts.len() as f64))
}

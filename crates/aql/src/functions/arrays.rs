//! Arrays and their elements.

use std::collections::HashSet;

use pellucid_value::{Value, equal, to_array};

use super::sets::{filtered, key, once};
use super::{Function, array, flag, is_array, is_object, whole, wrong};
use crate::QueryError;
use crate::run::Run;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("APPEND", 2, 3, append),
    Function::pure("PUSH", 2, 3, push),
    Function::pure("POP", 1, 1, |run, arguments| without(run, arguments, "POP", false)),
    Function::pure("SHIFT", 1, 1, |run, arguments| without(run, arguments, "SHIFT", true)),
    Function::pure("UNSHIFT", 2, 3, unshift),
    Function::pure("FIRST", 1, 1, |run, arguments| place(run, arguments, "FIRST", 0)),
    Function::pure("LAST", 1, 1, |run, arguments| place(run, arguments, "LAST", -1)),
    Function::pure("NTH", 2, 2, nth),
    Function::pure("FLATTEN", 1, 2, flatten),
    Function::pure("SLICE", 2, 3, slice),
    Function::pure("REVERSE", 1, 1, reverse),
    Function::pure("POSITION", 2, 3, position),
    Function::pure("CONTAINS_ARRAY", 2, 3, position),
    Function::pure("RANGE", 2, 3, range),
    Function::pure("LENGTH", 1, 1, length),
    Function::pure("COUNT", 1, 1, length),
    Function::pure("REMOVE_VALUE", 2, 3, remove_value),
    Function::pure("REMOVE_VALUES", 2, 2, remove_values),
    Function::pure("REMOVE_NTH", 2, 2, remove_nth),
    Function::pure("REPLACE_NTH", 3, 4, replace_nth),
    Function::pure("INTERLEAVE", 2, super::ARGUMENTS_MAX, interleave),
];

/// How many levels `FLATTEN` may take away.
const LEVELS_MAX: i64 = pellucid_value::packed::DEPTH_MAX as i64;
/// How many elements `RANGE` may give.
const RANGE_ELEMENTS_MAX: f64 = 10_000_000.0;

fn append(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let (list, more) = (&arguments[0], &arguments[1]);
    if !is_array(list) && *list != Value::Null {
        return wrong(run, "APPEND");
    }
    let more = if is_array(more) { more.elements() } else { to_array(more) };
    let mut elements = list.elements();
    if !flag(arguments, 2) {
        elements.extend(more);
        return Ok(Value::array(elements)?);
    }
    once(run, elements.into_iter().chain(more)).and_then(array)
}

fn contains(elements: &[Value], element: &Value) -> bool {
    elements.iter().any(|other| equal(other.view(), element.view()))
}

fn push(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let list = &arguments[0];
    if *list == Value::Null {
        return Ok(Value::array(vec![arguments[1].clone()])?);
    }
    if !is_array(list) {
        return wrong(run, "PUSH");
    }
    let mut elements = list.elements();
    if !flag(arguments, 2) || !contains(&elements, &arguments[1]) {
        elements.push(arguments[1].clone());
    }
    Ok(Value::array(elements)?)
}

fn unshift(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let list = &arguments[0];
    if !is_array(list) && *list != Value::Null {
        return wrong(run, "UNSHIFT");
    }
    let mut elements = list.elements();
    if !flag(arguments, 2) || !contains(&elements, &arguments[1]) {
        elements.insert(0, arguments[1].clone());
    }
    Ok(Value::array(elements)?)
}

/// The array without its first or last element.
fn without(
    run: &mut Run,
    arguments: &[Value],
    name: &str,
    is_first: bool,
) -> Result<Value, QueryError> {
    if arguments[0] == Value::Null {
        return Ok(Value::Null);
    }
    if !is_array(&arguments[0]) {
        return wrong(run, name);
    }
    let mut elements = arguments[0].elements();
    if is_first && !elements.is_empty() {
        elements.remove(0);
    } else {
        elements.pop();
    }
    Ok(Value::array(elements)?)
}

fn place(run: &mut Run, arguments: &[Value], name: &str, place: i64) -> Result<Value, QueryError> {
    if !is_array(&arguments[0]) {
        return wrong(run, name);
    }
    Ok(arguments[0].element(place))
}

fn nth(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_array(&arguments[0]) {
        return wrong(run, "NTH");
    }
    let place = whole(&arguments[1]);
    Ok(if place < 0 { Value::Null } else { arguments[0].element(place) })
}

fn flatten(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_array(&arguments[0]) {
        return wrong(run, "FLATTEN");
    }
    let depth = arguments.get(1).map_or(1, whole).clamp(1, LEVELS_MAX);
    let mut elements = Vec::new();
    flatten_into(&arguments[0], depth, &mut elements);
    Ok(Value::array(elements)?)
}

fn flatten_into(list: &Value, depth: i64, elements: &mut Vec<Value>) {
    for element in list.elements() {
        if depth > 0 && is_array(&element) {
            flatten_into(&element, depth - 1, elements);
        } else {
            elements.push(element);
        }
    }
}

fn slice(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_array(&arguments[0]) {
        return wrong(run, "SLICE");
    }
    let elements = arguments[0].elements();
    let length = i64::try_from(elements.len()).unwrap_or(i64::MAX);
    let within = |place: i64| {
        if place < 0 { place.saturating_add(length).max(0) } else { place.min(length) }
    };
    let from = within(whole(&arguments[1]));
    let to = match arguments.get(2) {
        None => length,
        Some(count) => match whole(count) {
            count if count < 0 => within(count),
            count => from.saturating_add(count).min(length),
        },
    };
    let range = usize::try_from(from).unwrap_or(0)..usize::try_from(to.max(from)).unwrap_or(0);
    Ok(Value::array(elements.get(range).unwrap_or_default().to_vec())?)
}

fn reverse(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if is_array(&arguments[0]) {
        let mut elements = arguments[0].elements();
        elements.reverse();
        return Ok(Value::array(elements)?);
    }
    match arguments[0].as_str() {
        Some(text) => Ok(Value::from(text.chars().rev().collect::<String>())),
        None => wrong(run, "REVERSE"),
    }
}

fn position(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_array(&arguments[0]) {
        return wrong(run, "POSITION");
    }
    let found = arguments[0]
        .elements()
        .iter()
        .position(|element| equal(element.view(), arguments[1].view()));
    Ok(match (flag(arguments, 2), found) {
        (false, found) => Value::Bool(found.is_some()),
        (true, Some(place)) => Value::count(place),
        (true, None) => Value::Int(-1),
    })
}

fn range(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let number = |value: &Value| pellucid_value::to_number(value.view()).to_double();
    if arguments.len() == 2 {
        let (from, to) = (whole(&arguments[0]), whole(&arguments[1]));
        if from.abs_diff(to) as f64 >= RANGE_ELEMENTS_MAX {
            return wrong(run, "RANGE");
        }
        return array(if from <= to {
            (from..=to).map(Value::Int).collect()
        } else {
            (to..=from).rev().map(Value::Int).collect()
        });
    }
    let (from, to, step) = (number(&arguments[0]), number(&arguments[1]), number(&arguments[2]));
    let is_endless = step == 0.0 || (from < to && step < 0.0) || (from > to && step > 0.0);
    if is_endless || ((to - from) / step) >= RANGE_ELEMENTS_MAX {
        return wrong(run, "RANGE");
    }
    let count = ((to - from) / step).floor() as i64;
    let elements = (0..=count).map(|place| from + step * place as f64);
    let is_whole = [from, step].iter().all(|value| value.fract() == 0.0);
    let value = |value: f64| if is_whole { Value::Int(value as i64) } else { Value::from(value) };
    Ok(Value::array(elements.map(value).collect())?)
}

fn length(_: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    use pellucid_value::Ref;
    Ok(Value::count(match arguments[0].view() {
        Ref::Null | Ref::Bool(false) => 0,
        Ref::Bool(true) => 1,
        Ref::Array(array) => array.len(),
        Ref::Object(object) => object.len(),
        Ref::String(text) => text.chars().count(),
        other => pellucid_value::to_text(other).chars().count(),
    }))
}

fn remove_value(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_array(&arguments[0]) {
        return wrong(run, "REMOVE_VALUE");
    }
    let mut left = arguments.get(2).map_or(i64::MAX, whole);
    let mut elements = arguments[0].elements();
    elements.retain(|element| {
        let goes = left > 0 && equal(element.view(), arguments[1].view());
        left -= i64::from(goes);
        !goes
    });
    Ok(Value::array(elements)?)
}

fn remove_values(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if arguments[1] == Value::Null {
        return Ok(arguments[0].clone());
    }
    if !is_array(&arguments[0]) || !is_array(&arguments[1]) {
        return wrong(run, "REMOVE_VALUES");
    }
    let mut removed = HashSet::new();
    for element in arguments[1].elements() {
        run.tick()?;
        removed.insert(key(&element));
    }
    filtered(run, arguments[0].elements(), |key| !removed.contains(key)).and_then(array)
}

/// A place that may be counted from the end.
fn from_end(place: i64, length: usize) -> i64 {
    if place < 0 { place.saturating_add(i64::try_from(length).unwrap_or(i64::MAX)) } else { place }
}

fn remove_nth(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_array(&arguments[0]) {
        return wrong(run, "REMOVE_NTH");
    }
    let mut elements = arguments[0].elements();
    let place = from_end(whole(&arguments[1]), elements.len());
    if let Ok(place) = usize::try_from(place)
        && place < elements.len()
    {
        elements.remove(place);
    }
    Ok(Value::array(elements)?)
}

fn replace_nth(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_array(&arguments[0]) || is_object(&arguments[1]) {
        return wrong(run, "REPLACE_NTH");
    }
    let mut elements = arguments[0].elements();
    let place = from_end(whole(&arguments[1]), elements.len()).max(0);
    let place = usize::try_from(place).unwrap_or(usize::MAX);
    if place >= elements.len() {
        let Some(padding) = arguments.get(3) else { return wrong(run, "REPLACE_NTH") };
        if place as f64 >= RANGE_ELEMENTS_MAX {
            return wrong(run, "REPLACE_NTH");
        }
        elements.resize(place + 1, padding.clone());
    }
    elements[place] = arguments[2].clone();
    Ok(Value::array(elements)?)
}

fn interleave(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !arguments.iter().all(is_array) {
        return wrong(run, "INTERLEAVE");
    }
    let lists: Vec<_> = arguments.iter().map(Value::elements).collect();
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let places =
        (0..longest).flat_map(|place| lists.iter().filter_map(move |list| list.get(place)));
    Ok(Value::array(places.cloned().collect())?)
}

//! Functions of arrays and their elements.

use pellucid_value::{Value, packed};

use super::function::{
    ARGUMENTS_MAX, Function, all_are_arrays, elements_of, first_is_array_or_null, flag, given,
    is_array, no_array, position_or_boolean, type_error, typed, whole, wrong_type,
};
use super::makers::{ListMaker, TextMaker, pieces, too_deep};
use super::value_set::{Set, equal};
use crate::query_run::QueryRun;
use crate::{QueryError, Result, number};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("APPEND", 2, 3, append),
    Function::pure("PUSH", 2, 3, |run, arguments| add(run, arguments, "PUSH", false)),
    Function::pure("POP", 1, 1, |run, arguments| without(run, arguments, "POP", false)),
    Function::pure("SHIFT", 1, 1, |run, arguments| without(run, arguments, "SHIFT", true)),
    Function::pure("UNSHIFT", 2, 3, |run, arguments| add(run, arguments, "UNSHIFT", true)),
    typed!(no_array: first_is_array, "FIRST", 1, 1, |_, arguments| Ok(arguments[0].element(0))),
    typed!(no_array: first_is_array, "LAST", 1, 1, |_, arguments| Ok(arguments[0].element(-1))),
    typed!(no_array: first_is_array, "NTH", 2, 2, nth),
    typed!(no_array: first_is_array, "FLATTEN", 1, 2, flatten),
    typed!(first_is_array, "SLICE", 2, 3, slice),
    Function::pure("REVERSE", 1, 1, reverse),
    typed!(no_array: first_is_array, "POSITION", 2, 3, position),
    typed!(no_array: first_is_array, "CONTAINS_ARRAY", 2, 3, position, "POSITION"),
    Function::pure("RANGE", 2, 3, range),
    Function::pure("LENGTH", 1, 1, length),
    Function::pure("COUNT", 1, 1, length),
    typed!(first_is_array_or_null, "REMOVE_VALUE", 2, 3, remove_value),
    Function::pure("REMOVE_VALUES", 2, 2, remove_values),
    typed!(first_is_array_or_null, "REMOVE_NTH", 2, 2, remove_nth),
    Function::impure("REPLACE_NTH", 3, 4, replace_nth),
    typed!(no_array: all_are_arrays, "INTERLEAVE", 2, ARGUMENTS_MAX, interleave),
];

/// The most elements of a range that is made in memory.
const RANGE_ELEMENTS_MAX: usize = 10_000_000;

fn append(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let (list, more) = (&arguments[0], &arguments[1]);
    if *more == Value::Null || (is_array(more) && elements_of(more) == 0) {
        return Ok(list.clone());
    }
    if *list == Value::Null {
        return Ok(more.clone());
    }
    if !is_array(list) {
        return wrong_type(run, "APPEND");
    }
    let more = match is_array(more) {
        true => more.clone(),
        false => Value::array(vec![more.clone()])?,
    };
    if flag(arguments, 2) {
        let set = Set::of_all([list, &more], run)?;
        let mut elements = ListMaker::with_room(run, set.len())?;
        set.into_marked().try_for_each(|(element, _)| elements.push(element))?;
        return elements.finish();
    }
    let length = elements_of(list).saturating_add(elements_of(&more));
    let mut elements = ListMaker::with_room(run, length)?;
    elements.extend(list)?;
    elements.extend(&more)?;
    elements.finish()
}

/// The index of the first element that equals `element`.
fn place_of(run: &mut QueryRun, list: &Value, element: &Value) -> Result<Option<usize>> {
    let Some(elements) = list.view().as_array() else { return Ok(None) };
    for (place, other) in elements.iter().enumerate() {
        run.tick()?;
        if equal(other, element.view(), run)? {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// The array with an element added at its front or end. With the argument for uniqueness, the
/// element is added only if no equal one is there.
fn add(run: &mut QueryRun, arguments: &[Value], name: &str, is_front: bool) -> Result<Value> {
    let (list, element) = (&arguments[0], &arguments[1]);
    if !first_is_array_or_null(arguments) {
        return wrong_type(run, name);
    }
    if flag(arguments, 2) && place_of(run, list, element)?.is_some() {
        return Ok(list.clone());
    }
    let mut elements = ListMaker::with_room(run, elements_of(list).saturating_add(1))?;
    if is_front {
        elements.push(element.clone())?;
    }
    elements.extend(list)?;
    if !is_front {
        elements.push(element.clone())?;
    }
    elements.finish()
}

/// The elements with these indexes.
fn within(run: &mut QueryRun, list: &Value, places: std::ops::Range<usize>) -> Result<Value> {
    let mut elements = ListMaker::with_room(run, places.len())?;
    for place in places {
        elements.push(list.nth(place))?;
    }
    elements.finish()
}

/// The array without its first or last element.
fn without(run: &mut QueryRun, arguments: &[Value], name: &str, is_first: bool) -> Result<Value> {
    if arguments[0] == Value::Null {
        return Ok(Value::Null);
    }
    if !is_array(&arguments[0]) {
        return wrong_type(run, name);
    }
    let length = elements_of(&arguments[0]);
    let places = if is_first { 1.min(length)..length } else { 0..length.saturating_sub(1) };
    within(run, &arguments[0], places)
}

fn nth(_: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let place = whole(&arguments[1]);
    Ok(if place < 0 { Value::Null } else { arguments[0].element(place) })
}

fn flatten(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let depth = arguments.get(1).map_or(1, whole).max(1);
    let mut elements = ListMaker::new(run);
    flatten_into(&arguments[0], depth, 0, &mut elements)?;
    elements.finish()
}

fn flatten_into(
    list: &Value,
    depth: i64,
    level: usize,
    elements: &mut ListMaker<'_>,
) -> Result<()> {
    if level > packed::DEPTH_MAX {
        return Err(too_deep());
    }
    for element in list.each() {
        if depth > 0 && is_array(&element) {
            elements.run.tick()?;
            flatten_into(&element, depth - 1, level + 1, elements)?;
        } else {
            elements.push(element)?;
        }
    }
    Ok(())
}

fn slice(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let length = i64::try_from(elements_of(&arguments[0])).unwrap_or(i64::MAX);
    let bounded = |place: i64| {
        if place < 0 { place.saturating_add(length).max(0) } else { place.min(length) }
    };
    let from = bounded(whole(&arguments[1]));
    let to = match given(arguments, 2) {
        None => length,
        Some(count) => match whole(count) {
            count if count < 0 => bounded(count),
            count => from.saturating_add(count).min(length),
        },
    };
    let places = usize::try_from(from).unwrap_or(0)..usize::try_from(to.max(from)).unwrap_or(0);
    within(run, &arguments[0], places)
}

fn reverse(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    if is_array(&arguments[0]) {
        let length = elements_of(&arguments[0]);
        let mut elements = ListMaker::with_room(run, length)?;
        for place in (0..length).rev() {
            elements.push(arguments[0].nth(place))?;
        }
        return elements.finish();
    }
    let Some(text) = arguments[0].as_str() else { return no_array(run, "REVERSE") };
    let mut reversed = TextMaker::with_room(run, text.len())?;
    let all: Vec<&str> = pieces(text, super::makers::STEP_BYTES).collect();
    for piece in all.into_iter().rev() {
        reversed.push(&piece.chars().rev().collect::<String>())?;
    }
    reversed.finish()
}

fn position(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let found = place_of(run, &arguments[0], &arguments[1])?;
    Ok(position_or_boolean(found, flag(arguments, 2)))
}

fn range(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let number = |value: &Value| pellucid_value::to_number(value.view()).to_double();
    let Some(step) = given(arguments, 2) else {
        return whole_range(run, whole(&arguments[0]), whole(&arguments[1]));
    };
    let (mut next, to, step) = (number(&arguments[0]), number(&arguments[1]), number(step));
    let is_past = |next: f64| if step < 0.0 { next < to } else { next > to };
    if step == 0.0 || is_past(next) {
        return wrong_type(run, "RANGE");
    }
    // Steps are limited, and the step is added to each element, as in ArangoDB. The sums are
    // rounded, so that there may be one element more. They need not grow, if the step is small
    // beside them.
    let steps = ((to - next) / step) as usize;
    if steps > RANGE_ELEMENTS_MAX {
        return Err(too_many_elements());
    }
    let most = steps + 2;
    let mut elements = ListMaker::with_room(run, most)?;
    while !is_past(next) && elements.len() < most {
        elements.push(Value::from(next))?;
        next += step;
    }
    elements.finish()
}

/// Makes the error for a range, or an array that is padded, with too many elements.
fn too_many_elements() -> QueryError {
    let message = format!("an array would have more than {RANGE_ELEMENTS_MAX} elements");
    QueryError::new(number::RESOURCE_LIMIT, message)
}

/// The array of the whole numbers from `from` to `to`, both included, upwards or downwards.
///
/// # Errors
/// 32 if there are too many.
pub(crate) fn whole_range(run: &mut QueryRun, from: i64, to: i64) -> Result<Value> {
    let steps = usize::try_from(from.abs_diff(to)).unwrap_or(usize::MAX);
    if steps >= RANGE_ELEMENTS_MAX {
        return Err(too_many_elements());
    }
    let mut elements = ListMaker::with_room(run, steps + 1)?;
    let (least, greatest) = (from.min(to), from.max(to));
    let mut push = |number| elements.push(Value::Int(number));
    if from <= to {
        (least..=greatest).try_for_each(&mut push)?;
    } else {
        (least..=greatest).rev().try_for_each(&mut push)?;
    }
    elements.finish()
}

fn length(_: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    use pellucid_value::Ref;
    Ok(Value::count(match arguments[0].view() {
        Ref::Null | Ref::Bool(false) => 0,
        Ref::Bool(true) => 1,
        Ref::Array(array) => array.len(),
        Ref::Object(object) => object.len(),
        Ref::String(text) => text.chars().count(),
        number => pellucid_value::to_text(number).chars().count(),
    }))
}

/// The array without the elements that `goes` accepts.
fn retained(
    run: &mut QueryRun,
    list: &Value,
    mut goes: impl FnMut(&Value, &mut QueryRun) -> Result<bool>,
) -> Result<Value> {
    let mut elements = ListMaker::new(run);
    for element in list.each() {
        elements.run.tick()?;
        if !goes(&element, elements.run)? {
            elements.push(element)?;
        }
    }
    elements.finish()
}

fn remove_value(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let limit = given(arguments, 2).and_then(|limit| usize::try_from(whole(limit)).ok());
    let mut left = limit.unwrap_or(usize::MAX);
    retained(run, &arguments[0], |element, run| {
        let goes = left > 0 && equal(element.view(), arguments[1].view(), run)?;
        left -= usize::from(goes);
        Ok(goes)
    })
}

fn remove_values(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    if arguments[1] == Value::Null {
        return Ok(arguments[0].clone());
    }
    if arguments[0] != Value::Null && !all_are_arrays(arguments) {
        return wrong_type(run, "REMOVE_VALUES");
    }
    let removed = Set::of(&arguments[1], run)?;
    retained(run, &arguments[0], |element, run| {
        removed.place(element.view(), run).map(|place| place.is_some())
    })
}

/// The index for a place that may be negative, which counts from the end.
fn from_end(place: i64, length: usize) -> i64 {
    if place < 0 { place.saturating_add(i64::try_from(length).unwrap_or(i64::MAX)) } else { place }
}

fn remove_nth(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let place = from_end(whole(&arguments[1]), elements_of(&arguments[0]));
    let place = usize::try_from(place).ok();
    let mut at = 0;
    retained(run, &arguments[0], |_, _| {
        at += 1;
        Ok(place == Some(at - 1))
    })
}

fn replace_nth(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    if !is_array(&arguments[0]) {
        return wrong_type(run, "REPLACE_NTH");
    }
    let length = elements_of(&arguments[0]);
    let place = from_end(whole(&arguments[1]), length).max(0);
    let place = usize::try_from(place).unwrap_or(usize::MAX);
    let padding = arguments.get(3);
    if arguments[1] == Value::Null || (place > length && padding.is_none()) {
        return Err(type_error("REPLACE_NTH"));
    }
    if place > length && place >= RANGE_ELEMENTS_MAX {
        return Err(too_many_elements());
    }
    let mut elements = ListMaker::with_room(run, length.max(place + 1))?;
    for at in 0..length.max(place + 1) {
        elements.push(match padding {
            _ if at == place => arguments[2].clone(),
            Some(padding) if at >= length => padding.clone(),
            _ => arguments[0].nth(at),
        })?;
    }
    elements.finish()
}

fn interleave(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let length = arguments.iter().map(elements_of).fold(0_usize, usize::saturating_add);
    let mut elements = ListMaker::with_room(run, length)?;
    let mut lists: Vec<&Value> = arguments.iter().collect();
    for place in 0.. {
        lists.retain(|list| place < elements_of(list));
        if lists.is_empty() {
            break;
        }
        for list in &lists {
            elements.push(list.nth(place))?;
        }
    }
    elements.finish()
}

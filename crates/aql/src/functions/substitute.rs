//! The function `SUBSTITUTE`, which replaces parts of a string.

use pellucid_value::{Ref, Value};

use super::function::{Function, elements_of, is_array, is_object, whole, wrong_type};
use super::makers::{TextMaker, room_for, text};
use super::search::Searcher;
use crate::Result;
use crate::query_run::QueryRun;

pub(super) const FUNCTIONS: &[Function] = &[Function::pure("SUBSTITUTE", 2, 4, substitute)];

fn substitute(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let own = text(run, &arguments[0])?;
    let is_mapping = is_object(&arguments[1]);
    let replacement = arguments.get(2).filter(|_| !is_mapping);
    if !are_texts(&arguments[1], replacement) {
        return wrong_type(run, "SUBSTITUTE");
    }
    let limit = arguments.get(if is_mapping { 2 } else { 3 });
    let mut left = match limit.map_or(-1, whole) {
        -1 => usize::MAX,
        limit => usize::try_from(limit).unwrap_or(0),
    };
    let pairs = pairs(run, &arguments[1], replacement)?;
    let mut texts: Vec<(&str, &str)> = room_for(run, pairs.len())?;
    for (part, other) in &pairs {
        run.tick()?;
        if let Some(part) = part.as_str().filter(|part| !part.is_empty()) {
            texts.push((part, other.as_str().unwrap_or_default()));
        }
    }
    let mut parts: Vec<&str> = room_for(run, texts.len())?;
    parts.extend(texts.iter().map(|(part, _)| *part));
    // At each position, the first of the texts that are found there is replaced.
    let mut searcher = Searcher::new(run, &parts)?;
    let (mut made, mut from) = (TextMaker::new(run), 0);
    while left > 0 && !parts.is_empty() {
        let Some(found) = searcher.next(made.run, &own, from)? else { break };
        made.push(&own[from..found.begin])?;
        made.push(texts[found.part].1)?;
        from = found.end;
        left -= 1;
    }
    made.push(&own[from..])?;
    made.finish()
}

/// True if all texts and replacements are strings. In an array or an object, a replacement may be
/// null.
fn are_texts(search: &Value, replacement: Option<&Value>) -> bool {
    let is_text = |value: Ref<'_>| matches!(value, Ref::String(_));
    let is_text_or_null = |value: Ref<'_>| matches!(value, Ref::String(_) | Ref::Null);
    let are_sought = match search.view() {
        Ref::Array(list) => list.iter().all(is_text),
        Ref::Object(object) => object.iter().all(|(_, other)| is_text_or_null(other)),
        other => is_text(other),
    };
    are_sought
        && match replacement.map(Value::view) {
            None => true,
            Some(Ref::Array(list)) => list.iter().all(is_text_or_null),
            Some(other) => is_text(other),
        }
}

/// The texts and their replacements. A single replacement applies to all texts; without one, texts
/// are removed.
fn pairs(
    run: &mut QueryRun,
    search: &Value,
    replacement: Option<&Value>,
) -> Result<Vec<(Value, Value)>> {
    if let Some(object) = search.view().as_object() {
        let mut pairs = room_for(run, object.len())?;
        pairs.extend(search.each_member(false).map(|(name, other)| (name.into(), other)));
        return Ok(pairs);
    }
    let other = |place: usize| match replacement {
        Some(list) if is_array(list) => list.nth(place),
        Some(other) => other.clone(),
        None => Value::Null,
    };
    if !is_array(search) {
        return Ok(vec![(search.clone(), other(0))]);
    }
    let mut pairs = room_for(run, elements_of(search))?;
    pairs.extend(search.each().enumerate().map(|(place, part)| (part, other(place))));
    Ok(pairs)
}

//! Objects and their attributes.

use std::collections::HashSet;

use pellucid_value::{MergeOptions, ObjectBuilder, Text, Value, equal, merge_into, packed};

use super::strings::text;
use super::{ARGUMENTS_MAX, Function, array, flag, is_array, is_object, wrong};
use crate::QueryError;
use crate::run::Run;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("ATTRIBUTES", 1, 3, attributes),
    Function::pure("KEYS", 1, 3, attributes),
    Function::pure("VALUES", 1, 2, values),
    Function::pure("ENTRIES", 1, 1, entries),
    Function::pure("HAS", 2, 2, has),
    Function::pure("MERGE", 1, ARGUMENTS_MAX, |run, arguments| {
        merge(run, arguments, "MERGE", false)
    }),
    Function::pure("MERGE_RECURSIVE", 1, ARGUMENTS_MAX, |run, arguments| {
        merge(run, arguments, "MERGE_RECURSIVE", true)
    }),
    Function::pure("UNSET", 2, ARGUMENTS_MAX, |run, arguments| {
        select(run, arguments, "UNSET", false)
    }),
    Function::pure("KEEP", 2, ARGUMENTS_MAX, |run, arguments| select(run, arguments, "KEEP", true)),
    Function::pure("ZIP", 2, 2, zip),
    Function::pure("MATCHES", 2, 3, matches),
    Function::pure("TRANSLATE", 2, 3, translate),
    Function::pure("VALUE", 2, 2, value),
    Function::pure("PARSE_IDENTIFIER", 1, 1, parse_identifier),
    Function::pure("PARSE_KEY", 1, 1, |run, arguments| match identifier(&arguments[0]) {
        Some((_, key)) => Ok(key.into()),
        None => wrong(run, "PARSE_KEY"),
    }),
    Function::pure("PARSE_COLLECTION", 1, 1, |run, arguments| match identifier(&arguments[0]) {
        Some((collection, _)) => Ok(collection.into()),
        None => wrong(run, "PARSE_COLLECTION"),
    }),
    Function::pure("IS_SAME_COLLECTION", 2, 2, is_same_collection),
];

/// The members by name, without those whose names begin with `_` if they are not wanted.
fn members(value: &Value, without_system: bool) -> Vec<(Text, Value)> {
    let mut members = value.members(true);
    members.retain(|(name, _)| !without_system || !name.starts_with('_'));
    members
}

fn attributes(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_object(&arguments[0]) {
        return wrong(run, "ATTRIBUTES");
    }
    let members = members(&arguments[0], flag(arguments, 1));
    Ok(Value::array(members.into_iter().map(|(name, _)| name.into()).collect())?)
}

fn values(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_object(&arguments[0]) {
        return wrong(run, "VALUES");
    }
    let members = members(&arguments[0], flag(arguments, 1));
    Ok(Value::array(members.into_iter().map(|(_, value)| value).collect())?)
}

fn entries(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_object(&arguments[0]) {
        return wrong(run, "ENTRIES");
    }
    let entry = |(name, value): (Text, Value)| Value::array(vec![name.into(), value]);
    let entries = arguments[0].members(true).into_iter().map(entry);
    array(entries.collect::<Result<_, _>>()?)
}

fn has(_: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let name = text(&arguments[1]);
    let object = arguments[0].view().as_object();
    Ok(Value::Bool(object.is_some_and(|object| object.get(&name).is_some())))
}

fn merge(
    run: &mut Run,
    arguments: &[Value],
    name: &str,
    is_deep: bool,
) -> Result<Value, QueryError> {
    let parts = match arguments {
        [list] if is_array(list) => list.elements(),
        parts => parts.to_vec(),
    };
    if !parts.iter().all(is_object) {
        return wrong(run, name);
    }
    if !is_deep {
        let mut object = ObjectBuilder::new();
        for part in parts {
            for (name, value) in part.members(false) {
                run.tick()?;
                object.insert(name, value);
            }
        }
        return Ok(object.finish()?);
    }
    let mut merged = ObjectBuilder::new().finish()?;
    for part in parts {
        // Each begins with a copy of those before.
        run.check()?;
        let (Some(old), Some(new)) = (merged.view().as_object(), part.view().as_object()) else {
            continue;
        };
        let mut builder = packed::Builder::new();
        builder.begin_object();
        merge_into(&mut builder, old, new, MergeOptions::default(), &|_| false);
        builder.end();
        merged = Value::open(&builder.finish()?).unwrap_or_default();
    }
    Ok(merged)
}

/// The names that arguments from the second on are, or the elements of an array there.
pub(super) fn names(arguments: &[Value]) -> Vec<String> {
    match &arguments[1..] {
        [list] if is_array(list) => list.elements().iter().map(text).collect(),
        names => names.iter().map(text).collect(),
    }
}

/// The object with only, or without, what is named.
fn select(
    run: &mut Run,
    arguments: &[Value],
    name: &str,
    keeps: bool,
) -> Result<Value, QueryError> {
    if !is_object(&arguments[0]) {
        return wrong(run, name);
    }
    let names: HashSet<_> = names(arguments).into_iter().collect();
    let mut object = ObjectBuilder::new();
    for (name, value) in arguments[0].members(true) {
        run.tick()?;
        if names.contains(name.as_str()) == keeps {
            object.insert(name, value);
        }
    }
    Ok(object.finish()?)
}

fn zip(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let (names, values) = (&arguments[0], &arguments[1]);
    if !is_array(names) || !is_array(values) {
        return wrong(run, "ZIP");
    }
    let (names, values) = (names.elements(), values.elements());
    if names.len() != values.len() {
        return wrong(run, "ZIP");
    }
    let mut object = ObjectBuilder::with(pellucid_value::Duplicates::First);
    for (name, value) in names.iter().zip(values) {
        run.tick()?;
        object.insert(text(name), value);
    }
    Ok(object.finish()?)
}

fn matches(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let own = &arguments[0];
    if !is_object(own) {
        return Ok(Value::Bool(false));
    }
    let examples =
        if is_array(&arguments[1]) { arguments[1].elements() } else { vec![arguments[1].clone()] };
    let mut found = None;
    for (place, example) in examples.iter().enumerate() {
        run.tick()?;
        let Some(example) = example.view().as_object() else {
            wrong(run, "MATCHES")?;
            continue;
        };
        let own = own.view();
        if example.iter().all(|(name, value)| equal(own.attribute(name), value)) {
            found = Some(place);
            break;
        }
    }
    Ok(match (flag(arguments, 2), found) {
        (false, found) => Value::Bool(found.is_some()),
        (true, Some(place)) => Value::count(place),
        (true, None) => Value::Int(-1),
    })
}

fn translate(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let Some(table) = arguments[1].view().as_object() else { return wrong(run, "TRANSLATE") };
    if table.get(&text(&arguments[0])).is_some() {
        return Ok(arguments[1].attribute(&text(&arguments[0])));
    }
    Ok(arguments.get(2).unwrap_or(&arguments[0]).clone())
}

fn value(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    if !is_object(&arguments[0]) || !is_array(&arguments[1]) {
        return wrong(run, "VALUE");
    }
    let mut found = arguments[0].clone();
    for step in arguments[1].elements() {
        found = match step.as_str() {
            Some(name) => found.attribute(name),
            None => found.element(super::whole(&step)),
        };
    }
    Ok(found)
}

/// The collection and the key of a document or its `_id`.
fn identifier(value: &Value) -> Option<(String, String)> {
    let id = if is_object(value) { value.attribute("_id") } else { value.clone() };
    let (collection, key) = id.as_str()?.split_once('/')?;
    let is_one = !collection.is_empty() && !key.is_empty() && !key.contains('/');
    is_one.then(|| (collection.to_owned(), key.to_owned()))
}

fn parse_identifier(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let Some((collection, key)) = identifier(&arguments[0]) else {
        return wrong(run, "PARSE_IDENTIFIER");
    };
    let mut object = ObjectBuilder::new();
    object.insert("collection", collection.into());
    object.insert("key", key.into());
    Ok(object.finish()?)
}

fn is_same_collection(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    match (arguments[0].as_str(), identifier(&arguments[1])) {
        (Some(name), Some((collection, _))) => Ok(Value::Bool(name == collection)),
        _ => wrong(run, "IS_SAME_COLLECTION"),
    }
}

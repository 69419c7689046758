//! Functions of objects and their attributes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use pellucid_value::{Text, Value, packed};

use super::function::{
    ARGUMENTS_MAX, Function, elements_of, flag, is_array, is_object, natural, position_or_boolean,
    typed, wrong_type,
};
use super::makers::{ListMaker, ObjectMaker, part_of, room_for, text, too_deep};
use super::value_set::equal;
use crate::Result;
use crate::query_run::QueryRun;

pub(super) const FUNCTIONS: &[Function] = &[
    typed!(first_is_object, "ATTRIBUTES", 1, 3, attributes),
    typed!(first_is_object, "KEYS", 1, 3, attributes, "ATTRIBUTES"),
    typed!(first_is_object, "VALUES", 1, 2, values),
    typed!(first_is_object, "ENTRIES", 1, 1, entries),
    Function::pure("HAS", 2, 2, has),
    Function::pure("MERGE", 1, ARGUMENTS_MAX, |run, arguments| {
        merge(run, arguments, "MERGE", false)
    }),
    Function::pure("MERGE_RECURSIVE", 1, ARGUMENTS_MAX, |run, arguments| {
        merge(run, arguments, "MERGE_RECURSIVE", true)
    }),
    Function::pure("ZIP", 2, 2, zip),
    Function::pure("MATCHES", 2, 3, matches),
    Function::pure("TRANSLATE", 2, 3, translate),
    Function::pure("VALUE", 2, 2, value),
    Function::pure("PARSE_IDENTIFIER", 1, 1, parse_identifier),
    Function::pure("PARSE_KEY", 1, 1, |run, arguments| {
        let id = id_of(&arguments[0]);
        match identifier(&id) {
            Some((_, key)) => part_of(run, key),
            None => wrong_type(run, "PARSE_KEY"),
        }
    }),
    Function::pure("PARSE_COLLECTION", 1, 1, |run, arguments| {
        let id = id_of(&arguments[0]);
        match identifier(&id) {
            Some((collection, _)) => part_of(run, collection),
            None => wrong_type(run, "PARSE_COLLECTION"),
        }
    }),
    Function::pure("IS_SAME_COLLECTION", 2, 2, is_same_collection),
];

/// The members sorted by name; if `without_system`, without those whose names begin with `_`.
fn members(value: &Value, without_system: bool) -> impl Iterator<Item = (Text, Value)> + '_ {
    value.each_member(true).filter(move |(name, _)| !without_system || !name.starts_with('_'))
}

fn attributes(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let mut names = ListMaker::new(run);
    for (name, _) in members(&arguments[0], flag(arguments, 1)) {
        names.push(name.into())?;
    }
    names.finish()
}

fn values(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let mut values = ListMaker::new(run);
    for (_, value) in members(&arguments[0], flag(arguments, 1)) {
        values.push(value)?;
    }
    values.finish()
}

fn entries(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let mut entries = ListMaker::new(run);
    for (name, value) in arguments[0].each_member(true) {
        let mut entry = ListMaker::with_room(entries.run, 2)?;
        entry.run.memory.take(ENTRY_BYTES)?;
        entry.push(name.into())?;
        entry.push(value)?;
        let entry = entry.finish()?;
        entries.push(entry)?;
    }
    entries.finish()
}

/// The bytes of an array besides its elements.
const ENTRY_BYTES: usize = 64;

fn has(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let name = text(run, &arguments[1])?;
    let object = arguments[0].view().as_object();
    Ok(Value::Bool(object.is_some_and(|object| object.get(&name).is_some())))
}

fn merge(run: &mut QueryRun, arguments: &[Value], name: &str, is_deep: bool) -> Result<Value> {
    let parts = match arguments {
        [list] if is_array(list) => {
            let mut parts = room_for(run, elements_of(list))?;
            parts.extend(list.each());
            parts
        }
        parts => parts.to_vec(),
    };
    if !parts.iter().all(is_object) {
        return wrong_type(run, name);
    }
    if is_deep {
        return merged(run, parts, 0);
    }
    let mut object = ObjectMaker::new(run);
    for part in parts {
        for (name, value) in part.each_member(false) {
            object.insert(name, value)?;
        }
    }
    object.finish()
}

/// Merges objects. The last value of a name is kept; if the last values of a name are objects, they
/// are merged as well.
fn merged(run: &mut QueryRun, parts: Vec<Value>, depth: usize) -> Result<Value> {
    if depth > packed::DEPTH_MAX {
        return Err(too_deep());
    }
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut members: Vec<(Text, Vec<Value>)> = Vec::new();
    for part in parts {
        for (name, value) in part.each_member(false) {
            run.tick()?;
            run.memory.take(MERGED_BYTES + name.len())?;
            match places.entry(name.as_str().to_owned()) {
                Entry::Occupied(place) => {
                    let values = &mut members[*place.get()].1;
                    if !is_object(&value) || !values.last().is_some_and(is_object) {
                        values.clear();
                    }
                    values.push(value);
                }
                Entry::Vacant(place) => {
                    place.insert(members.len());
                    members.push((name, vec![value]));
                }
            }
        }
    }
    let mut object = ObjectMaker::new(run);
    for (name, mut values) in members {
        let value = match values.len() {
            1 => values.pop().unwrap_or_default(),
            _ => merged(object.run, values, depth + 1)?,
        };
        object.insert(name, value)?;
    }
    object.finish()
}

/// The bytes of a member while objects are merged.
const MERGED_BYTES: usize = 200;

fn zip(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let (names, values) = (&arguments[0], &arguments[1]);
    if !is_array(names) || !is_array(values) || elements_of(names) != elements_of(values) {
        return wrong_type(run, "ZIP");
    }
    let mut object = ObjectMaker::with(run, pellucid_value::DuplicateRule::First);
    for (name, value) in names.each().zip(values.each()) {
        match name {
            Value::String(name) => object.insert(name, value)?,
            name => {
                let name = text(object.run, &name)?;
                object.insert_named(&name, value)?;
            }
        }
    }
    object.finish()
}

fn matches(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let own = &arguments[0];
    if !is_object(own) {
        return Ok(Value::Bool(false));
    }
    let single = (!is_array(&arguments[1])).then(|| arguments[1].clone());
    let examples = arguments[1].each().chain(single);
    let mut found = None;
    for (place, example) in examples.enumerate() {
        run.tick()?;
        let Some(example) = example.view().as_object() else {
            wrong_type(run, "MATCHES")?;
            continue;
        };
        let mut is_like = true;
        for (name, value) in example.iter() {
            run.tick()?;
            is_like = equal(own.view().attribute(name), value, run)?;
            if !is_like {
                break;
            }
        }
        if is_like {
            found = Some(place);
            break;
        }
    }
    Ok(position_or_boolean(found, flag(arguments, 2)))
}

fn translate(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let Some(table) = arguments[1].view().as_object() else { return wrong_type(run, "TRANSLATE") };
    let name = text(run, &arguments[0])?;
    if table.get(&name).is_some() {
        return Ok(arguments[1].attribute(&name));
    }
    Ok(arguments.get(2).unwrap_or(&arguments[0]).clone())
}

fn value(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    if !is_object(&arguments[0]) || !is_array(&arguments[1]) {
        return wrong_type(run, "VALUE");
    }
    if elements_of(&arguments[1]) == 0 {
        return Ok(Value::Null);
    }
    let mut found = arguments[0].clone();
    for step in arguments[1].each() {
        run.tick()?;
        found = match step.as_str() {
            Some(name) => found.attribute(name),
            None => natural(&step).map_or(Value::Null, |place| found.nth(place)),
        };
    }
    Ok(found)
}

/// The `_id` of a document, or the value itself.
fn id_of(value: &Value) -> Value {
    if is_object(value) { value.attribute("_id") } else { value.clone() }
}

/// The collection and the key of an `_id`.
fn identifier(id: &Value) -> Option<(&str, &str)> {
    id.as_str()?.split_once('/').filter(|(_, key)| !key.contains('/'))
}

fn parse_identifier(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let id = id_of(&arguments[0]);
    let Some((collection, key)) = identifier(&id) else {
        return wrong_type(run, "PARSE_IDENTIFIER");
    };
    let (collection, key) = (part_of(run, collection)?, part_of(run, key)?);
    let mut object = ObjectMaker::new(run);
    object.insert("collection", collection)?;
    object.insert("key", key)?;
    object.finish()
}

/// The name of a collection: that of an `_id`, or the text itself.
fn collection_of(id: &Value) -> Option<&str> {
    id.as_str()?.split('/').next().filter(|name| !name.is_empty())
}

fn is_same_collection(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    match (collection_of(&id_of(&arguments[0])), collection_of(&id_of(&arguments[1]))) {
        (Some(left), Some(right)) => Ok(Value::Bool(left == right)),
        _ => wrong_type(run, "IS_SAME_COLLECTION"),
    }
}

//! Attributes at any depth.

use std::collections::HashSet;

use pellucid_value::packed::DEPTH_MAX;
use pellucid_value::{ObjectBuilder, OverLimit, Value};

use super::objects::names;
use super::{ARGUMENTS_MAX, Function, array, is_array, is_object, wrong};
use crate::QueryError;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("KEEP_RECURSIVE", 2, ARGUMENTS_MAX, |run, arguments| {
        if !is_object(&arguments[0]) {
            return wrong(run, "KEEP_RECURSIVE");
        }
        keep(&arguments[0], &names(arguments).into_iter().collect())
    }),
    Function::pure("UNSET_RECURSIVE", 2, ARGUMENTS_MAX, |run, arguments| {
        if !is_object(&arguments[0]) {
            return wrong(run, "UNSET_RECURSIVE");
        }
        unset(&arguments[0], &names(arguments).into_iter().collect())
    }),
];

fn keep(value: &Value, names: &HashSet<String>) -> Result<Value, QueryError> {
    each(value, &|name| names.contains(name), &|value| keep(value, names))
}

fn unset(value: &Value, names: &HashSet<String>) -> Result<Value, QueryError> {
    each(value, &|name| !names.contains(name), &|value| unset(value, names))
}

/// The value with what stays of its members, and the same within them.
fn each(
    value: &Value,
    stays: &dyn Fn(&str) -> bool,
    within: &dyn Fn(&Value) -> Result<Value, QueryError>,
) -> Result<Value, QueryError> {
    if value.depth() > DEPTH_MAX {
        return Err(OverLimit::Depth { document: None }.into());
    }
    if is_array(value) {
        return array(value.elements().iter().map(within).collect::<Result<_, _>>()?);
    }
    if !is_object(value) {
        return Ok(value.clone());
    }
    let mut object = ObjectBuilder::new();
    for (name, member) in value.members(true) {
        if stays(&name) {
            object.insert(name, within(&member)?);
        }
    }
    Ok(object.finish()?)
}

//! Attributes at any depth.

use pellucid_value::{ObjectBuilder, Value};

use super::objects::names;
use super::{ARGUMENTS_MAX, Function, is_array, is_object, wrong};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("KEEP_RECURSIVE", 2, ARGUMENTS_MAX, |run, arguments| {
        if !is_object(&arguments[0]) {
            return wrong(run, "KEEP_RECURSIVE");
        }
        Ok(keep(&arguments[0], &names(arguments)))
    }),
    Function::pure("UNSET_RECURSIVE", 2, ARGUMENTS_MAX, |run, arguments| {
        if !is_object(&arguments[0]) {
            return wrong(run, "UNSET_RECURSIVE");
        }
        Ok(unset(&arguments[0], &names(arguments)))
    }),
];

fn is_named(names: &[String], name: &str) -> bool {
    names.iter().any(|other| other == name)
}

fn keep(value: &Value, names: &[String]) -> Value {
    each(value, &|name| is_named(names, name), &|value| keep(value, names))
}

fn unset(value: &Value, names: &[String]) -> Value {
    each(value, &|name| !is_named(names, name), &|value| unset(value, names))
}

/// The value with what stays of its members, and the same within them.
fn each(value: &Value, stays: &dyn Fn(&str) -> bool, within: &dyn Fn(&Value) -> Value) -> Value {
    if is_array(value) {
        return Value::array(value.elements().iter().map(within).collect());
    }
    if !is_object(value) {
        return value.clone();
    }
    let mut object = ObjectBuilder::new();
    for (name, member) in value.members(true) {
        if stays(&name) {
            object.insert(name, within(&member));
        }
    }
    object.finish()
}

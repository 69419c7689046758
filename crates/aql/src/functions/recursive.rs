//! Attributes at any depth.

use std::collections::HashSet;

use pellucid_value::{Value, packed};

use super::function::{ARGUMENTS_MAX, Function, elements_of, is_array, is_object, wrong};
use super::make::{ListMaker, ObjectMaker, too_deep};
use super::objects::names;
use crate::Result;
use crate::run::Run;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("KEEP_RECURSIVE", 2, ARGUMENTS_MAX, |run, arguments| {
        select(run, arguments, "KEEP_RECURSIVE", true)
    }),
    Function::pure("UNSET_RECURSIVE", 2, ARGUMENTS_MAX, |run, arguments| {
        select(run, arguments, "UNSET_RECURSIVE", false)
    }),
];

fn select(run: &mut Run, arguments: &[Value], name: &str, keeps: bool) -> Result<Value> {
    if !is_object(&arguments[0]) {
        return wrong(run, name);
    }
    let names = names(run, arguments)?;
    within(run, &arguments[0], &names, keeps, 0)
}

/// The value with only, or without, the members that are named, and the same within them.
fn within(
    run: &mut Run,
    value: &Value,
    names: &HashSet<String>,
    keeps: bool,
    depth: usize,
) -> Result<Value> {
    if depth > packed::DEPTH_MAX {
        return Err(too_deep());
    }
    if is_array(value) {
        let mut elements = ListMaker::with_room(run, elements_of(value))?;
        for element in value.each() {
            let element = within(elements.run, &element, names, keeps, depth + 1)?;
            elements.push(element)?;
        }
        return elements.finish();
    }
    if !is_object(value) {
        return Ok(value.clone());
    }
    let mut object = ObjectMaker::new(run);
    for (name, member) in value.each_member(true) {
        object.run.tick()?;
        if names.contains(name.as_str()) == keeps {
            let member = within(object.run, &member, names, keeps, depth + 1)?;
            object.insert(name, member)?;
        }
    }
    object.finish()
}

//! Functions that keep or remove members of objects, at any depth.

use std::collections::HashSet;

use pellucid_value::{Value, packed};

use super::function::{ARGUMENTS_MAX, Function, is_array, is_object, typed};
use super::makers::{ObjectMaker, text, too_deep};
use crate::Result;
use crate::query_run::QueryRun;

/// The choice of members.
#[derive(Clone, Copy)]
struct MemberSelection {
    /// True if the named members are kept, false if they are removed.
    keeps: bool,
    /// True if it applies to nested objects as well.
    is_recursive: bool,
}

pub(super) const FUNCTIONS: &[Function] = &[
    typed!(first_is_object, "KEEP", 2, ARGUMENTS_MAX, |run, arguments| {
        select(run, arguments, MemberSelection { keeps: true, is_recursive: false })
    }),
    typed!(first_is_object, "KEEP_RECURSIVE", 2, ARGUMENTS_MAX, |run, arguments| {
        select(run, arguments, MemberSelection { keeps: true, is_recursive: true })
    }),
    typed!(first_is_object, "UNSET", 2, ARGUMENTS_MAX, |run, arguments| {
        select(run, arguments, MemberSelection { keeps: false, is_recursive: false })
    }),
    typed!(first_is_object, "UNSET_RECURSIVE", 2, ARGUMENTS_MAX, |run, arguments| {
        select(run, arguments, MemberSelection { keeps: false, is_recursive: true })
    }),
];

fn select(run: &mut QueryRun, arguments: &[Value], choice: MemberSelection) -> Result<Value> {
    let names = names(run, arguments)?;
    within(run, &arguments[0], &names, choice, 0)
}

/// The names in the arguments from the second on, and in arrays there.
fn names(run: &mut QueryRun, arguments: &[Value]) -> Result<HashSet<String>> {
    let mut names = HashSet::new();
    let mut add = |value: &Value| -> Result<()> {
        let name = text(run, value)?;
        run.tick()?;
        run.memory.take(NAME_BYTES.saturating_add(name.len()))?;
        names.insert(name.into_owned());
        Ok(())
    };
    for argument in &arguments[1..] {
        match is_array(argument) {
            true => argument.each().try_for_each(|name| add(&name))?,
            false => add(argument)?,
        }
    }
    Ok(names)
}

/// The bytes of a name in a set besides its text, with the spare capacity of the set.
const NAME_BYTES: usize = 96;

/// The object with only, or without, the named members; if the choice is recursive, also within
/// nested objects, but not within arrays.
fn within(
    run: &mut QueryRun,
    value: &Value,
    names: &HashSet<String>,
    choice: MemberSelection,
    depth: usize,
) -> Result<Value> {
    if depth > packed::DEPTH_MAX {
        return Err(too_deep());
    }
    let mut object = ObjectMaker::new(run);
    for (name, member) in value.each_member(true) {
        object.run.tick()?;
        if names.contains(name.as_str()) == choice.keeps {
            let member = match choice.is_recursive && is_object(&member) {
                true => within(object.run, &member, names, choice, depth + 1)?,
                false => member,
            };
            object.insert(name, member)?;
        }
    }
    object.finish()
}

//! Functions of arrays as sets. Results without a defined order are in the order of first
//! occurrence.

use pellucid_value::Value;

use super::function::{ARGUMENTS_MAX, Function, elements_of, typed};
use super::makers::{ListMaker, room_for};
use super::value_set::{self, Set};
use crate::Result;
use crate::query_run::QueryRun;

pub(super) const FUNCTIONS: &[Function] = &[
    typed!(all_are_arrays, "UNION", 2, ARGUMENTS_MAX, union),
    typed!(all_are_arrays, "UNION_DISTINCT", 2, ARGUMENTS_MAX, union_distinct),
    typed!(no_array: all_are_arrays, "INTERSECTION", 2, ARGUMENTS_MAX, intersection),
    typed!(no_array: all_are_arrays, "OUTERSECTION", 2, ARGUMENTS_MAX, outersection),
    typed!(all_are_arrays, "MINUS", 2, ARGUMENTS_MAX, minus),
    typed!(no_array: first_is_array, "UNIQUE", 1, 1, unique),
    typed!(no_array: first_is_array, "SORTED", 1, 1, sorted),
    typed!(no_array: first_is_array, "SORTED_UNIQUE", 1, 1, sorted_unique),
    typed!(no_array: first_is_array, "COUNT_DISTINCT", 1, 1, count_distinct),
    typed!(no_array: first_is_array, "COUNT_UNIQUE", 1, 1, count_distinct, "COUNT_DISTINCT"),
    typed!(no_array: all_are_arrays, "JACCARD", 2, 2, jaccard),
];

/// The members of the set whose marks `stays` accepts.
fn marked(run: &mut QueryRun, set: Set, stays: impl Fn(usize) -> bool) -> Result<Value> {
    let mut list = ListMaker::new(run);
    for (value, _) in set.into_marked().filter(|(_, mark)| stays(*mark)) {
        list.push(value)?;
    }
    list.finish()
}

fn union(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let lengths = arguments.iter().map(elements_of);
    let length = lengths.fold(0_usize, usize::saturating_add);
    let mut list = ListMaker::with_room(run, length)?;
    arguments.iter().try_for_each(|argument| list.extend(argument))?;
    list.finish()
}

fn union_distinct(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let set = Set::of_all(arguments, run)?;
    marked(run, set, |_| true)
}

fn intersection(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    // The mark of a member is the number of arrays so far, if all of them contain it.
    let mut set = Set::of(&arguments[0], run)?;
    for (before, list) in arguments[1..].iter().enumerate() {
        for element in list.each() {
            if let Some(place) = set.place(element.view(), run)?
                && *set.mark(place) == before
            {
                *set.mark(place) += 1;
            }
        }
    }
    marked(run, set, |mark| mark + 1 == arguments.len())
}

fn outersection(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    // The mark of a member is the number of its occurrences.
    let mut set = Set::default();
    for element in arguments.iter().flat_map(Value::each) {
        let (place, _) = set.insert(element, run)?;
        *set.mark(place) += 1;
    }
    marked(run, set, |mark| mark == 1)
}

fn minus(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let mut set = Set::of(&arguments[0], run)?;
    for list in &arguments[1..] {
        for element in list.each() {
            if let Some(place) = set.place(element.view(), run)? {
                *set.mark(place) = 1;
            }
        }
    }
    marked(run, set, |mark| mark == 0)
}

fn unique(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let set = Set::of(&arguments[0], run)?;
    marked(run, set, |_| true)
}

fn sort(run: &mut QueryRun, elements: Vec<Value>) -> Result<Value> {
    let sorted = value_set::sorted(elements, run)?;
    Ok(Value::array(sorted)?)
}

fn sorted(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let mut elements = room_for(run, elements_of(&arguments[0]))?;
    for element in arguments[0].each() {
        run.tick()?;
        elements.push(element);
    }
    sort(run, elements)
}

fn sorted_unique(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let set = Set::of(&arguments[0], run)?;
    let mut elements = room_for(run, set.len())?;
    elements.extend(set.into_marked().map(|(value, _)| value));
    sort(run, elements)
}

fn count_distinct(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    Ok(Value::count(Set::of(&arguments[0], run)?.len()))
}

fn jaccard(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    // The mark of a member is 1 if both arrays contain it.
    let mut set = Set::of(&arguments[0], run)?;
    let own = set.len();
    for element in arguments[1].each() {
        let (place, _) = set.insert(element, run)?;
        *set.mark(place) = usize::from(place < own);
    }
    let all = set.len();
    if all == 0 {
        return Ok(Value::from(1.0));
    }
    let common = set.into_marked().filter(|(_, mark)| *mark == 1).count();
    Ok(Value::from(common as f64 / all as f64))
}

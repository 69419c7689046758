//! Functions of strings: parts and searches. Positions count characters.

use std::collections::HashSet;

use pellucid_value::{Kind, Value};

use super::function::{
    ARGUMENTS_MAX, Function, elements_of, flag, given, is_array, is_object, natural, whole,
    wrong_type,
};
use super::makers::{ListMaker, STEP_BYTES, TextMaker, part_of, room_for, text};
use super::search::{Searcher, find, find_last};
use crate::evaluate::like;
use crate::query_run::QueryRun;
use crate::{QueryError, Result, number};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("CONCAT", 1, ARGUMENTS_MAX, |run, arguments| join(run, "", arguments)),
    Function::pure("CONCAT_SEPARATOR", 2, ARGUMENTS_MAX, concat_separator),
    Function::pure("CHAR_LENGTH", 1, 1, |run, arguments| {
        Ok(Value::count(text(run, &arguments[0])?.chars().count()))
    }),
    Function::pure("SUBSTRING", 2, 3, substring),
    Function::pure("LEFT", 2, 2, left),
    Function::pure("RIGHT", 2, 2, right),
    Function::pure("CONTAINS", 2, 3, contains),
    Function::pure("FIND_FIRST", 2, 4, |run, arguments| found(run, arguments, find)),
    Function::pure("FIND_LAST", 2, 4, |run, arguments| found(run, arguments, find_last)),
    Function::pure("STARTS_WITH", 2, 4, starts_with),
    Function::pure("LIKE", 2, 3, |run, arguments| {
        let (own, pattern) = (text(run, &arguments[0])?, text(run, &arguments[1])?);
        like(&own, &pattern, flag(arguments, 2), run).map(Value::Bool)
    }),
    Function::pure("TRIM", 1, 2, trim),
    Function::pure("LTRIM", 1, 2, |run, arguments| trimmed(run, arguments, true, false)),
    Function::pure("RTRIM", 1, 2, |run, arguments| trimmed(run, arguments, false, true)),
    Function::pure("SPLIT", 1, 3, split),
    Function::pure("REPEAT", 2, 3, repeat),
    Function::pure("TO_CHAR", 1, 1, to_char),
    Function::pure("LEVENSHTEIN_DISTANCE", 2, 2, levenshtein),
];

/// The most steps of an edit distance: the product of the lengths of both texts in characters.
const LEVENSHTEIN_STEPS_MAX: usize = 100_000_000;

fn concat_separator(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let separator = text(run, &arguments[0])?;
    join(run, &separator, &arguments[1..])
}

/// Joins the texts of values other than null with a separator. A single array stands for its
/// elements.
fn join(run: &mut QueryRun, separator: &str, parts: &[Value]) -> Result<Value> {
    let mut joined = TextMaker::new(run);
    let mut is_first = true;
    let mut add = |part: pellucid_value::Ref<'_>| {
        if matches!(part, pellucid_value::Ref::Null) {
            return joined.run.tick();
        }
        if !std::mem::take(&mut is_first) {
            joined.push(separator)?;
        }
        joined.value(part)
    };
    match parts {
        [list] if let Some(list) = list.view().as_array() => list.iter().try_for_each(add)?,
        parts => parts.iter().map(Value::view).try_for_each(&mut add)?,
    }
    joined.finish()
}

/// Converts a position in characters to an offset in bytes; the end if there are fewer characters.
fn byte_place(own: &str, characters: usize) -> usize {
    let mut rest = own.chars();
    if let Some(before_last) = characters.checked_sub(1) {
        rest.nth(before_last);
    }
    own.len() - rest.as_str().len()
}

fn substring(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let own = text(run, &arguments[0])?;
    let length = i64::try_from(own.chars().count()).unwrap_or(i64::MAX);
    let offset = whole(&arguments[1]);
    let offset = if offset < 0 { offset.saturating_add(length).max(0) } else { offset };
    let count = arguments.get(2).map_or(i64::MAX, whole).max(0);
    let (from, to) = (offset.min(length), offset.saturating_add(count).min(length));
    let from = byte_place(&own, usize::try_from(from).unwrap_or(0));
    let to = byte_place(&own, usize::try_from(to).unwrap_or(0));
    part_of(run, &own[from..to.max(from)])
}

fn left(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let own = text(run, &arguments[0])?;
    let count = usize::try_from(whole(&arguments[1])).unwrap_or(0);
    part_of(run, &own[..byte_place(&own, count)])
}

fn right(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let own = text(run, &arguments[0])?;
    let count = usize::try_from(whole(&arguments[1])).unwrap_or(0);
    let skip = own.chars().count().saturating_sub(count);
    part_of(run, &own[byte_place(&own, skip)..])
}

/// Converts an offset in bytes to a position in characters; -1 if there is none.
fn place(own: &str, at: Option<usize>) -> i64 {
    at.map_or(-1, |at| i64::try_from(own[..at].chars().count()).unwrap_or(i64::MAX))
}

fn contains(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let (own, part) = (text(run, &arguments[0])?, text(run, &arguments[1])?);
    // In ArangoDB, no text contains the empty one.
    let found = if part.is_empty() { None } else { find(run, &own, &part)? };
    if flag(arguments, 2) { Ok(Value::Int(place(&own, found))) } else { Ok(found.is_some().into()) }
}

/// The range in bytes between two positions in characters, the second of which is included.
fn window(own: &str, arguments: &[Value]) -> Option<(usize, usize)> {
    let bound = |place| given(arguments, place).map(whole);
    let length = own.chars().count();
    let from = usize::try_from(bound(2).unwrap_or(0)).ok()?;
    let to = match bound(3) {
        Some(end) => usize::try_from(end).ok()?.saturating_add(1).min(length),
        None => length,
    };
    (from <= to).then(|| (byte_place(own, from), byte_place(own, to)))
}

type SearchFunction = fn(&mut QueryRun, &str, &str) -> Result<Option<usize>>;

/// The position in characters that the search finds within the range of the arguments, or -1.
fn found(run: &mut QueryRun, arguments: &[Value], search: SearchFunction) -> Result<Value> {
    let (own, part) = (text(run, &arguments[0])?, text(run, &arguments[1])?);
    let Some((from, to)) = window(&own, arguments) else { return Ok(Value::Int(-1)) };
    let found = search(run, &own[from..to], &part)?;
    Ok(Value::Int(place(&own, found.map(|at| from + at))))
}

fn starts_with(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let Some(own) = arguments[0].as_str() else { return wrong_type(run, "STARTS_WITH") };
    if let Some(prefix) = arguments[1].as_str() {
        return Ok(Value::Bool(own.starts_with(prefix)));
    }
    let least = arguments.get(2).map_or(Some(1), natural);
    let Some(mut missing) = least.filter(|_| is_array(&arguments[1])) else {
        return wrong_type(run, "STARTS_WITH");
    };
    // As in ArangoDB, elements that cannot change the result may be of any type.
    if missing > elements_of(&arguments[1]) {
        return Ok(Value::Bool(false));
    }
    let mut prefixes = arguments[1].each();
    while missing > 0 {
        let Some(prefix) = prefixes.next() else { return Ok(Value::Bool(false)) };
        let Some(prefix) = prefix.as_str() else { return wrong_type(run, "STARTS_WITH") };
        run.tick_by(1 + prefix.len().min(own.len()) / STEP_BYTES)?;
        missing -= usize::from(own.starts_with(prefix));
    }
    Ok(Value::Bool(true))
}

fn trim(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    match arguments.get(1) {
        Some(set) if set.kind() == Kind::String => trimmed(run, arguments, true, true),
        Some(side) if side.kind() == Kind::Number => {
            trimmed(run, &arguments[..1], whole(side) != 2, whole(side) != 1)
        }
        _ => trimmed(run, &arguments[..1], true, true),
    }
}

/// The bytes of a character in a set, with the spare capacity of the set.
const CHARACTER_BYTES: usize = 24;

fn trimmed(
    run: &mut QueryRun,
    arguments: &[Value],
    from_left: bool,
    from_right: bool,
) -> Result<Value> {
    let own = text(run, &arguments[0])?;
    let mut characters: HashSet<char> = HashSet::new();
    match arguments.get(1) {
        Some(set) => {
            let set = text(run, set)?;
            for character in set.chars() {
                run.tick()?;
                if characters.insert(character) {
                    run.memory.take(CHARACTER_BYTES)?;
                }
            }
        }
        None => characters.extend(" \t\r\n".chars()),
    }
    let (mut from, mut to) = (0, own.len());
    if from_left {
        let stays = stay(run, own.char_indices(), &characters)?;
        from = stays.map_or(own.len(), |(at, _)| at);
    }
    if from_right {
        let stays = stay(run, own[from..].char_indices().rev(), &characters)?;
        to = stays.map_or(from, |(at, character)| from + at + character.len_utf8());
    }
    part_of(run, &own[from..to])
}

/// The first character that is not in the set.
fn stay(
    run: &mut QueryRun,
    mut characters: impl Iterator<Item = (usize, char)>,
    set: &HashSet<char>,
) -> Result<Option<(usize, char)>> {
    loop {
        run.tick()?;
        match characters.next() {
            Some((_, character)) if set.contains(&character) => {}
            other => return Ok(other),
        }
    }
}

/// The array of the first characters of a text, at most `most`.
pub(super) fn split_characters(run: &mut QueryRun, own: &str, most: usize) -> Result<Value> {
    let mut parts = ListMaker::new(run);
    for character in own.chars().take(most) {
        parts.push_text(character.encode_utf8(&mut [0; 4]))?;
    }
    parts.finish()
}

/// The most parts of a split: a number, or all if no limit is given. `None` if the result is null,
/// with a warning unless the limit is a negative number.
pub(super) fn parts_max(
    run: &mut QueryRun,
    limit: Option<&Value>,
    name: &str,
) -> Result<Option<usize>> {
    match limit {
        None => Ok(Some(usize::MAX)),
        Some(limit) if limit.kind() == Kind::Number => Ok(natural(limit)),
        Some(_) => wrong_type(run, name).map(|_| None),
    }
}

fn split(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let Some(most) = parts_max(run, arguments.get(2), "SPLIT")? else { return Ok(Value::Null) };
    if arguments.get(1).is_some_and(is_object) {
        return wrong_type(run, "SPLIT");
    }
    let own = text(run, &arguments[0])?;
    let Some(separators) = given(arguments, 1) else {
        let mut parts = ListMaker::new(run);
        parts.push_text(&own)?;
        return parts.finish();
    };
    let mut separating = Vec::new();
    if is_array(separators) {
        separating = room_for(run, elements_of(separators))?;
        separating.extend(separators.each());
    } else {
        separating.push(separators.clone());
    }
    let mut texts = room_for(run, separating.len())?;
    for separator in &separating {
        texts.push(text(run, separator)?);
    }
    if texts.iter().any(|separator| separator.is_empty()) {
        return split_characters(run, &own, most);
    }
    let mut sought: Vec<&str> = room_for(run, texts.len())?;
    sought.extend(texts.iter().map(|separator| &**separator));
    let mut searcher = Searcher::new(run, &sought)?;
    let (mut parts, mut from) = (ListMaker::new(run), 0);
    while parts.len() < most {
        let Some(found) = searcher.next(parts.run, &own, from)? else {
            parts.push_text(&own[from..])?;
            break;
        };
        parts.push_text(&own[from..found.begin])?;
        from = found.end;
    }
    parts.finish()
}

fn repeat(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let own = text(run, &arguments[0])?;
    let separator = match arguments.get(2) {
        Some(separator) => text(run, separator)?,
        None => "".into(),
    };
    let Ok(count) = usize::try_from(whole(&arguments[1])) else { return wrong_type(run, "REPEAT") };
    let between = count.saturating_sub(1).saturating_mul(separator.len());
    let bytes = own.len().saturating_mul(count).saturating_add(between);
    let mut repeated = TextMaker::with_room(run, bytes)?;
    if count < 2 {
        repeated.push(&own[..bytes])?;
        return repeated.finish();
    }
    // Several copies are appended at a time, so that there are few steps.
    let each = own.len() + separator.len();
    let times = (STEP_BYTES / each.max(1)).clamp(1, count);
    repeated.run.memory.take(each * times)?;
    let mut unit = String::with_capacity(each * times);
    for _ in 0..times {
        unit.push_str(&own);
        unit.push_str(&separator);
    }
    let mut left = bytes;
    while left > 0 {
        let part = left.min(unit.len());
        repeated.push(&unit[..part])?;
        left -= part;
    }
    repeated.finish()
}

fn to_char(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let code = natural(&arguments[0]).and_then(|code| u32::try_from(code).ok());
    match code.and_then(char::from_u32) {
        Some(character) => part_of(run, character.encode_utf8(&mut [0; 4])),
        None => wrong_type(run, "TO_CHAR"),
    }
}

/// The characters of a text.
fn characters(run: &mut QueryRun, value: &Value) -> Result<Vec<char>> {
    let own = text(run, value)?;
    let mut characters = room_for(run, own.chars().count())?;
    characters.extend(own.chars());
    Ok(characters)
}

fn levenshtein(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let left = characters(run, &arguments[0])?;
    let right = characters(run, &arguments[1])?;
    if left.len().saturating_mul(right.len()) > LEVENSHTEIN_STEPS_MAX {
        let message = format!("an edit distance takes more than {LEVENSHTEIN_STEPS_MAX} steps");
        return Err(QueryError::new(number::RESOURCE_LIMIT, message));
    }
    let mut before: Vec<usize> = room_for(run, right.len() + 1)?;
    before.extend(0..=right.len());
    let mut row: Vec<usize> = room_for(run, right.len() + 1)?;
    for (at, character) in left.iter().enumerate() {
        row.clear();
        row.push(at + 1);
        for (other_at, other) in right.iter().enumerate() {
            run.tick()?;
            let changed = before[other_at] + usize::from(character != other);
            row.push(changed.min(before[other_at + 1] + 1).min(row[other_at] + 1));
        }
        std::mem::swap(&mut before, &mut row);
    }
    Ok(Value::count(before[right.len()]))
}

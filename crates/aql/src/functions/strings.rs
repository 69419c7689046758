//! Strings: parts of them, and searching in them. Places are counted in characters.

use pellucid_value::{Value, to_text};

use super::{ARGUMENTS_MAX, Function, TEXT_BYTES_MAX, flag, is_array, too_long, whole, wrong};
use crate::QueryError;
use crate::evaluate::like;
use crate::run::Run;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("CONCAT", 1, ARGUMENTS_MAX, concat),
    Function::pure("CONCAT_SEPARATOR", 2, ARGUMENTS_MAX, concat_separator),
    Function::pure("CHAR_LENGTH", 1, 1, |_, arguments| {
        Ok(Value::count(text(&arguments[0]).chars().count()))
    }),
    Function::pure("LOWER", 1, 1, |_, arguments| Ok(text(&arguments[0]).to_lowercase().into())),
    Function::pure("UPPER", 1, 1, |_, arguments| Ok(text(&arguments[0]).to_uppercase().into())),
    Function::pure("SUBSTRING", 2, 3, substring),
    Function::pure("LEFT", 2, 2, left),
    Function::pure("RIGHT", 2, 2, right),
    Function::pure("CONTAINS", 2, 3, contains),
    Function::pure("FIND_FIRST", 2, 4, find_first),
    Function::pure("FIND_LAST", 2, 4, find_last),
    Function::pure("STARTS_WITH", 2, 3, starts_with),
    Function::pure("LIKE", 2, 3, |run, arguments| {
        let (own, pattern) = (text(&arguments[0]), text(&arguments[1]));
        like(&own, &pattern, flag(arguments, 2), &mut || run.tick()).map(Value::Bool)
    }),
    Function::pure("TRIM", 1, 2, trim),
    Function::pure("LTRIM", 1, 2, |_, arguments| trimmed(arguments, true, false)),
    Function::pure("RTRIM", 1, 2, |_, arguments| trimmed(arguments, false, true)),
    Function::pure("SPLIT", 1, 3, split),
    Function::pure("REPEAT", 2, 3, repeat),
    Function::pure("TO_CHAR", 1, 1, to_char),
    Function::pure("LEVENSHTEIN_DISTANCE", 2, 2, levenshtein),
];

/// How many characters both texts of an edit distance may have in product.
const LEVENSHTEIN_STEPS_MAX: usize = 100_000_000;

pub(super) fn text(value: &Value) -> String {
    to_text(value.view())
}

fn concat(_: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let parts = match arguments {
        [list] if is_array(list) => list.elements(),
        arguments => arguments.to_vec(),
    };
    join("", &parts)
}

fn concat_separator(_: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let parts = match &arguments[1..] {
        [list] if is_array(list) => list.elements(),
        arguments => arguments.to_vec(),
    };
    join(&text(&arguments[0]), &parts)
}

/// The texts of what is not null, with the separator between them.
fn join(separator: &str, parts: &[Value]) -> Result<Value, QueryError> {
    let mut joined = String::new();
    let mut is_first = true;
    for part in parts.iter().filter(|part| **part != Value::Null) {
        if !is_first {
            joined.push_str(separator);
        }
        is_first = false;
        pellucid_value::write_text(part.view(), &mut joined);
        if joined.len() > TEXT_BYTES_MAX {
            return Err(too_long());
        }
    }
    Ok(joined.into())
}

fn substring(_: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let own: Vec<char> = text(&arguments[0]).chars().collect();
    let length = i64::try_from(own.len()).unwrap_or(i64::MAX);
    let offset = whole(&arguments[1]);
    let offset = if offset < 0 { offset.saturating_add(length).max(0) } else { offset };
    let count = arguments.get(2).map_or(i64::MAX, whole);
    // A negative length counts from the end.
    let end = if count < 0 { length.saturating_add(count) } else { offset.saturating_add(count) };
    let (from, to) = (offset.min(length), end.clamp(0, length));
    let range = usize::try_from(from).unwrap_or(0)..usize::try_from(to.max(from)).unwrap_or(0);
    Ok(own[range].iter().collect::<String>().into())
}

fn left(_: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let count = usize::try_from(whole(&arguments[1])).unwrap_or(0);
    Ok(text(&arguments[0]).chars().take(count).collect::<String>().into())
}

fn right(_: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let own = text(&arguments[0]);
    let count = usize::try_from(whole(&arguments[1])).unwrap_or(0);
    let skip = own.chars().count().saturating_sub(count);
    Ok(own.chars().skip(skip).collect::<String>().into())
}

/// The place in characters of a place in bytes.
fn place(own: &str, at: Option<usize>) -> i64 {
    at.map_or(-1, |at| i64::try_from(own[..at].chars().count()).unwrap_or(i64::MAX))
}

fn contains(_: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let (own, part) = (text(&arguments[0]), text(&arguments[1]));
    let found = own.find(&part);
    if flag(arguments, 2) { Ok(Value::Int(place(&own, found))) } else { Ok(found.is_some().into()) }
}

/// The bytes of the text between two characters, the second of which belongs to them.
fn window(own: &str, arguments: &[Value]) -> Option<(usize, usize)> {
    let bound = |place: usize| match arguments.get(place) {
        Some(value) if *value != Value::Null => Some(whole(value)),
        _ => None,
    };
    let starts: Vec<usize> =
        own.char_indices().map(|(at, _)| at).chain(std::iter::once(own.len())).collect();
    let from = usize::try_from(bound(2).unwrap_or(0)).ok()?;
    let to = match bound(3) {
        Some(end) => usize::try_from(end).ok()?.saturating_add(1).min(starts.len() - 1),
        None => starts.len() - 1,
    };
    (from <= to).then(|| (starts[from], starts[to]))
}

fn find_first(_: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let (own, part) = (text(&arguments[0]), text(&arguments[1]));
    let Some((from, to)) = window(&own, arguments) else { return Ok(Value::Int(-1)) };
    Ok(Value::Int(place(&own, own[from..to].find(&part).map(|at| from + at))))
}

fn find_last(_: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let (own, part) = (text(&arguments[0]), text(&arguments[1]));
    let Some((from, to)) = window(&own, arguments) else { return Ok(Value::Int(-1)) };
    Ok(Value::Int(place(&own, own[from..to].rfind(&part).map(|at| from + at))))
}

fn starts_with(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let Some(own) = arguments[0].as_str() else { return wrong(run, "STARTS_WITH") };
    if !is_array(&arguments[1]) {
        return Ok(Value::Bool(own.starts_with(&text(&arguments[1]))));
    }
    let least = arguments.get(2).map_or(1, whole);
    let prefixes = arguments[1].elements();
    let found = prefixes.iter().filter(|prefix| own.starts_with(&text(prefix))).count();
    Ok(Value::Bool(i64::try_from(found).unwrap_or(i64::MAX) >= least))
}

fn trim(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    match arguments.get(1) {
        Some(side) if side.kind() == pellucid_value::Kind::Number => match whole(side) {
            0 => trimmed(&arguments[..1], true, true),
            1 => trimmed(&arguments[..1], true, false),
            2 => trimmed(&arguments[..1], false, true),
            _ => wrong(run, "TRIM"),
        },
        _ => trimmed(arguments, true, true),
    }
}

fn trimmed(arguments: &[Value], from_left: bool, from_right: bool) -> Result<Value, QueryError> {
    let own = text(&arguments[0]);
    let characters: Vec<char> = match arguments.get(1) {
        Some(characters) => text(characters).chars().collect(),
        None => " \t\r\n".chars().collect(),
    };
    let goes = |character: char| characters.contains(&character);
    let mut rest = own.as_str();
    if from_left {
        rest = rest.trim_start_matches(goes);
    }
    if from_right {
        rest = rest.trim_end_matches(goes);
    }
    Ok(rest.into())
}

/// What a part of a string takes beside its text.
const PART_BYTES: usize = 48;

fn split(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let own = text(&arguments[0]);
    let Some(separators) = arguments.get(1).filter(|value| **value != Value::Null) else {
        return Ok(Value::array(vec![own.into()])?);
    };
    let separators: Vec<String> = if is_array(separators) {
        separators.elements().iter().map(text).collect()
    } else {
        vec![text(separators)]
    };
    let most = match arguments.get(2).filter(|value| **value != Value::Null) {
        Some(most) => match usize::try_from(whole(most)) {
            Ok(most) => most,
            Err(_) => return wrong(run, "SPLIT"),
        },
        None => usize::MAX,
    };
    let mut parts: Vec<Value> = Vec::new();
    let mut rest = own.as_str();
    if separators.iter().any(String::is_empty) {
        run.take_memory(own.chars().count().min(most) * PART_BYTES)?;
        let characters = own.chars().take(most).map(|character| character.to_string().into());
        return Ok(Value::array(characters.collect())?);
    }
    while parts.len() < most {
        run.tick()?;
        run.take_memory(PART_BYTES)?;
        let next = separators
            .iter()
            .filter_map(|separator| rest.find(separator.as_str()).map(|at| (at, separator.len())))
            .min_by_key(|(at, length)| (*at, std::cmp::Reverse(*length)));
        let Some((at, length)) = next else {
            parts.push(rest.into());
            break;
        };
        parts.push(rest[..at].into());
        rest = &rest[at + length..];
    }
    Ok(Value::array(parts)?)
}

fn repeat(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let own = text(&arguments[0]);
    let separator = arguments.get(2).map(text).unwrap_or_default();
    let Ok(count) = usize::try_from(whole(&arguments[1])) else { return wrong(run, "REPEAT") };
    if (own.len() + separator.len()).max(1).saturating_mul(count) > TEXT_BYTES_MAX {
        return Err(too_long());
    }
    Ok(vec![own; count].join(&separator).into())
}

fn to_char(_: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let code = u32::try_from(whole(&arguments[0])).ok().and_then(char::from_u32);
    Ok(code.map_or(Value::Null, |character| character.to_string().into()))
}

fn levenshtein(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let left: Vec<char> = text(&arguments[0]).chars().collect();
    let right: Vec<char> = text(&arguments[1]).chars().collect();
    if left.len().saturating_mul(right.len()) > LEVENSHTEIN_STEPS_MAX {
        return Err(too_long());
    }
    let mut before: Vec<usize> = (0..=right.len()).collect();
    for (at, character) in left.iter().enumerate() {
        run.check()?;
        let mut row = vec![at + 1];
        for (other_at, other) in right.iter().enumerate() {
            let changed = before[other_at] + usize::from(character != other);
            row.push(changed.min(before[other_at + 1] + 1).min(row[other_at] + 1));
        }
        before = row;
    }
    Ok(Value::count(before[right.len()]))
}

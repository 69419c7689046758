//! Regular expressions.

use pellucid_value::Value;

use super::strings::text;
use super::{Function, TEXT_BYTES_MAX, flag, too_long, whole, wrong};
use crate::run::Run;
use crate::{QueryError, number};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("REGEX_TEST", 2, 3, test),
    Function::pure("REGEX_MATCHES", 2, 3, matches),
    Function::pure("REGEX_REPLACE", 3, 4, replace),
    Function::pure("REGEX_SPLIT", 2, 4, split),
];

fn invalid(run: &mut Run) -> Result<Value, QueryError> {
    run.warn_null(number::INVALID_REGEX, "invalid regex value")
}

fn test(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let Some(regex) = run.regexes.get(&text(&arguments[1]), flag(arguments, 2)) else {
        return invalid(run);
    };
    Ok(Value::Bool(regex.is_match(&text(&arguments[0]))))
}

fn matches(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let Some(regex) = run.regexes.get(&text(&arguments[1]), flag(arguments, 2)) else {
        return invalid(run);
    };
    let own = text(&arguments[0]);
    let Some(found) = regex.captures(&own) else { return Ok(Value::Null) };
    let groups = found.iter().map(|group| group.map_or("", |group| group.as_str()).into());
    Ok(Value::array(groups.collect())?)
}

fn replace(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let Some(regex) = run.regexes.get(&text(&arguments[1]), flag(arguments, 3)) else {
        return invalid(run);
    };
    let (own, other) = (text(&arguments[0]), text(&arguments[2]));
    let count = regex.find_iter(&own).count();
    if other.len().saturating_mul(count) + own.len() > TEXT_BYTES_MAX {
        return Err(too_long());
    }
    Ok(regex.replace_all(&own, other.as_str()).into_owned().into())
}

fn split(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let Some(regex) = run.regexes.get(&text(&arguments[1]), flag(arguments, 2)) else {
        return invalid(run);
    };
    let most = match arguments.get(3) {
        Some(most) => match usize::try_from(whole(most)) {
            Ok(most) => most,
            Err(_) => return wrong(run, "REGEX_SPLIT"),
        },
        None => usize::MAX,
    };
    let own = text(&arguments[0]);
    let mut parts: Vec<Value> = Vec::new();
    let mut from = 0;
    for found in regex.captures_iter(&own) {
        let Some(all) = found.get(0).filter(|_| parts.len() < most) else { break };
        if all.is_empty() {
            continue;
        }
        parts.push(own[from..all.start()].into());
        // What groups have captured stays.
        let groups = found.iter().skip(1).flatten();
        parts.extend(groups.map(|group| Value::from(group.as_str())));
        from = all.end();
    }
    if parts.len() < most {
        parts.push(own[from..].into());
    }
    parts.truncate(most);
    Ok(Value::array(parts)?)
}

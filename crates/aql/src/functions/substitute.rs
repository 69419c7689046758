//! Replacing parts of a string by others.

use pellucid_value::Value;

use super::strings::text;
use super::{Function, TEXT_BYTES_MAX, is_array, is_object, too_long, whole, wrong};
use crate::QueryError;
use crate::run::Run;

pub(super) const FUNCTIONS: &[Function] = &[Function::pure("SUBSTITUTE", 2, 4, substitute)];

fn substitute(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let own = text(&arguments[0]);
    let is_mapping = is_object(&arguments[1]);
    let pairs: Vec<(String, String)> = if is_mapping {
        let members = arguments[1].members(true).into_iter();
        members.map(|(name, value)| (name.to_string(), text(&value))).collect()
    } else {
        pairs(&arguments[1], arguments.get(2))
    };
    let limit = arguments.get(if is_mapping { 2 } else { 3 });
    let mut left = match limit {
        Some(limit) => match usize::try_from(whole(limit)) {
            Ok(limit) => limit,
            Err(_) => return wrong(run, "SUBSTITUTE"),
        },
        None => usize::MAX,
    };
    // At each place the longest of what is found there is replaced.
    let mut result = String::new();
    let mut rest = own.as_str();
    while left > 0 {
        run.tick()?;
        let next = pairs
            .iter()
            .filter(|(part, _)| !part.is_empty())
            .filter_map(|(part, other)| rest.find(part.as_str()).map(|at| (at, part, other)))
            .min_by_key(|(at, part, _)| (*at, std::cmp::Reverse(part.len())));
        let Some((at, part, other)) = next else { break };
        result.push_str(&rest[..at]);
        result.push_str(other);
        if result.len() > TEXT_BYTES_MAX {
            return Err(too_long());
        }
        rest = &rest[at + part.len()..];
        left -= 1;
    }
    result.push_str(rest);
    Ok(result.into())
}

/// What is replaced, and by what: one replacement stands for all, and none for nothing.
fn pairs(search: &Value, replacement: Option<&Value>) -> Vec<(String, String)> {
    let parts: Vec<String> = if is_array(search) {
        search.elements().iter().map(text).collect()
    } else {
        vec![text(search)]
    };
    let others = match replacement {
        Some(list) if is_array(list) => list.elements().iter().map(text).collect(),
        Some(other) => vec![text(other); parts.len()],
        None => Vec::new(),
    };
    let pair = |(place, part)| (part, others.get(place).cloned().unwrap_or_default());
    parts.into_iter().enumerate().map(pair).collect()
}

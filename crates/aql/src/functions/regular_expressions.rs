//! Functions of regular expressions.

use std::sync::Arc;

use pellucid_value::Value;
use regex_automata::Match;

use super::function::{Function, flag};
use super::makers::{ListMaker, TextMaker, text};
use super::strings::{parts_max, split_characters};
use crate::evaluate::{Matches, captures, is_match};
use crate::query_run::QueryRun;
use crate::regex_cache::CompiledRegex;
use crate::{Result, number};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("REGEX_TEST", 2, 3, test),
    Function::pure("REGEX_MATCHES", 2, 3, matches),
    Function::pure("REGEX_REPLACE", 3, 4, replace),
    Function::pure("REGEX_SPLIT", 2, 4, split),
];

/// The compiled expression of the second argument.
fn expression(
    run: &mut QueryRun,
    arguments: &[Value],
    ignores_case: bool,
) -> Result<Option<Arc<CompiledRegex>>> {
    let pattern = text(run, &arguments[1])?;
    let expression = run.regexes.get(&pattern, ignores_case);
    if expression.is_none() {
        run.warn(number::INVALID_REGEX, "invalid regex value")?;
    }
    Ok(expression)
}

fn test(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let Some(expression) = expression(run, arguments, flag(arguments, 2))? else {
        return Ok(Value::Null);
    };
    let own = text(run, &arguments[0])?;
    is_match(&expression, &own, run).map(Value::Bool)
}

fn matches(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let Some(expression) = expression(run, arguments, flag(arguments, 2))? else {
        return Ok(Value::Null);
    };
    let own = text(run, &arguments[0])?;
    let Some(found) = Matches::new(&expression, &own, run).next(run)? else {
        return Ok(Value::Null);
    };
    let captures = captures(&expression, &own, found)?;
    let mut groups = ListMaker::new(run);
    for group in captures.iter() {
        groups.push_text(group.map_or("", |group| &own[group.range()]))?;
    }
    groups.finish()
}

/// The group that a text behind `$` begins with, as a number or as a name in braces, and the bytes
/// of that reference. A number has as many digits as there is such a group.
fn reference(expression: &CompiledRegex, text: &str) -> Option<(usize, usize)> {
    if let Some(text) = text.strip_prefix('{') {
        let end = text.find(|next: char| !next.is_ascii_alphanumeric() && next != '_')?;
        let group = expression.group(&text[..end])?;
        return text[end..].starts_with('}').then_some((group, end + 2));
    }
    let (mut found, mut number) = (None, 0);
    for (place, digit) in text.bytes().take_while(u8::is_ascii_digit).enumerate() {
        number = 10 * number + usize::from(digit - b'0');
        if number >= expression.groups() {
            break;
        }
        found = Some((number, place + 1));
    }
    found
}

/// The replacement of a match.
struct Replacement {
    /// The text of the replacement, without its references to groups.
    text: String,
    /// The numbers of its groups, each with the length of the text before it.
    groups: Vec<(usize, usize)>,
}

impl Replacement {
    /// The bytes of memory for each byte of the replacement's text: a reference to a group has at
    /// least two bytes there, and takes an entry in a list with spare capacity.
    const BYTES_EACH: usize = 24;

    fn new(run: &mut QueryRun, expression: &CompiledRegex, other: &str) -> Result<Self> {
        let (mut text, mut groups) = (String::new(), Vec::new());
        if !other.contains(['$', '\\']) {
            run.memory.take(other.len())?;
            return Ok(Self { text: other.to_owned(), groups });
        }
        run.memory.take(other.len().saturating_mul(Self::BYTES_EACH))?;
        run.check()?;
        let mut rest = other;
        while let Some((before, after)) = rest.split_once(['$', '\\']) {
            text.push_str(before);
            let mut following = after.chars();
            match (&rest[before.len()..=before.len()], reference(expression, after)) {
                ("$", Some((group, bytes))) => {
                    groups.push((text.len(), group));
                    following = after[bytes..].chars();
                }
                ("$", None) => {
                    text.push('$');
                    following = after.strip_prefix('$').unwrap_or(after).chars();
                }
                // After a backslash, any character stands for itself.
                _ => text.extend(following.next()),
            }
            rest = following.as_str();
        }
        text.push_str(rest);
        Ok(Self { text, groups })
    }

    fn write(
        &self,
        made: &mut TextMaker<'_>,
        expression: &CompiledRegex,
        own: &str,
        found: Match,
    ) -> Result<()> {
        let has_parts = self.groups.iter().any(|(_, group)| *group > 0);
        let captures = has_parts.then(|| captures(expression, own, found)).transpose()?;
        let mut from = 0;
        for (to, group) in &self.groups {
            made.push(&self.text[from..*to])?;
            from = *to;
            let span = match (group, &captures) {
                (0, _) => Some(found.span()),
                (group, captures) => captures.as_ref().and_then(|groups| groups.get_group(*group)),
            };
            made.push(span.map_or("", |span| &own[span.range()]))?;
        }
        made.push(&self.text[from..])
    }
}

fn replace(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let Some(expression) = expression(run, arguments, flag(arguments, 3))? else {
        return Ok(Value::Null);
    };
    let (own, other) = (text(run, &arguments[0])?, text(run, &arguments[2])?);
    let replacement = Replacement::new(run, &expression, &other)?;
    let mut matches = Matches::new(&expression, &own, run);
    let (mut made, mut from) = (TextMaker::new(run), 0);
    while let Some(found) = matches.next(made.run)? {
        made.push(&own[from..found.start()])?;
        replacement.write(&mut made, &expression, &own, found)?;
        from = found.end();
    }
    made.push(&own[from..])?;
    made.finish()
}

fn split(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let limit = arguments.get(3);
    let Some(most) = parts_max(run, limit, "REGEX_SPLIT")? else { return Ok(Value::Null) };
    let Some(expression) = expression(run, arguments, flag(arguments, 2))? else {
        return Ok(Value::Null);
    };
    let own = text(run, &arguments[0])?;
    if text(run, &arguments[1])?.is_empty() {
        return split_characters(run, &own, most);
    }
    let mut matches = Matches::new(&expression, &own, run);
    let (mut parts, mut from) = (ListMaker::new(run), 0);
    while parts.len() < most {
        let Some(found) = matches.next(parts.run)? else { break };
        if found.is_empty() {
            continue;
        }
        parts.push_text(&own[from..found.start()])?;
        from = found.end();
        if expression.groups() > 1 {
            // The captured groups are part of the result.
            let captures = captures(&expression, &own, found)?;
            for group in captures.iter().skip(1) {
                if parts.len() < most {
                    parts.push_text(group.map_or("", |group| &own[group.range()]))?;
                }
            }
        }
    }
    if parts.len() < most {
        parts.push_text(&own[from..])?;
    }
    parts.finish()
}

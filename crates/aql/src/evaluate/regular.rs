//! Regular expressions. They come from queries and from documents, so that none may take long: the
//! library that is used needs time in proportion to the text for one match, and here a search that
//! is long can be ended in its midst.

mod stepping;

use std::sync::Arc;

use pellucid_clock::Stopwatch;
use pellucid_value::{Ref, Value};
use regex_automata::util::captures::Captures;
use regex_automata::{Anchored, Input, Match};

use super::operators::like;
use crate::functions::{STEP_BYTES, text};
use crate::parse::ast::Binary;
use crate::regexes::Expression;
use crate::run::Run;
use crate::{QueryError, Result, number};

use stepping::{Search, Stepping};

/// The most that a search may do that cannot be ended: bytes of text times states of the
/// expression.
const STEPS_MAX: usize = 8 << 20;
/// As [`STEPS_MAX`], for what can only be done in one piece: groups of a match, and boundaries of
/// words in text that is not ASCII.
const WHOLE_STEPS_MAX: usize = 8 * STEPS_MAX;
/// The longest search of one call of a function, in nanoseconds: where the search for each
/// match goes on to the end of the text, all of them take the square of its length.
const SEARCH_NS_MAX: u64 = 10_000_000_000;

/// True if the expression matches a part of the text.
pub(crate) fn is_match(expression: &Arc<Expression>, own: &str, run: &mut Run) -> Result<bool> {
    if expression.steps(own.len()) <= STEPS_MAX {
        run.tick_by(1 + own.len() / STEP_BYTES)?;
        return Ok(expression.regex().is_match(own));
    }
    Ok(Matches::new(expression, own, run).next(run)?.is_some())
}

/// The groups of a match that was found.
pub(crate) fn captures(expression: &Expression, own: &str, found: Match) -> Result<Captures> {
    if expression.steps(found.len()) > WHOLE_STEPS_MAX {
        return Err(too_long("the groups of a match"));
    }
    let mut groups = expression.regex().create_captures();
    let input = Input::new(own).span(found.span()).anchored(Anchored::Yes);
    expression.regex().search_captures(&input, &mut groups);
    Ok(groups)
}

fn too_long(what: &str) -> QueryError {
    let message = format!("{what} of a regular expression take too long to find");
    QueryError::new(number::RESOURCE_LIMIT, message)
}

/// The matches of an expression in a text, one after another.
pub(crate) struct Matches<'t> {
    expression: Arc<Expression>,
    own: &'t str,
    /// The offset at which the next search begins; nothing behind the end.
    from: Option<usize>,
    last_end: Option<usize>,
    /// For long texts.
    stepping: Option<Stepping>,
    is_long: bool,
    begun: Stopwatch,
}

impl<'t> Matches<'t> {
    pub(crate) fn new(expression: &Arc<Expression>, own: &'t str, run: &Run) -> Self {
        let is_long = expression.steps(own.len()) > STEPS_MAX;
        let new = || Stepping::new(expression, expression.states());
        Self {
            expression: Arc::clone(expression),
            own,
            from: Some(0),
            last_end: None,
            stepping: is_long.then(new).flatten(),
            is_long,
            begun: run.timing.stopwatch(),
        }
    }

    /// The next match. An empty one does not follow another match at once.
    pub(crate) fn next(&mut self, run: &mut Run) -> Result<Option<Match>> {
        while let Some(from) = self.from {
            if self.begun.elapsed_ns() > SEARCH_NS_MAX {
                return Err(too_long("all matches"));
            }
            let Some(found) = self.search(from, run)? else { break };
            if found.is_empty() {
                self.from = self.behind(found.end());
                if self.last_end == Some(found.end()) {
                    continue;
                }
            } else {
                self.from = Some(found.end());
            }
            self.last_end = Some(found.end());
            return Ok(Some(found));
        }
        self.from = None;
        Ok(None)
    }

    /// The place behind the character there.
    fn behind(&self, at: usize) -> Option<usize> {
        self.own.get(at..)?.chars().next().map(|character| at + character.len_utf8())
    }

    fn search(&mut self, from: usize, run: &mut Run) -> Result<Option<Match>> {
        let left = self.own.len() - from;
        if let Some(stepping) = &mut self.stepping {
            match stepping.search(self.own, from, run)? {
                Search::Match(begin, end) => return Ok(Some(Match::must(0, begin..end))),
                Search::Nothing => return Ok(None),
                Search::Unable => {}
            }
        }
        if self.is_long && self.expression.steps(left) > WHOLE_STEPS_MAX {
            return Err(too_long("the matches"));
        }
        run.tick_by(1 + left / STEP_BYTES)?;
        Ok(self.expression.regex().search(&Input::new(self.own).range(from..)))
    }
}

/// `LIKE` and `=~`, and their opposites.
pub(super) fn matches(
    operator: Binary,
    left: &Value,
    right: &Value,
    run: &mut Run,
) -> Result<Value> {
    let is_negative = matches!(operator, Binary::NotLike | Binary::NotRegex);
    let own = text(run, left)?;
    let holds = if matches!(operator, Binary::Like | Binary::NotLike) {
        let pattern = text(run, right)?;
        like(&own, &pattern, false, run)?
    } else {
        let Ref::String(pattern) = right.view() else { return Ok(Value::Bool(is_negative)) };
        let Some(expression) = run.regexes.get(pattern, false) else {
            return run.warn_null(number::INVALID_REGEX, "invalid regex value");
        };
        is_match(&expression, &own, run)?
    };
    Ok(Value::Bool(holds != is_negative))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::functions::tests::run;
    use crate::regexes::Regexes;

    /// Expressions of all that is found in different ways: ends, words, choices, repetition.
    const PATTERN: &str = concat!(
        r"(\^|\\b|)((a|b|ß|[ab]|\.|ab|\.\*\[\^a\]|\\w)",
        r"(\*|\+|\?|\*\?|\{2\}|)(\||\$|)){0,5}",
    );

    proptest! {
        /// A long text is searched another way, which finds the same.
        #[test]
        fn all_ways_find_the_same(
            pattern in PATTERN,
            own in "[abß \n]{0,12}",
        ) {
            let Some(expression) = Regexes::default().get(&pattern, false) else { return Ok(()) };
            let expected: Vec<Match> = expression.regex().find_iter(&own).collect();
            let mut run = run();
            for is_long in [false, true] {
                let mut matches = Matches::new(&expression, &own, &run);
                if is_long {
                    matches.stepping = Stepping::new(&expression, 1);
                    prop_assert!(matches.stepping.is_some());
                }
                let mut found = Vec::new();
                while let Some(next) = matches.next(&mut run).unwrap() {
                    found.push(next);
                }
                prop_assert_eq!(&found, &expected, "{} {:?}", pattern, own);
            }
            for (found, expected) in expected.iter().zip(expression.regex().captures_iter(&own)) {
                let groups = captures(&expression, &own, *found).unwrap();
                prop_assert!(groups.iter().eq(expected.iter()));
            }
        }
    }
}

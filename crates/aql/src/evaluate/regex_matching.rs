//! Matching of regular expressions. They come from queries and documents, so that they are not
//! trusted. The library's time for one match is linear in the text, and a long search can be
//! cancelled while it runs.

mod lazy_automaton;

use std::sync::Arc;

use pellucid_clock::Stopwatch;
use pellucid_value::Value;
use regex_automata::util::captures::Captures;
use regex_automata::{Anchored, Input, Match};

use super::operators::like;
use crate::functions::{STEP_BYTES, text};
use crate::parse::ast::BinaryOperator;
use crate::query_run::QueryRun;
use crate::regex_cache::CompiledRegex;
use crate::{QueryError, Result, number};

use lazy_automaton::{LazyAutomaton, SearchResult};

/// The most work (bytes of text times states of the expression) of a search that cannot be
/// cancelled. Searches with more work are done in steps.
const STEPS_MAX: usize = 8 << 20;
/// As [`STEPS_MAX`], for work that cannot be done in steps: the groups of a match, and word
/// boundaries in text that is not ASCII. More work is refused.
const WHOLE_STEPS_MAX: usize = 8 * STEPS_MAX;
/// The longest time of all searches in one call of a function, in nanoseconds. If the search for
/// each match reads to the end of the text, the total is quadratic in its length.
const SEARCH_NS_MAX: u64 = 10_000_000_000;

/// True if the expression matches a part of the text.
pub(crate) fn is_match(
    expression: &Arc<CompiledRegex>,
    own: &str,
    run: &mut QueryRun,
) -> Result<bool> {
    if expression.steps(own.len()) <= STEPS_MAX {
        run.tick_by(1 + own.len() / STEP_BYTES)?;
        return Ok(expression.regex().is_match(own));
    }
    Ok(Matches::new(expression, own, run).next(run)?.is_some())
}

/// Finds the groups of a match.
pub(crate) fn captures(expression: &CompiledRegex, own: &str, found: Match) -> Result<Captures> {
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
    expression: Arc<CompiledRegex>,
    own: &'t str,
    /// The offset at which the next search begins; `None` after the end.
    from: Option<usize>,
    last_end: Option<usize>,
    /// The search in steps, for long texts.
    stepping: Option<LazyAutomaton>,
    is_long: bool,
    begun: Stopwatch,
}

impl<'t> Matches<'t> {
    pub(crate) fn new(expression: &Arc<CompiledRegex>, own: &'t str, run: &QueryRun) -> Self {
        let is_long = expression.steps(own.len()) > STEPS_MAX;
        let new = || LazyAutomaton::new(expression, expression.states());
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

    /// The next match. An empty match directly after another match is skipped.
    pub(crate) fn next(&mut self, run: &mut QueryRun) -> Result<Option<Match>> {
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

    /// The offset behind the character at `at`.
    fn behind(&self, at: usize) -> Option<usize> {
        self.own.get(at..)?.chars().next().map(|character| at + character.len_utf8())
    }

    fn search(&mut self, from: usize, run: &mut QueryRun) -> Result<Option<Match>> {
        let left = self.own.len() - from;
        if let Some(stepping) = &mut self.stepping {
            match stepping.search(self.own, from, run)? {
                SearchResult::Match(begin, end) => return Ok(Some(Match::must(0, begin..end))),
                SearchResult::Nothing => return Ok(None),
                SearchResult::Unable => {}
            }
        }
        if self.is_long && self.expression.steps(left) > WHOLE_STEPS_MAX {
            return Err(too_long("the matches"));
        }
        run.tick_by(1 + left / STEP_BYTES)?;
        Ok(self.expression.regex().search(&Input::new(self.own).range(from..)))
    }
}

/// Computes `LIKE` and `=~`, and their negations.
pub(super) fn matches(
    operator: BinaryOperator,
    left: &Value,
    right: &Value,
    run: &mut QueryRun,
) -> Result<Value> {
    let is_negative = matches!(operator, BinaryOperator::NotLike | BinaryOperator::NotRegex);
    let (own, pattern) = (text(run, left)?, text(run, right)?);
    let holds = if matches!(operator, BinaryOperator::Like | BinaryOperator::NotLike) {
        like(&own, &pattern, false, run)?
    } else {
        let Some(expression) = run.regexes.get(&pattern, false) else {
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
    use crate::regex_cache::RegexCache;

    /// Expressions with everything that the two searches handle differently: anchors, word
    /// boundaries, alternatives, repetition.
    const PATTERN: &str = concat!(
        r"(\^|\\b|)((a|b|ß|[ab]|\.|ab|\.\*\[\^a\]|\\w)",
        r"(\*|\+|\?|\*\?|\{2\}|)(\||\$|)){0,5}",
    );

    proptest! {
        /// The search in steps, for long texts, finds the same matches as the direct one.
        #[test]
        fn all_ways_find_the_same(
            pattern in PATTERN,
            own in "[abß \n]{0,12}",
        ) {
            let regex = RegexCache::default().get(&pattern, false);
            let Some(expression) = regex else { return Ok(()) };
            let expected: Vec<Match> = expression.regex().find_iter(&own).collect();
            let mut run = run();
            for is_long in [false, true] {
                let mut matches = Matches::new(&expression, &own, &run);
                if is_long {
                    matches.stepping = LazyAutomaton::new(&expression, 1);
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

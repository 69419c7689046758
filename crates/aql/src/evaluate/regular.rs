//! Regular expressions. They come from queries and from documents, so that none may take long: the
//! library that is used needs time in proportion to the text for one match, and here a search that
//! is long can be ended in its midst.

mod stepping;

use std::sync::Arc;

use pellucid_clock::Stopwatch;
use pellucid_value::{Ref, Value};
use regex_automata::meta::{self, Regex};
use regex_automata::util::captures::Captures;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, Match};

use super::operators::like;
use crate::functions::{STEP_BYTES, text};
use crate::parse::ast::Binary;
use crate::run::Run;
use crate::{QueryError, number};

use stepping::{Found, Stepping};

/// The greatest length of the text of an expression, in bytes: longer ones are beyond the next
/// bound.
const PATTERN_BYTES_MAX: usize = 64 << 10;
/// The greatest size of a compiled expression, in bytes.
const REGEX_BYTES_MAX: usize = 1 << 20;
/// The number of compiled expressions that are kept, and of the bytes that they may have together.
const KEPT_MAX: usize = 64;
const KEPT_BYTES_MAX: usize = 8 << 20;
/// The most that a search may do that cannot be ended: bytes of text times states of the
/// expression.
const STEPS_MAX: usize = 8 << 20;
/// As [`STEPS_MAX`], for what can only be done in one piece: groups of a match, and boundaries of
/// words in text that is not ASCII.
const WHOLE_STEPS_MAX: usize = 8 * STEPS_MAX;
/// The memory that a state of an expression takes, in bytes.
const STATE_BYTES: usize = 32;
/// The longest search of one call of a function, in nanoseconds: where the search for each
/// match goes on to the end of the text, all of them take the square of its length.
const SEARCH_NS_MAX: u64 = 10_000_000_000;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    pattern: String,
    syntax: syntax::Config,
    regex: Regex,
    /// About how many states it has.
    states: usize,
}

/// Compiled expressions that were used lately, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Regexes(Vec<(String, bool, Option<Arc<Expression>>)>);

impl Regexes {
    /// The compiled expression; nothing if the text is none.
    pub(crate) fn get(&mut self, text: &str, ignores_case: bool) -> Option<Arc<Expression>> {
        let is_it = |kept: &&(String, bool, _)| kept.0 == text && kept.1 == ignores_case;
        if let Some((.., expression)) = self.0.iter().find(is_it) {
            return expression.clone();
        }
        if text.len() > PATTERN_BYTES_MAX {
            return None;
        }
        let expression = Expression::new(text, ignores_case).map(Arc::new);
        self.0.push((text.to_owned(), ignores_case, expression.clone()));
        let size = |kept: &(String, bool, Option<Arc<Expression>>)| {
            kept.0.len() + kept.2.as_ref().map_or(0, |kept| kept.size_bytes())
        };
        let mut total: usize = self.0.iter().map(size).sum();
        while self.0.len() > KEPT_MAX || (total > KEPT_BYTES_MAX && self.0.len() > 1) {
            total -= size(&self.0.remove(0));
        }
        expression
    }
}

impl Expression {
    fn new(pattern: &str, ignores_case: bool) -> Option<Self> {
        let syntax = syntax::Config::new().case_insensitive(ignores_case);
        let config = meta::Config::new()
            .nfa_size_limit(Some(REGEX_BYTES_MAX))
            .hybrid_cache_capacity(REGEX_BYTES_MAX);
        let regex = meta::Builder::new().configure(config).syntax(syntax).build(pattern).ok()?;
        let states = regex.memory_usage() / STATE_BYTES + 1;
        Some(Self { pattern: pattern.to_owned(), syntax, regex, states })
    }

    fn size_bytes(&self) -> usize {
        self.pattern.len() + self.regex.memory_usage()
    }

    /// The number of groups that it has, the whole match among them.
    pub(crate) fn groups(&self) -> usize {
        self.regex.captures_len()
    }

    /// The number of the group of that name.
    pub(crate) fn group(&self, name: &str) -> Option<usize> {
        self.regex.group_info().to_index(regex_automata::PatternID::ZERO, name)
    }

    /// True if it matches a part of the text.
    pub(crate) fn is_match(self: &Arc<Self>, own: &str, run: &mut Run) -> Result<bool, QueryError> {
        if own.len().saturating_mul(self.states) <= STEPS_MAX {
            run.tick_by(1 + own.len() / STEP_BYTES)?;
            return Ok(self.regex.is_match(own));
        }
        Ok(Matches::new(self, own, run).next(run)?.is_some())
    }

    /// The groups of a match that was found.
    pub(crate) fn captures(&self, own: &str, found: Match) -> Result<Captures, QueryError> {
        if found.len().saturating_mul(self.states) > WHOLE_STEPS_MAX {
            return Err(too_long("the groups of a match"));
        }
        let mut groups = self.regex.create_captures();
        let input = Input::new(own).span(found.span()).anchored(Anchored::Yes);
        self.regex.search_captures(&input, &mut groups);
        Ok(groups)
    }
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
        let is_long = own.len().saturating_mul(expression.states) > STEPS_MAX;
        let new = || Stepping::new(&expression.pattern, expression.syntax, expression.states);
        Self {
            expression: Arc::clone(expression),
            own,
            from: Some(0),
            last_end: None,
            stepping: is_long.then(new).flatten(),
            is_long,
            begun: run.clock.stopwatch(),
        }
    }

    /// The next match. An empty one does not follow another match at once.
    pub(crate) fn next(&mut self, run: &mut Run) -> Result<Option<Match>, QueryError> {
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

    fn search(&mut self, from: usize, run: &mut Run) -> Result<Option<Match>, QueryError> {
        let left = self.own.len() - from;
        if let Some(stepping) = &mut self.stepping {
            match stepping.search(self.own, from, run)? {
                Found::Match(begin, end) => return Ok(Some(Match::must(0, begin..end))),
                Found::Nothing => return Ok(None),
                Found::Unable => {}
            }
        }
        if self.is_long && left.saturating_mul(self.expression.states) > WHOLE_STEPS_MAX {
            return Err(too_long("the matches"));
        }
        run.tick_by(1 + left / STEP_BYTES)?;
        Ok(self.expression.regex.search(&Input::new(self.own).range(from..)))
    }
}

/// `LIKE` and `=~`, and their opposites.
pub(super) fn matches(
    operator: Binary,
    left: &Value,
    right: &Value,
    run: &mut Run,
) -> Result<Value, QueryError> {
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
        expression.is_match(&own, run)?
    };
    Ok(Value::Bool(holds != is_negative))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::functions::tests::run;

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
            let expected: Vec<Match> = expression.regex.find_iter(&own).collect();
            let mut run = run();
            for is_long in [false, true] {
                let mut matches = Matches::new(&expression, &own, &run);
                if is_long {
                    matches.stepping = Stepping::new(&pattern, expression.syntax, 1);
                    prop_assert!(matches.stepping.is_some());
                }
                let mut found = Vec::new();
                while let Some(next) = matches.next(&mut run).unwrap() {
                    found.push(next);
                }
                prop_assert_eq!(&found, &expected, "{} {:?}", pattern, own);
            }
            for (found, expected) in expected.iter().zip(expression.regex.captures_iter(&own)) {
                let groups = expression.captures(&own, *found).unwrap();
                prop_assert!(groups.iter().eq(expected.iter()));
            }
        }
    }

    #[test]
    fn kept_expressions_are_bounded() {
        let mut regexes = Regexes::default();
        for number in 0..300 {
            assert!(regexes.get(&format!("\\w{{20}}{number}"), false).is_some());
            let size = |kept: &(_, _, Option<Arc<Expression>>)| {
                kept.2.as_ref().map_or(0, |kept| kept.size_bytes())
            };
            assert!(regexes.0.len() <= KEPT_MAX);
            assert!(regexes.0.iter().map(size).sum::<usize>() <= KEPT_BYTES_MAX);
        }
        assert!(regexes.get(&"a".repeat(PATTERN_BYTES_MAX + 1), false).is_none());
        assert!(regexes.get("(", false).is_none());
    }
}

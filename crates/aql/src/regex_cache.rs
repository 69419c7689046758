//! Compiled regular expressions, and the cache of them that a query keeps.

use std::sync::Arc;

use regex_automata::meta::{self, Regex};
use regex_automata::util::syntax;

/// The most bytes of the text of an expression. A longer one would exceed [`REGEX_BYTES_MAX`].
const PATTERN_BYTES_MAX: usize = 64 << 10;
/// The most bytes of a compiled expression.
pub(crate) const REGEX_BYTES_MAX: usize = 1 << 20;
/// The most compiled expressions in the cache.
const KEPT_MAX: usize = 64;
/// The most bytes of all expressions in the cache.
const KEPT_BYTES_MAX: usize = 8 << 20;
/// The approximate bytes of a state of an expression.
const STATE_BYTES: usize = 32;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct CompiledRegex {
    pattern: String,
    syntax: syntax::Config,
    regex: Regex,
    /// The approximate number of its states.
    states: usize,
}

/// The cache of compiled expressions, the newest last.
#[derive(Debug, Default)]
pub(crate) struct RegexCache(Vec<(String, bool, Option<Arc<CompiledRegex>>)>);

impl RegexCache {
    /// The compiled expression of `text`; `None` if it is invalid or too large.
    pub(crate) fn get(&mut self, text: &str, ignores_case: bool) -> Option<Arc<CompiledRegex>> {
        let is_it = |kept: &&(String, bool, _)| kept.0 == text && kept.1 == ignores_case;
        if let Some((.., expression)) = self.0.iter().find(is_it) {
            return expression.clone();
        }
        if text.len() > PATTERN_BYTES_MAX {
            return None;
        }
        let expression = CompiledRegex::new(text, ignores_case).map(Arc::new);
        self.0.push((text.to_owned(), ignores_case, expression.clone()));
        let size = |kept: &(String, bool, Option<Arc<CompiledRegex>>)| {
            kept.0.len() + kept.2.as_ref().map_or(0, |kept| kept.size_bytes())
        };
        let mut total: usize = self.0.iter().map(size).sum();
        while self.0.len() > KEPT_MAX || (total > KEPT_BYTES_MAX && self.0.len() > 1) {
            total -= size(&self.0.remove(0));
        }
        expression
    }
}

impl CompiledRegex {
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

    /// The number of its groups, including the whole match.
    pub(crate) fn groups(&self) -> usize {
        self.regex.captures_len()
    }

    /// The number of the group of that name.
    pub(crate) fn group(&self, name: &str) -> Option<usize> {
        self.regex.group_info().to_index(regex_automata::PatternID::ZERO, name)
    }

    /// The compiled expression itself.
    pub(crate) fn regex(&self) -> &Regex {
        &self.regex
    }

    /// The text from which it was compiled.
    pub(crate) fn pattern(&self) -> &str {
        &self.pattern
    }

    pub(crate) fn syntax(&self) -> syntax::Config {
        self.syntax
    }

    /// The approximate number of its states.
    pub(crate) fn states(&self) -> usize {
        self.states
    }

    /// The work of a search in `bytes` bytes of text: bytes times states.
    pub(crate) fn steps(&self, bytes: usize) -> usize {
        bytes.saturating_mul(self.states)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_expressions_are_bounded() {
        let mut regexes = RegexCache::default();
        for number in 0..300 {
            assert!(regexes.get(&format!("\\w{{20}}{number}"), false).is_some());
            let size = |kept: &(_, _, Option<Arc<CompiledRegex>>)| {
                kept.2.as_ref().map_or(0, |kept| kept.size_bytes())
            };
            assert!(regexes.0.len() <= KEPT_MAX);
            assert!(regexes.0.iter().map(size).sum::<usize>() <= KEPT_BYTES_MAX);
        }
        assert!(regexes.get(&"a".repeat(PATTERN_BYTES_MAX + 1), false).is_none());
        assert!(regexes.get("(", false).is_none());
    }
}

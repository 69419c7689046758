//! The search for an expression in steps: it checks regularly whether the query has to end. It uses
//! lazy DFAs, which it drives byte by byte.

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::hybrid::regex::{Builder, Regex};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::{Anchored, Input};

use crate::Result;
use crate::query_run::QueryRun;
use crate::regex_cache::{CompiledRegex, REGEX_BYTES_MAX};

/// The work (states of the expression times bytes of text) between two checks.
const CHECK_STEPS: usize = 1 << 20;
/// The least and the most bytes between two checks.
const CHECK_BYTES: std::ops::RangeInclusive<usize> = 16..=(64 << 10);

/// The lazy DFAs, with the states that they have built so far.
pub(super) struct LazyAutomaton {
    regex: Regex,
    forward: Cache,
    reverse: Cache,
    check_bytes: usize,
}

/// The result of a search.
pub(super) enum SearchResult {
    /// A match, with its beginning and its end.
    Match(usize, usize),
    Nothing,
    /// The DFAs cannot decide.
    Unable,
}

/// The error of a DFA that cannot continue.
struct AutomatonError;

impl LazyAutomaton {
    /// Makes the DFAs; `None` if the expression has none.
    pub(super) fn new(expression: &CompiledRegex, states: usize) -> Option<Self> {
        let config = DFA::config()
            .cache_capacity(REGEX_BYTES_MAX)
            .skip_cache_capacity_check(true)
            .unicode_word_boundary(true);
        let thompson = thompson::Config::new()
            .nfa_size_limit(Some(REGEX_BYTES_MAX))
            .which_captures(WhichCaptures::None);
        let mut builder = Builder::new();
        let builder = builder.syntax(expression.syntax()).thompson(thompson).dfa(config);
        let regex = builder.build(expression.pattern()).ok()?;
        let (forward, reverse) = (regex.forward().create_cache(), regex.reverse().create_cache());
        let check_bytes =
            (CHECK_STEPS / states.max(1)).clamp(*CHECK_BYTES.start(), *CHECK_BYTES.end());
        Some(Self { regex, forward, reverse, check_bytes })
    }

    /// The first match from `from` on.
    pub(super) fn search(
        &mut self,
        own: &str,
        from: usize,
        run: &mut QueryRun,
    ) -> Result<SearchResult> {
        let mut from = from;
        loop {
            let Ok(end) = self.end(own, from, run)? else { return Ok(SearchResult::Unable) };
            let Some(end) = end else { return Ok(SearchResult::Nothing) };
            let Ok(begin) = self.begin(own, from, end, run)? else {
                return Ok(SearchResult::Unable);
            };
            if begin < end || own.is_char_boundary(end) {
                return Ok(SearchResult::Match(begin, end));
            }
            // An empty match within a character does not count.
            from = end + 1;
        }
    }

    /// The end of the first match.
    fn end(
        &mut self,
        own: &str,
        from: usize,
        run: &mut QueryRun,
    ) -> Result<Result<Option<usize>, AutomatonError>> {
        let (dfa, cache) = (self.regex.forward(), &mut self.forward);
        let Ok(mut state) = dfa.start_state_forward(cache, &Input::new(own).range(from..)) else {
            return Ok(Err(AutomatonError));
        };
        let (mut end, mut at) = (None, from);
        for bytes in own.as_bytes()[from..].chunks(self.check_bytes) {
            run.tick_by(CHECK_TICKS)?;
            for byte in bytes {
                let Ok(next) = dfa.next_state(cache, state, *byte) else {
                    return Ok(Err(AutomatonError));
                };
                state = next;
                if state.is_tagged() {
                    // A DFA reports a match one byte late.
                    if state.is_match() {
                        end = Some(at);
                    } else if state.is_dead() {
                        return Ok(Ok(end));
                    } else if state.is_quit() {
                        return Ok(Err(AutomatonError));
                    }
                }
                at += 1;
            }
        }
        let Ok(state) = dfa.next_eoi_state(cache, state) else { return Ok(Err(AutomatonError)) };
        Ok(Ok(if state.is_match() { Some(own.len()) } else { end }))
    }

    /// The beginning of the match with this end.
    fn begin(
        &mut self,
        own: &str,
        from: usize,
        end: usize,
        run: &mut QueryRun,
    ) -> Result<Result<usize, AutomatonError>> {
        let (dfa, cache) = (self.regex.reverse(), &mut self.reverse);
        let input = Input::new(own).range(from..end).anchored(Anchored::Yes);
        let Ok(mut state) = dfa.start_state_reverse(cache, &input) else {
            return Ok(Err(AutomatonError));
        };
        let (mut begin, mut at) = (end, end);
        for bytes in own.as_bytes()[from..end].rchunks(self.check_bytes) {
            run.tick_by(CHECK_TICKS)?;
            for byte in bytes.iter().rev() {
                let Ok(next) = dfa.next_state(cache, state, *byte) else {
                    return Ok(Err(AutomatonError));
                };
                state = next;
                if state.is_tagged() {
                    if state.is_match() {
                        begin = at;
                    } else if state.is_dead() {
                        return Ok(Ok(begin));
                    } else if state.is_quit() {
                        return Ok(Err(AutomatonError));
                    }
                }
                at -= 1;
            }
        }
        let last = match from.checked_sub(1).map(|before| own.as_bytes()[before]) {
            Some(before) => dfa.next_state(cache, state, before),
            None => dfa.next_eoi_state(cache, state),
        };
        let Ok(last) = last else { return Ok(Err(AutomatonError)) };
        Ok(if last.is_quit() {
            Err(AutomatonError)
        } else {
            Ok(if last.is_match() { from } else { begin })
        })
    }
}

/// The steps of the query's check that a chunk of bytes counts for.
const CHECK_TICKS: usize = 64;

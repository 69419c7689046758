//! Searches for one or many texts in a text. They work in windows, between which the query can end.
//! Their time is linear in the text for any number of texts.

use std::collections::HashSet;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};
use pellucid_value::beginning;

use super::makers::{STEP_BYTES, room_for};
use crate::query_run::QueryRun;
use crate::{QueryError, Result, number};

/// The most bytes of all texts that are searched at once.
const SOUGHT_BYTES_MAX: usize = 8 << 20;
/// The bytes of text that are searched between two checks of the query's limits.
const WINDOW_BYTES: usize = 1 << 20;
/// The most bytes of the texts of one automaton, which takes milliseconds to build.
const MACHINE_BYTES: usize = 128 << 10;
/// The bytes of an automaton for each byte of its texts.
const MACHINE_BYTES_EACH: usize = 96;
/// The bytes of the first states of an automaton.
const MACHINE_ROOT_BYTES: usize = 64 << 10;
/// The bytes of texts from which on an automaton has a filler.
const FILLED_BYTES_MIN: usize = 2 << 10;
/// The divisor of the texts' bytes that gives the length of the filler.
const FILLER_SHARE: usize = 8;
/// A byte that is in no text, so that the filler is never found.
const FILLER_BYTE: u8 = 0xff;
/// The bytes of a text in a set, with the spare capacity of the set.
const DIFFERENT_BYTES: usize = 4 * size_of::<&str>();

/// The last character boundary up to `at`.
fn boundary(text: &str, at: usize) -> usize {
    beginning(text, at).len()
}

/// The offset of the first occurrence of `part` in `own`.
pub(super) fn find(run: &mut QueryRun, own: &str, part: &str) -> Result<Option<usize>> {
    let mut from = 0_usize;
    loop {
        let end = boundary(own, from.saturating_add(WINDOW_BYTES).saturating_add(part.len()));
        run.tick_by(1 + (end - from) / STEP_BYTES)?;
        if let Some(at) = own[from..end].find(part) {
            return Ok(Some(from + at));
        }
        if end == own.len() {
            return Ok(None);
        }
        from = boundary(own, from + WINDOW_BYTES);
    }
}

/// The offset of the last occurrence of `part` in `own`.
pub(super) fn find_last(run: &mut QueryRun, own: &str, part: &str) -> Result<Option<usize>> {
    let mut end = own.len();
    loop {
        let from = boundary(own, end.saturating_sub(WINDOW_BYTES.saturating_add(part.len())));
        run.tick_by(1 + (end - from) / STEP_BYTES)?;
        if let Some(at) = own[from..end].rfind(part) {
            return Ok(Some(from + at));
        }
        if from == 0 {
            return Ok(None);
        }
        // An occurrence that begins before the window ends here at the latest.
        end = boundary(own, from + part.len());
    }
}

/// An occurrence of one of the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occurrence {
    pub(super) begin: usize,
    pub(super) end: usize,
    /// The index of the text among those that are searched.
    pub(super) part: usize,
}

/// An automaton that searches for some of the texts.
struct Machine {
    automaton: AhoCorasick,
    /// The index of its first text among the distinct ones.
    first: usize,
    /// The number of patterns before that of its first text: one if it has a filler.
    fillers: usize,
    /// The next occurrence, if it was searched already.
    next: Option<Occurrence>,
    /// The offset from which on there is no occurrence.
    none_from: usize,
}

/// A search for many texts, none of which is empty.
pub(super) struct Searcher<'t> {
    parts: &'t [&'t str],
    /// The indexes of the distinct texts. The time to build an automaton is quadratic in the number
    /// of equal texts.
    different: Vec<usize>,
    longest: usize,
    /// The automata; none for a single text.
    machines: Vec<Machine>,
}

impl<'t> Searcher<'t> {
    pub(super) fn new(run: &mut QueryRun, parts: &'t [&'t str]) -> Result<Self> {
        let longest = parts.iter().map(|part| part.len()).max().unwrap_or(0);
        let mut searcher = Self { parts, different: Vec::new(), longest, machines: Vec::new() };
        if parts.len() < 2 {
            return Ok(searcher);
        }
        let total = parts.iter().map(|part| part.len()).fold(0_usize, usize::saturating_add);
        if total > SOUGHT_BYTES_MAX {
            let message = format!("more than {SOUGHT_BYTES_MAX} bytes of texts are looked for");
            return Err(QueryError::new(number::RESOURCE_LIMIT, message));
        }
        searcher.different = numbers_of_different(run, parts)?;
        let texts: Vec<&str> = searcher.different.iter().map(|&number| parts[number]).collect();
        let mut first = 0;
        while first < texts.len() {
            let mut bytes = 0;
            let fits = |part: &&&str| {
                bytes += part.len();
                bytes <= MACHINE_BYTES
            };
            let count = texts[first..].iter().take_while(fits).count().max(1);
            let own = &texts[first..first + count];
            searcher.machines.push(Machine::new(run, own, first)?);
            first += count;
        }
        Ok(searcher)
    }

    /// The first occurrence of any of the texts from `from` on; of those that begin there, that of
    /// the first text.
    pub(super) fn next(
        &mut self,
        run: &mut QueryRun,
        own: &str,
        from: usize,
    ) -> Result<Option<Occurrence>> {
        if let [part] = self.parts {
            let found = find(run, &own[from..], part)?;
            let begin = found.map(|at| from + at);
            return Ok(begin.map(|begin| Occurrence { begin, end: begin + part.len(), part: 0 }));
        }
        let mut first: Option<Occurrence> = None;
        for machine in &mut self.machines {
            let Some(next) = machine.next(run, own, from, self.longest)? else { continue };
            if first.is_none_or(|first| next.begin < first.begin) {
                first = Some(next);
            }
        }
        Ok(first.map(|next| Occurrence { part: self.different[next.part], ..next }))
    }
}

/// The indexes of the distinct texts: the first of each.
fn numbers_of_different(run: &mut QueryRun, parts: &[&str]) -> Result<Vec<usize>> {
    let mut numbers = room_for(run, parts.len())?;
    // The texts are in a set here, and in a list while the automata are built.
    run.memory.take(parts.len().saturating_mul(DIFFERENT_BYTES + size_of::<&str>()))?;
    let mut seen = HashSet::with_capacity(parts.len());
    for (number, part) in parts.iter().enumerate() {
        run.tick_by(1 + part.len() / STEP_BYTES)?;
        if seen.insert(*part) {
            numbers.push(number);
        }
    }
    Ok(numbers)
}

impl Machine {
    /// Builds an automaton. The library moves all states that end a text to the front by swaps, and
    /// then follows the cycles of these swaps from each state. If most states end a text, one cycle
    /// has nearly all states, and following it takes quadratic time. The states of the filler come
    /// first and end no text, so that each swap spans an eighth of the automaton, and all cycles
    /// are short.
    fn new(run: &mut QueryRun, parts: &[&str], first: usize) -> Result<Self> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let is_filled = bytes >= FILLED_BYTES_MIN;
        let filler = vec![FILLER_BYTE; if is_filled { bytes / FILLER_SHARE } else { 0 }];
        let fillers = usize::from(is_filled);
        let all_bytes = bytes.saturating_add(filler.len());
        run.memory.take(all_bytes.saturating_mul(MACHINE_BYTES_EACH) + MACHINE_ROOT_BYTES)?;
        run.check()?;
        let texts = parts.iter().map(|part| part.as_bytes());
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build([&*filler].into_iter().take(fillers).chain(texts))
            .map_err(|error| QueryError::new(number::RESOURCE_LIMIT, error.to_string()))?;
        Ok(Self { automaton, first, fillers, next: None, none_from: usize::MAX })
    }

    fn next(
        &mut self,
        run: &mut QueryRun,
        own: &str,
        from: usize,
        longest: usize,
    ) -> Result<Option<Occurrence>> {
        if self.next.is_none_or(|next| next.begin < from) && from < self.none_from {
            self.next = self.search(run, own, from, longest)?;
            if self.next.is_none() {
                self.none_from = from;
            }
        }
        Ok(self.next.filter(|next| next.begin >= from))
    }

    fn search(
        &self,
        run: &mut QueryRun,
        own: &str,
        from: usize,
        longest: usize,
    ) -> Result<Option<Occurrence>> {
        let mut at = from;
        loop {
            // An occurrence that begins in the window must be wholly within the limit.
            let limit = at.saturating_add(WINDOW_BYTES.max(longest)).min(own.len());
            let end = limit.saturating_add(longest).min(own.len());
            run.tick_by(1 + longest / STEP_BYTES)?;
            let found = self.automaton.find(Input::new(own).range(at..end));
            if let Some(found) = found.filter(|found| found.start() < limit) {
                let part = self.first + found.pattern().as_usize() - self.fillers;
                return Ok(Some(Occurrence { begin: found.start(), end: found.end(), part }));
            }
            if limit == own.len() {
                return Ok(None);
            }
            run.tick_by((limit - at) / STEP_BYTES)?;
            at = limit;
        }
    }
}

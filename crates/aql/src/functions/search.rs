//! Searches for texts in a text. They go in windows, between which the query may end, and take time
//! in proportion to the text, however many texts are looked for.

use std::collections::HashSet;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};

use super::make::{STEP_BYTES, room_for};
use crate::run::Run;
use crate::{QueryError, Result, number};

/// The number of bytes that all texts may have together that are looked for at once.
const SOUGHT_BYTES_MAX: usize = 8 << 20;
/// The number of bytes of text that are searched before the next check of the query's limits.
const WINDOW_BYTES: usize = 1 << 20;
/// The number of bytes of texts that one automaton looks for: building it takes milliseconds.
const MACHINE_BYTES: usize = 128 << 10;
/// The memory that a byte that is looked for takes in an automaton, and what its first states take.
const MACHINE_BYTES_EACH: usize = 96;
const MACHINE_ROOT_BYTES: usize = 64 << 10;
/// From so many bytes of texts on, an automaton has a filler.
const FILLED_BYTES_MIN: usize = 2 << 10;
/// The share of the texts' bytes that a filler has.
const FILLER_SHARE: usize = 8;
/// A byte that no text has, so that the filler is found nowhere.
const FILLER_BYTE: u8 = 0xff;
/// The memory that a text takes in a set of them, with the room that the set grows by.
const DIFFERENT_BYTES: usize = 4 * size_of::<&str>();

/// The last boundary of characters that is not behind `at`.
fn boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The first place of `part` in `own`.
pub(super) fn find(run: &mut Run, own: &str, part: &str) -> Result<Option<usize>> {
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

/// The last place of `part` in `own`.
pub(super) fn find_last(run: &mut Run, own: &str, part: &str) -> Result<Option<usize>> {
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
        // One that begins before the window ends here at the latest.
        end = boundary(own, from + part.len());
    }
}

/// The place of one of the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occurrence {
    pub(super) begin: usize,
    pub(super) end: usize,
    /// The number of the text, among those that are looked for.
    pub(super) part: usize,
}

/// An automaton that looks for some of the texts.
struct Machine {
    automaton: AhoCorasick,
    /// The place of its first text among those that differ.
    first: usize,
    /// The patterns before that of its first text: the filler, if it has one.
    fillers: usize,
    /// The next occurrence, as far as it has been looked for.
    next: Option<Occurrence>,
    /// There is none from here on.
    none_from: usize,
}

/// Looks for many texts, none of which is empty.
pub(super) struct Searcher<'t> {
    parts: &'t [&'t str],
    /// The numbers of those that differ, the first of each: equal ones would cost an automaton the
    /// square of their number.
    different: Vec<usize>,
    longest: usize,
    /// Of a single text there are none.
    machines: Vec<Machine>,
}

impl<'t> Searcher<'t> {
    pub(super) fn new(run: &mut Run, parts: &'t [&'t str]) -> Result<Self> {
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

    /// The first occurrence of any of the texts from `from` on, of those that begin there the
    /// longest.
    pub(super) fn next(
        &mut self,
        run: &mut Run,
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
            let is_better = first.is_none_or(|first| {
                next.begin < first.begin || (next.begin == first.begin && next.end > first.end)
            });
            if is_better {
                first = Some(next);
            }
        }
        Ok(first.map(|next| Occurrence { part: self.different[next.part], ..next }))
    }
}

/// The numbers of the texts that differ, the first of each.
fn numbers_of_different(run: &mut Run, parts: &[&str]) -> Result<Vec<usize>> {
    let mut numbers = room_for(run, parts.len())?;
    // They are in a set here, and in a list while the automata are made.
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
    /// Building swaps each state that ends a text with one in front, and follows the circles of
    /// these swaps from each state. Where most states end a text, a circle has all of them, and
    /// following it takes the square of their number. The states of a filler come first and end
    /// nothing, so that each swap spans an eighth of the automaton: a circle is short.
    fn new(run: &mut Run, parts: &[&str], first: usize) -> Result<Self> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let is_filled = bytes >= FILLED_BYTES_MIN;
        let filler = vec![FILLER_BYTE; if is_filled { bytes / FILLER_SHARE } else { 0 }];
        let fillers = usize::from(is_filled);
        let all_bytes = bytes.saturating_add(filler.len());
        run.memory.take(all_bytes.saturating_mul(MACHINE_BYTES_EACH) + MACHINE_ROOT_BYTES)?;
        run.check()?;
        let texts = parts.iter().map(|part| part.as_bytes());
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build([&*filler].into_iter().take(fillers).chain(texts))
            .map_err(|error| QueryError::new(number::RESOURCE_LIMIT, error.to_string()))?;
        Ok(Self { automaton, first, fillers, next: None, none_from: usize::MAX })
    }

    fn next(
        &mut self,
        run: &mut Run,
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
        run: &mut Run,
        own: &str,
        from: usize,
        longest: usize,
    ) -> Result<Option<Occurrence>> {
        let mut at = from;
        loop {
            // What begins in the window is seen whole.
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

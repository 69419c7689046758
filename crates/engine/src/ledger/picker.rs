//! The choice of the tables that are merged next.

use std::sync::Arc;

use super::LedgerOptions;
use super::merge::{Source, run};
use super::options::LEVELS;
use super::table::{Table, TableMetadata};
use super::version::Levels;
use crate::read_mode::ReadMode;

/// The most tables of level 0 that one merge takes: a long backlog takes several jobs.
const LEVEL_0_TABLES_MAX: usize = 16;

/// The plan of a merge: its input tables, and the level of its output.
pub(super) struct MergePlan {
    /// The input tables by level, from the uppermost.
    inputs: Vec<(usize, Vec<Arc<Table>>)>,
    to: usize,
    is_whole: bool,
}

/// The target size of a level.
fn target_bytes(options: &LedgerOptions, level: usize) -> u64 {
    let factor = options.level_factor.saturating_pow(level.saturating_sub(1) as u32);
    options.level_base_bytes.saturating_mul(factor)
}

/// The urgency of a level's merge; a merge is due above 1.
fn score(options: &LedgerOptions, levels: &Levels, level: usize) -> f64 {
    match level {
        0 => levels.level(0).len() as f64 / options.level_0_trigger.max(1) as f64,
        _ => levels.size_bytes(level) as f64 / target_bytes(options, level).max(1) as f64,
    }
}

/// True if a merge of the level is due.
pub(super) fn is_due(options: &LedgerOptions, levels: &Levels, level: usize) -> bool {
    match level {
        0 => levels.level(0).len() >= options.level_0_trigger.max(1),
        _ => levels.size_bytes(level) > target_bytes(options, level),
    }
}

/// The bytes by which merges are behind: all of level 0 once its merge is due, and the excess of
/// each other level over its target. It is zero when nothing is due.
pub(super) fn debt_bytes(options: &LedgerOptions, levels: &Levels) -> u64 {
    (0..LEVELS - 1)
        .filter(|level| is_due(options, levels, *level))
        .map(|level| {
            let target = if level == 0 { 0 } else { target_bytes(options, level) };
            levels.size_bytes(level).saturating_sub(target)
        })
        .sum()
}

/// The smallest and the largest key of `tables`.
fn span(tables: &[Arc<Table>]) -> Option<(&[u8], &[u8])> {
    let smallest = tables.iter().map(|table| &table.facts().smallest[..]).min()?;
    let largest = tables.iter().map(|table| &table.facts().largest[..]).max()?;
    Some((smallest, largest))
}

impl MergePlan {
    /// The most urgent merge, if one is due.
    pub(super) fn pick(options: &LedgerOptions, levels: &Levels) -> Option<MergePlan> {
        let due = (0..LEVELS - 1).filter(|level| is_due(options, levels, *level));
        let scored = due.map(|level| (level, score(options, levels, level)));
        let (level, _) = scored.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let upper = match level {
            0 => oldest_of_level_0(levels, LEVEL_0_TABLES_MAX),
            _ => vec![cheapest(levels, level)?],
        };
        MergePlan::into_next(levels, level, upper)
    }

    /// The merge of `upper`, tables of a level, into the next level.
    fn into_next(levels: &Levels, level: usize, upper: Vec<Arc<Table>>) -> Option<MergePlan> {
        let (smallest, largest) = span(&upper)?;
        let lower = levels.overlapping(level + 1, smallest, largest);
        let inputs = vec![(level, upper), (level + 1, lower)];
        Some(MergePlan { inputs, to: level + 1, is_whole: false })
    }

    /// The merge that drops expired entries, if a table has enough of them: of level 0, or of a
    /// deeper table together with the tables that it overlaps in the next level, or of that table
    /// alone if no deeper table overlaps it. A table is left alone while a snapshot may need
    /// entries that its expired entries hide.
    pub(super) fn of_stale(
        levels: &Levels,
        now_ms: u64,
        oldest_snapshot: Option<u64>,
    ) -> Option<MergePlan> {
        let is_stale = |table: &Arc<Table>| {
            table.is_stale(now_ms)
                && oldest_snapshot.is_none_or(|oldest| oldest >= table.facts().highest_sequence)
        };
        let (level, table) = levels.all().find(|(_, table)| is_stale(table))?;
        let upper = match level {
            0 => oldest_of_level_0(levels, LEVEL_0_TABLES_MAX),
            _ => vec![Arc::clone(table)],
        };
        let (smallest, largest) = span(&upper)?;
        let lies_above = (level + 1..LEVELS)
            .any(|below| !levels.overlapping(below, smallest, largest).is_empty());
        if level > 0 && !lies_above {
            return Some(MergePlan { inputs: vec![(level, upper)], to: level, is_whole: false });
        }
        MergePlan::into_next(levels, level, upper)
    }

    /// The merge of everything into one level; `None` if it would change nothing.
    pub(super) fn of_all(levels: &Levels, now_ms: u64) -> Option<MergePlan> {
        let to = levels.deepest()?.max(1);
        let mut inputs = Vec::new();
        for level in 0..=to {
            if !levels.level(level).is_empty() {
                inputs.push((level, levels.level(level).to_vec()));
            }
        }
        let is_done = matches!(&inputs[..], [(level, tables)]
            if *level == to
                && tables.iter().all(|table| table.droppable() == 0 && !table.is_stale(now_ms)));
        (!is_done).then_some(MergePlan { inputs, to, is_whole: true })
    }

    /// A merge whose output surely fits into `room_bytes`: of everything, or else of tables of the
    /// uppermost level for which one fits, preferring tables with the most tombstones. `None` if
    /// there is none, or if it would change nothing.
    pub(super) fn for_room(levels: &Levels, now_ms: u64, room_bytes: u64) -> Option<MergePlan> {
        let fits = |plan: &MergePlan| plan.size_bytes() <= room_bytes;
        let all = MergePlan::of_all(levels, now_ms)?;
        if fits(&all) {
            return Some(all);
        }
        let deepest = levels.deepest().unwrap_or(0);
        let step = |level: usize, upper| MergePlan::into_next(levels, level, upper);
        let counts = (1..=LEVEL_0_TABLES_MAX.min(levels.level(0).len())).rev();
        let of_count = |count| step(0, oldest_of_level_0(levels, count));
        let of_level_0 = counts.filter_map(of_count).find(fits);
        let of_level = |level: usize| {
            let tables = levels.level(level).iter();
            let of_table =
                |table: &Arc<Table>| Some((table.tombstones(), step(level, vec![table.clone()])?));
            let fitting = tables.filter_map(of_table).filter(|(_, plan)| fits(plan));
            fitting.max_by_key(|(tombstones, _)| *tombstones).map(|(_, plan)| plan)
        };
        of_level_0.or_else(|| (1..deepest).find_map(of_level))
    }

    /// The input tables.
    pub(super) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.inputs.iter().flat_map(|(_, tables)| tables)
    }

    /// The size of the input tables, in bytes.
    pub(super) fn size_bytes(&self) -> u64 {
        self.tables().map(|table| table.facts().size_bytes).sum()
    }

    /// The level of the output.
    pub(super) fn to(&self) -> usize {
        self.to
    }

    /// True for the merge of everything, which may take hours.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The uppermost level of the input tables.
    pub(super) fn from(&self) -> usize {
        self.inputs.first().map_or(0, |(level, _)| *level)
    }

    /// True if the tables can move to the next level without being rewritten.
    pub(super) fn is_move(&self, options: &LedgerOptions, levels: &Levels) -> bool {
        let [(from, upper), (_, lower)] = &self.inputs[..] else { return false };
        let mut by_key: Vec<&TableMetadata> = upper.iter().map(|table| table.facts()).collect();
        by_key.sort_by(|a, b| a.smallest.cmp(&b.smallest));
        let apart = by_key.windows(2).all(|pair| pair[0].largest < pair[1].smallest);
        // Small tables are merged; otherwise a level would fill up with them.
        let large = *from > 0
            || by_key.iter().all(|facts| facts.size_bytes >= options.table_size_bytes / 2);
        // At the deepest level tombstones can be dropped, so tables with tombstones are rewritten
        // there.
        let deepest = levels.deepest().is_none_or(|deepest| deepest <= self.to);
        let tombstones = upper.iter().any(|table| table.tombstones() > 0);
        lower.is_empty() && apart && large && !(deepest && tombstones)
    }

    /// Sources for the entries of the input tables, one per level below 0, one per table of level
    /// 0.
    pub(super) fn sources(&self) -> Vec<Source> {
        let mut sources = Vec::new();
        for (level, tables) in &self.inputs {
            match level {
                0 => sources.extend(tables.chunks(1).map(|table| run(table, ReadMode::MayBlock))),
                _ => sources.push(run(tables, ReadMode::MayBlock)),
            }
        }
        sources
    }
}

/// The oldest `count` tables of level 0: no entry older than a merged one may stay above it.
fn oldest_of_level_0(levels: &Levels, count: usize) -> Vec<Arc<Table>> {
    let tables = levels.level(0);
    tables[tables.len().saturating_sub(count)..].to_vec()
}

/// The table of a level whose merge rewrites the least of the next level, relative to its size.
fn cheapest(levels: &Levels, level: usize) -> Option<Arc<Table>> {
    let cost = |table: &Arc<Table>| {
        let facts = table.facts();
        let below = levels.overlapping(level + 1, &facts.smallest, &facts.largest);
        let bytes: u64 = below.iter().map(|table| table.facts().size_bytes).sum();
        bytes as f64 / facts.size_bytes as f64
    };
    let costs = levels.level(level).iter().map(|table| (table, cost(table)));
    costs.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(table, _)| Arc::clone(table))
}

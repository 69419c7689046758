//! Execution of `COLLECT`. Groups are returned in the order of their group values.

use std::collections::BTreeMap;

use pellucid_value::{Number, ObjectBuilder, Value, compare, index_key, to_number};

use super::rows::{AllRows, Upstream, bytes_of_copy};
use crate::Result;
use crate::aggregator::Aggregator;
use crate::functions;
use crate::query_run::QueryRun;
use crate::tree::{Collect, IntoProjection, Row};

/// The bytes of a group besides its key and its row, with the spare room of tree nodes.
const GROUP_BYTES: usize = 2 * size_of::<(Vec<u8>, Group)>();
/// As [`GROUP_BYTES`], for a distinct value of an aggregate.
const DIFFERENT_BYTES: usize = 2 * size_of::<(Vec<u8>, (usize, Value))>();

struct Group {
    row: Row,
    aggregates: Vec<AggregateState>,
    rows: Vec<Value>,
    count: u64,
}

/// The state of an aggregate.
enum AggregateState {
    Count(u64),
    /// The least or the greatest value, and the bytes that count for it: those of the largest one
    /// so far.
    Extreme(Option<Value>, usize),
    Sum {
        sum: f64,
        whole: Option<i128>,
        count: u64,
        is_number: bool,
    },
    Different(BTreeMap<Vec<u8>, (usize, Value)>),
    All(Vec<Value>),
}

pub(super) fn rows(
    all: &mut AllRows,
    (collect, around): (&Collect, &Row),
    upstream: &mut impl Upstream,
    run: &mut QueryRun,
    want: usize,
) -> Result<Vec<Row>> {
    let all = match all {
        Some(all) => all,
        none => none.insert(groups(collect, around, upstream, run)?.into_iter()),
    };
    // The memory of the groups is freed at the end of the query.
    Ok(all.take(want).collect())
}

fn groups(
    collect: &Collect,
    around: &Row,
    upstream: &mut impl Upstream,
    run: &mut QueryRun,
) -> Result<Vec<Row>> {
    let mut groups: BTreeMap<Vec<u8>, Group> = BTreeMap::new();
    let new_group = || Group {
        row: around.clone(),
        aggregates: collect
            .aggregates
            .iter()
            .map(|own| AggregateState::new(own.aggregator))
            .collect(),
        rows: Vec::new(),
        count: 0,
    };
    if collect.groups.is_empty() {
        groups.insert(Vec::new(), new_group());
    }
    upstream.each(run, |row, run| {
        run.tick()?;
        let before_bytes = run.memory.passing_bytes();
        let mut key = Vec::new();
        let mut common = Vec::with_capacity(collect.groups.len());
        for (_, code) in &collect.groups {
            let value = code.compute(&row, run)?;
            // The value, and its part of the key, which is not longer.
            run.memory.take(2 * value.size_bytes())?;
            index_key::encode(value.view(), &mut key);
            common.push(value);
        }
        let mut size = 0;
        let group = groups.entry(key).or_insert_with_key(|key| {
            size = key.capacity() + GROUP_BYTES + bytes_of_copy(around);
            size += collect.aggregates.len() * size_of::<AggregateState>();
            let mut group = new_group();
            for ((slot, _), mut value) in collect.groups.iter().zip(common) {
                value.let_go();
                size += value.size_bytes();
                group.row[*slot] = value;
            }
            group
        });
        group.count += 1;
        for (own, total) in collect.aggregates.iter().zip(&mut group.aggregates) {
            let value = own.code.compute(&row, run)?;
            run.memory.take(2 * value.size_bytes())?;
            size += total.add(own.aggregator, value);
        }
        if let Some((_, into)) = &collect.into {
            let mut kept = kept(into, &row, run)?;
            // The capacity of the list may be up to twice its length.
            let bytes = kept.size_bytes() + size_of::<Value>();
            run.memory.take(bytes)?;
            kept.let_go();
            size += bytes;
            group.rows.push(kept);
        }
        run.memory.free_down_to(before_bytes);
        run.memory.take(size)
    })?;
    let mut rows = Vec::with_capacity(groups.len());
    for group in groups.into_values() {
        let mut row = group.row;
        for (own, total) in collect.aggregates.iter().zip(group.aggregates) {
            row[own.slot] = match own.aggregator {
                // The sum of no rows is null, unlike that of an empty array.
                Aggregator::Sum if group.count == 0 => Value::Null,
                aggregator => total.finish(aggregator, run)?,
            };
        }
        if let Some((slot, _)) = collect.into {
            row[slot] = Value::array(group.rows)?;
        }
        if let Some(slot) = collect.count {
            row[slot] = Value::Int(i64::try_from(group.count).unwrap_or(i64::MAX));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn kept(into: &IntoProjection, row: &Row, run: &mut QueryRun) -> Result<Value> {
    match into {
        IntoProjection::Value(code) => code.compute(row, run),
        IntoProjection::Variables(variables) => {
            let mut object = ObjectBuilder::new();
            for (name, code) in variables {
                object.insert(name.as_str(), code.compute(row, run)?);
            }
            Ok(object.finish()?)
        }
    }
}

impl AggregateState {
    fn new(aggregator: Aggregator) -> Self {
        match aggregator {
            Aggregator::Count => Self::Count(0),
            Aggregator::Min | Aggregator::Max => Self::Extreme(None, 0),
            Aggregator::Sum | Aggregator::Average => {
                Self::Sum { sum: 0.0, whole: Some(0), count: 0, is_number: true }
            }
            Aggregator::Unique | Aggregator::SortedUnique | Aggregator::CountDistinct => {
                Self::Different(BTreeMap::new())
            }
            _ => Self::All(Vec::new()),
        }
    }

    /// Adds a value. Returns the bytes that it takes.
    fn add(&mut self, aggregator: Aggregator, mut value: Value) -> usize {
        match self {
            Self::Count(count) => *count += 1,
            Self::Extreme(extreme, bytes) => {
                if value.kind() == pellucid_value::Kind::Null {
                    return 0;
                }
                let wanted = if aggregator == Aggregator::Min {
                    std::cmp::Ordering::Less
                } else {
                    std::cmp::Ordering::Greater
                };
                let is_better = extreme
                    .as_ref()
                    .is_none_or(|known| compare(value.view(), known.view()) == wanted);
                if is_better {
                    value.let_go();
                    let more = value.size_bytes().saturating_sub(*bytes);
                    *bytes += more;
                    *extreme = Some(value);
                    return more;
                }
            }
            Self::Sum { sum, whole, count, is_number } => match value.kind() {
                pellucid_value::Kind::Null => {}
                pellucid_value::Kind::Number => {
                    let number = to_number(value.view());
                    *sum += number.to_double();
                    *whole = whole.and_then(|whole| whole.checked_add(number.wide()?));
                    *count += 1;
                }
                _ => *is_number = false,
            },
            Self::Different(values) => {
                let mut key = Vec::new();
                index_key::encode(value.view(), &mut key);
                let place = values.len();
                let size = key.capacity() + DIFFERENT_BYTES + value.size_bytes();
                let mut is_new = false;
                values.entry(key).or_insert_with(|| {
                    is_new = true;
                    value.let_go();
                    (place, value)
                });
                return if is_new { size } else { 0 };
            }
            Self::All(values) => {
                value.let_go();
                let size = value.size_bytes() + size_of::<Value>();
                values.push(value);
                return size;
            }
        }
        0
    }

    fn finish(self, aggregator: Aggregator, run: &mut QueryRun) -> Result<Value> {
        Ok(match self {
            Self::Count(count) => Value::Int(i64::try_from(count).unwrap_or(i64::MAX)),
            Self::Extreme(extreme, _) => extreme.unwrap_or_default(),
            Self::Sum { is_number: false, .. } => Value::Null,
            Self::Sum { sum, count, .. } if aggregator == Aggregator::Average => {
                if count == 0 {
                    Value::Null
                } else {
                    Value::from(sum / count as f64)
                }
            }
            Self::Sum { whole: Some(whole), .. } => Value::number(Number::from_wide(whole)),
            Self::Sum { sum, .. } => Value::from(sum),
            Self::Different(values) if aggregator == Aggregator::CountDistinct => {
                Value::count(values.len())
            }
            Self::Different(values) => {
                let mut values: Vec<_> = values.into_values().collect();
                if aggregator == Aggregator::Unique {
                    values.sort_by_key(|(place, _)| *place);
                }
                Value::array(values.into_iter().map(|(_, value)| value).collect())?
            }
            Self::All(values) => aggregate(aggregator, Value::array(values)?, run)?,
        })
    }
}

/// Computes an aggregate that needs all values at once.
fn aggregate(aggregator: Aggregator, values: Value, run: &mut QueryRun) -> Result<Value> {
    let Aggregator::Function(name) = aggregator else { return Ok(values) };
    let Some(function) = functions::find(name) else { return Ok(Value::Null) };
    // Unlike the functions, aggregates do not warn of values of a wrong type.
    let warned = (run.options.fail_on_warning, run.options.warnings_max);
    (run.options.fail_on_warning, run.options.warnings_max) = (false, 0);
    let value = (function.body)(run, &[values]);
    (run.options.fail_on_warning, run.options.warnings_max) = warned;
    value
}

//! Range scans in key order, merged from all partitions of the range, in pages of limited size.
//!
//! The pages have heads only. The values of the next entries of the merge are read in a second
//! step: by then their lengths are known, so the memory of a range is limited.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use pellucid_store::{Head, KEY_LENGTH_MAX, Object, Range, Result, Scan, StoreError, Table, Value};
use scylla::response::query_result::QueryResult;
use scylla::statement::Consistency;
use scylla::statement::bound::BoundStatement;

use crate::partitioned_table::{PartitionScheme, PartitionedTable, bucket, can_hold, part};
use crate::read::bound;
use crate::ring::Ring;
use crate::rows::head_of;
use crate::schema::unexpected;

/// The intended size of a page of one partition, in bytes of keys.
const PAGE_BYTES: usize = 128 << 10;
/// Number of rows of a partition's first page, while their size is unknown.
const PAGE_ROWS_FIRST: usize = 8;
/// Limit of the rows in a page.
const PAGE_ROWS_MAX: usize = 512;
/// Limit of the values that are read together in bytes, unless there is only one.
const VALUE_BYTES: u64 = 1 << 20;
/// Number of values that are read together: at first, and at most.
const VALUE_ROWS_FIRST: usize = 8;
const VALUE_ROWS_MAX: usize = 2_048;
/// Number of keys whose values one request reads.
const KEYS_AT_ONCE: usize = 256;
/// Limit of the parts that a range may touch.
const PARTS_MAX: usize = 65_536;

/// A row of a page.
struct ScanRow {
    key: Vec<u8>,
    head: Head,
    /// Empty until the value is read.
    value: Vec<u8>,
    expires_ms: i64,
}

/// The rest of the range in one partition.
struct Cursor {
    /// The partition.
    place: Vec<u8>,
    /// The rows that were fetched, and not yet taken.
    rows: VecDeque<ScanRow>,
    /// The range of keys that is still to be fetched.
    start: Vec<u8>,
    end: Vec<u8>,
    /// Number of rows of the next page.
    page_rows: usize,
    /// True if all rows were fetched.
    is_over: bool,
}

/// A scan of a range over all its partitions.
pub(crate) struct CqlScan {
    ring: Arc<Ring>,
    level: Consistency,
    space: Arc<PartitionedTable>,
    reverse: bool,
    cursors: Vec<Cursor>,
    /// The next rows of the merge, with their values.
    ready: VecDeque<ScanRow>,
    /// Number of values that are read together the next time.
    value_rows: usize,
    current: Option<ScanRow>,
}

/// The rest of the rows and bytes of values that are read together.
struct ReadBudget {
    rows: usize,
    bytes: u64,
    is_first: bool,
}

/// Begins a scan.
pub(crate) fn scan(
    ring: &Arc<Ring>,
    level: Consistency,
    table: Table,
    range: Range<'_>,
) -> Result<Box<dyn Scan>> {
    let space = ring.space(table)?;
    let places = match space.placing {
        PartitionScheme::Buckets(buckets) => (0..buckets).map(bucket).collect(),
        PartitionScheme::Parts(_) => places_of_parts(ring, level, &space, range)?,
    };
    // The ring accepts no empty bound. No key is below this start, and none is above this end.
    let start = if range.start.is_empty() { vec![0] } else { range.start.to_vec() };
    let end = range.end.map_or_else(|| vec![u8::MAX; KEY_LENGTH_MAX + 1], <[u8]>::to_vec);
    let is_empty = start >= end;
    let cursor = |place: Vec<u8>| Cursor {
        place,
        rows: VecDeque::new(),
        start: start.clone(),
        end: end.clone(),
        page_rows: PAGE_ROWS_FIRST,
        is_over: is_empty,
    };
    let cursors = places.into_iter().map(cursor).collect();
    let (ring, reverse) = (Arc::clone(ring), range.reverse);
    let (ready, value_rows, current) = (VecDeque::new(), VALUE_ROWS_FIRST, None);
    Ok(Box::new(CqlScan { ring, level, space, reverse, cursors, ready, value_rows, current }))
}

/// The partitions of the parts that can hold keys of the range, in the order of the range.
fn places_of_parts(
    ring: &Arc<Ring>,
    level: Consistency,
    space: &PartitionedTable,
    range: Range<'_>,
) -> Result<Vec<Vec<u8>>> {
    if let PartitionScheme::Parts(part_of) = space.placing {
        let prefix = &range.start[..part_of(range.start).min(range.start.len())];
        let within = range.end.is_some_and(|end| is_within(prefix, end));
        if !prefix.is_empty() && within {
            return Ok(vec![part(prefix)]);
        }
    }
    let mut statement = bound(&ring.statements.parts, &(&space.name,))?;
    statement.set_consistency(level);
    let asking = Arc::clone(ring);
    let answer = ring.wait(async move {
        let mut laps = asking.no_laps();
        asking.answer(statement, &mut laps).await
    })?;
    let rows = answer.into_rows_result().map_err(unexpected)?;
    let mut places = Vec::new();
    for row in rows.rows::<(Vec<u8>,)>().map_err(unexpected)? {
        let (place,) = row.map_err(unexpected)?;
        if !place.is_empty() && can_hold(&place, range.start, range.end) {
            places.push(place);
        }
        if places.len() > PARTS_MAX {
            return Err(StoreError::Unacceptable(format!(
                "the range touches more than {PARTS_MAX} parts: divide it"
            )));
        }
    }
    places.sort_unstable();
    if range.reverse {
        places.reverse();
    }
    Ok(places)
}

/// True if all keys from `prefix` to `end` begin with `prefix`.
fn is_within(prefix: &[u8], end: &[u8]) -> bool {
    let mut beyond = prefix.to_vec();
    while let Some(last) = beyond.pop() {
        if last < u8::MAX {
            beyond.push(last + 1);
            return end <= &beyond[..];
        }
    }
    false
}

impl CqlScan {
    /// Moves the next rows of the merge into `ready`, with their values; none at the end.
    fn read_values(&mut self) -> Result<()> {
        while self.ready.is_empty() {
            let (mut wanted, mut budget) = (Vec::new(), ReadBudget::new(self.value_rows));
            while budget.rows > 0 {
                self.fill()?;
                let Some(place) = self.front() else { break };
                let rows = &mut self.cursors[place].rows;
                let length = rows.front().map_or(0, |row| row.head.value_length);
                if !budget.take(length) {
                    break;
                }
                wanted.extend(rows.pop_front().map(|row| (place, row)));
            }
            if wanted.is_empty() {
                return Ok(());
            }
            self.value_rows = (self.value_rows * 4).min(VALUE_ROWS_MAX);
            let mut found = self.values_of(&wanted)?;
            // An entry without an object was removed in between.
            let found = wanted.iter().filter_map(|(_, row)| found.remove(&row.key));
            self.ready.extend(found);
        }
        Ok(())
    }

    /// Reads the current objects of these rows, each with the index of its cursor.
    fn values_of(&self, wanted: &[(usize, ScanRow)]) -> Result<HashMap<Vec<u8>, ScanRow>> {
        let mut keys: HashMap<usize, Vec<&[u8]>> = HashMap::new();
        for (place, row) in wanted {
            keys.entry(*place).or_default().push(&row.key);
        }
        let mut asked = Vec::new();
        for (place, keys) in &keys {
            for some in keys.chunks(KEYS_AT_ONCE) {
                let values = (&self.space.name, &self.cursors[*place].place, some);
                asked.push(bound(&self.ring.statements.objects, &values)?);
            }
        }
        let mut found = HashMap::with_capacity(wanted.len());
        for answer in self.ask(asked)? {
            let rows = answer.into_rows_result().map_err(unexpected)?;
            type EntryRow<'a> = (&'a [u8], Option<i64>, Option<i64>, Option<&'a [u8]>);
            for row in rows.rows::<EntryRow<'_>>().map_err(unexpected)? {
                let (key, version, expires_ms, value) = row.map_err(unexpected)?;
                let value = value.unwrap_or_default().to_vec();
                if let Some(head) = head_of(version, expires_ms, value.len() as i64) {
                    let (key, expires_ms) = (key.to_vec(), expires_ms.unwrap_or(0));
                    found.insert(key.clone(), ScanRow { key, head, value, expires_ms });
                }
            }
        }
        Ok(found)
    }

    /// The index of the cursor that has the next row.
    fn front(&self) -> Option<usize> {
        let fronts = self.cursors.iter().enumerate();
        let fronts = fronts.filter_map(|(place, cursor)| Some((&cursor.rows.front()?.key, place)));
        let found = if self.reverse { fronts.max() } else { fronts.min() };
        found.map(|(_, place)| place)
    }

    /// Fetches pages until the next row is known: each cursor has a row or is over. Of a table in
    /// parts, only the first cursor that is not over needs one.
    fn fill(&mut self) -> Result<()> {
        loop {
            let is_empty = |cursor: &Cursor| cursor.rows.is_empty() && !cursor.is_over;
            let empty: Vec<usize> = match self.space.placing {
                PartitionScheme::Buckets(_) => {
                    let all = self.cursors.iter().enumerate();
                    all.filter(|(_, cursor)| is_empty(cursor)).map(|(place, _)| place).collect()
                }
                // The key ranges of parts do not overlap, so one cursor after another is read.
                PartitionScheme::Parts(_) => {
                    let matters = |cursor: &Cursor| !cursor.rows.is_empty() || !cursor.is_over;
                    let first = self.cursors.iter().position(matters);
                    first.filter(|first| is_empty(&self.cursors[*first])).into_iter().collect()
                }
            };
            if empty.is_empty() {
                return Ok(());
            }
            self.fetch(&empty)?;
        }
    }

    /// Fetches the next pages of these cursors, all at once.
    fn fetch(&mut self, places: &[usize]) -> Result<()> {
        let statement = &self.ring.statements.heads[usize::from(self.reverse)];
        let mut asked = Vec::with_capacity(places.len());
        for place in places {
            let cursor = &self.cursors[*place];
            let rows = cursor.page_rows as i32;
            let values = (&self.space.name, &cursor.place, &cursor.start, &cursor.end, rows);
            asked.push(bound(statement, &values)?);
        }
        let pages = self.ask(asked)?;
        for (place, page) in places.iter().zip(pages) {
            self.cursors[*place].take(page, self.reverse)?;
        }
        Ok(())
    }

    /// Sends statements to the ring, all at once. Returns their answers in the same order.
    fn ask(&self, mut asked: Vec<BoundStatement>) -> Result<Vec<QueryResult>> {
        asked.iter_mut().for_each(|statement| statement.set_consistency(self.level));
        let ring = Arc::clone(&self.ring);
        self.ring.wait(async move {
            let asked = asked.into_iter().map(|statement| {
                let ring = Arc::clone(&ring);
                async move {
                    let mut laps = ring.no_laps();
                    ring.answer(statement, &mut laps).await
                }
            });
            futures_util::future::try_join_all(asked).await
        })
    }
}

impl Cursor {
    /// Adds the rows of a page, and moves on to the next page.
    fn take(&mut self, page: QueryResult, reverse: bool) -> Result<()> {
        let page = page.into_rows_result().map_err(unexpected)?;
        let (mut count, mut bytes, mut last) = (0, 0, None);
        type EntryHeadRow<'a> = (&'a [u8], Option<i64>, Option<i64>, Option<i64>);
        for row in page.rows::<EntryHeadRow<'_>>().map_err(unexpected)? {
            let (key, version, expires_ms, length) = row.map_err(unexpected)?;
            count += 1;
            bytes += key.len();
            last = Some(key.to_vec());
            if let Some(head) = head_of(version, expires_ms, length.unwrap_or(0)) {
                let (key, value, expires_ms) = (key.to_vec(), Vec::new(), expires_ms.unwrap_or(0));
                self.rows.push_back(ScanRow { key, head, value, expires_ms });
            }
        }
        self.is_over = count < self.page_rows;
        match last {
            Some(last) if reverse => self.end = last,
            Some(last) => self.start = after(&last),
            None => {}
        }
        let fitting = PAGE_BYTES * count.max(1) / bytes.max(1);
        self.page_rows = fitting.clamp(1, (self.page_rows * 4).min(PAGE_ROWS_MAX));
        Ok(())
    }
}

impl ReadBudget {
    fn new(rows: usize) -> ReadBudget {
        ReadBudget { rows, bytes: VALUE_BYTES, is_first: true }
    }

    /// Takes a row with a value of this length; false if it does not fit. The first one does.
    fn take(&mut self, length: u64) -> bool {
        let fits = self.rows > 0 && (self.is_first || length <= self.bytes);
        if fits {
            self.rows -= 1;
            self.bytes = self.bytes.saturating_sub(length);
            self.is_first = false;
        }
        fits
    }
}

/// The first key behind this one.
fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl Scan for CqlScan {
    fn next(&mut self) -> Result<Option<(&[u8], Object)>> {
        self.read_values()?;
        self.current = self.ready.pop_front();
        Ok(self.current.as_mut().map(|entry| {
            let value = Value::Owned(std::mem::take(&mut entry.value));
            (&entry.key[..], Object { head: entry.head, value })
        }))
    }

    fn next_head(&mut self) -> Result<Option<(&[u8], Head)>> {
        self.current = self.ready.pop_front();
        if self.current.is_none() {
            self.fill()?;
            let place = self.front();
            self.current = place.and_then(|place| self.cursors[place].rows.pop_front());
        }
        Ok(self.current.as_ref().map(|entry| (&entry.key[..], entry.head)))
    }

    fn expires_at_ms(&self) -> Option<u64> {
        let expires_ms = self.current.as_ref().map_or(0, |entry| entry.expires_ms);
        (expires_ms > 0).then_some(expires_ms as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the rows of a page of values followed from the size of the page before, so small
    /// values before large ones, or many buckets, took gigabytes.
    #[test]
    fn values_are_read_together_up_to_a_limit_of_bytes() {
        let read = |lengths: &[u64]| {
            let mut budget = ReadBudget::new(600);
            lengths.iter().take_while(|length| budget.take(**length)).count()
        };
        assert_eq!(read(&[100; 512]), 512);
        assert_eq!(read(&[100; 700]), 600);
        assert_eq!(read(&[VALUE_BYTES / 2, VALUE_BYTES / 2, 1]), 2);
        assert_eq!(read(&[VALUE_BYTES; 64]), 1);
        assert_eq!(read(&[VALUE_BYTES * 64, 1]), 1, "one value is read whatever its length");
        assert_eq!(read(&[100, 100, VALUE_BYTES, 100]), 2);
    }
}

//! Rows of the ring, and when an entry's time is over.

use pellucid_store::{Head, Object, Result, Value};
use scylla::response::query_result::QueryResult;

use crate::schema::unexpected;
use crate::versions::{now_ms, written_at_ms};

/// The longest time to live that the ring takes: twenty years, in seconds. What is to stay longer
/// stays in the ring for good, and is gone from reads in time.
const TTL_MAX_S: u64 = 20 * 365 * 24 * 3_600;

/// An entry without its key.
type Row<'a> = (Option<i64>, Option<i64>, Option<&'a [u8]>);
type HeadRow = (Option<i64>, Option<i64>, Option<i64>);

/// The expiry of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetime {
    /// In milliseconds since the Unix epoch; zero for never. Reads go by it.
    pub(crate) expires_ms: i64,
    /// Seconds after which the ring may forget it: rounded up, so that it is never early.
    pub(crate) ttl_s: i32,
}

impl Lifetime {
    pub(crate) fn of(lifetime_ms: Option<u64>) -> Lifetime {
        let Some(lifetime_ms) = lifetime_ms else { return Lifetime { expires_ms: 0, ttl_s: 0 } };
        let expires_ms = (now_ms() as u64).saturating_add(lifetime_ms).min(i64::MAX as u64) as i64;
        let ttl_s = lifetime_ms.div_ceil(1_000) + 1;
        let ttl_s = if ttl_s > TTL_MAX_S { 0 } else { ttl_s as i32 };
        Lifetime { expires_ms, ttl_s }
    }
}

/// True if an entry's time is over.
pub(crate) fn is_over(expires_ms: i64) -> bool {
    expires_ms != 0 && expires_ms <= now_ms()
}

/// The head of a row, if the entry is there.
pub(crate) fn head_of(version: Option<i64>, expires_ms: Option<i64>, length: i64) -> Option<Head> {
    let version = version?;
    if is_over(expires_ms.unwrap_or(0)) {
        return None;
    }
    let sequence = version as u64;
    let written_at_ms = written_at_ms(sequence);
    Some(Head { sequence, written_at_ms, value_length: length as u64 })
}

/// The object in an answer.
pub(crate) fn object(answer: QueryResult) -> Result<Option<Object>> {
    let rows = answer.into_rows_result().map_err(unexpected)?;
    let row = rows.maybe_first_row::<Row<'_>>().map_err(unexpected)?;
    Ok(row.and_then(|(version, expires_ms, value)| {
        let value = value.unwrap_or_default();
        let head = head_of(version, expires_ms, value.len() as i64)?;
        Some(Object { head, value: Value::Owned(value.to_vec()) })
    }))
}

/// The head in an answer.
pub(crate) fn head(answer: QueryResult) -> Result<Option<Head>> {
    let rows = answer.into_rows_result().map_err(unexpected)?;
    let row = rows.maybe_first_row::<HeadRow>().map_err(unexpected)?;
    Ok(row.and_then(|(version, expires_ms, length)| {
        head_of(version, expires_ms, length.unwrap_or(0))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_forgets_later_than_reads_do() {
        for lifetime_ms in [0, 1, 999, 1_000, 1_001, 86_400_500] {
            let lifetime = Lifetime::of(Some(lifetime_ms));
            assert!(i64::from(lifetime.ttl_s) * 1_000 > lifetime_ms as i64);
        }
        assert_eq!(Lifetime::of(Some(u64::MAX)).ttl_s, 0);
        assert!(is_over(1) && !is_over(0) && !is_over(Lifetime::of(Some(u64::MAX)).expires_ms));
    }
}

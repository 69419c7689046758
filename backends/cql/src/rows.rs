//! Decoding of the ring's rows, and the expiry of entries.

use pellucid_store::{Head, Object, Result, Value};
use scylla::response::query_result::QueryResult;

use crate::schema::unexpected;
use crate::versions::{now_ms, written_at_ms};

/// The longest time to live that the ring accepts: twenty years, in seconds. An entry with a longer
/// lifetime stays in the ring forever; reads still stop showing it at its expiry.
const TTL_MAX_S: u64 = 20 * 365 * 24 * 3_600;

/// The columns of an object: version, expiry, value.
type Row<'a> = (Option<i64>, Option<i64>, Option<&'a [u8]>);
/// The columns of a head: version, expiry, length of the value.
type HeadRow = (Option<i64>, Option<i64>, Option<i64>);

/// The expiry of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetime {
    /// The expiry for reads, in milliseconds since the Unix epoch; zero for never.
    pub(crate) expires_ms: i64,
    /// The time to live in the ring, in seconds; zero for ever. It is rounded up, so that the ring
    /// never removes an entry before its expiry.
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

/// True if an entry with this expiry has expired.
pub(crate) fn is_over(expires_ms: i64) -> bool {
    expires_ms != 0 && expires_ms <= now_ms()
}

/// The head of a row; `None` if the row has no entry, or an expired one.
pub(crate) fn head_of(version: Option<i64>, expires_ms: Option<i64>, length: i64) -> Option<Head> {
    let version = version?;
    if is_over(expires_ms.unwrap_or(0)) {
        return None;
    }
    let sequence = version as u64;
    let written_at_ms = written_at_ms(sequence);
    Some(Head { sequence, written_at_ms, value_length: length as u64 })
}

/// Decodes the object in an answer.
pub(crate) fn object(answer: QueryResult) -> Result<Option<Object>> {
    let rows = answer.into_rows_result().map_err(unexpected)?;
    let row = rows.maybe_first_row::<Row<'_>>().map_err(unexpected)?;
    Ok(row.and_then(|(version, expires_ms, value)| {
        let value = value.unwrap_or_default();
        let head = head_of(version, expires_ms, value.len() as i64)?;
        Some(Object { head, value: Value::Owned(value.to_vec()) })
    }))
}

/// Decodes the head in an answer.
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
    fn the_ring_removes_an_entry_only_after_its_expiry() {
        for lifetime_ms in [0, 1, 999, 1_000, 1_001, 86_400_500] {
            let lifetime = Lifetime::of(Some(lifetime_ms));
            assert!(i64::from(lifetime.ttl_s) * 1_000 > lifetime_ms as i64);
        }
        assert_eq!(Lifetime::of(Some(u64::MAX)).ttl_s, 0);
        assert!(is_over(1) && !is_over(0) && !is_over(Lifetime::of(Some(u64::MAX)).expires_ms));
    }
}

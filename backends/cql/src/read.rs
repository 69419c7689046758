//! Reads of one key.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_store::{Answer, Result, StoreError, Table, check_key};
use scylla::response::query_result::QueryResult;
use scylla::statement::Consistency;
use scylla::statement::bound::BoundStatement;
use scylla::statement::prepared::PreparedStatement;

use crate::parts;
use crate::ring::Ring;

/// Reads the newest entry of a key among the copies that answer. `decode` makes the result of the
/// ring's answer.
pub(crate) fn find<T: Send + 'static>(
    ring: &Arc<Ring>,
    (statement, level): (&PreparedStatement, Consistency),
    table: Table,
    key: &[u8],
    timeline: &mut Timeline,
    decode: fn(QueryResult) -> Result<Option<T>>,
) -> Result<Answer<Option<T>>> {
    check_key(key)?;
    let space = ring.space(table)?;
    let mut bound = bound(statement, &(&space.name, space.place(key), key))?;
    bound.set_consistency(level);
    ring.later(timeline, move |ring, mut laps| async move {
        let found = ring.answer(bound, &mut laps).await.and_then(decode);
        laps.end(parts::DECODE);
        (found, laps)
    })
}

/// Binds values to a statement.
pub(crate) fn bound(
    statement: &PreparedStatement,
    values: &impl scylla::serialize::row::SerializeRow,
) -> Result<BoundStatement> {
    let bound = statement.clone().bind(values);
    bound.map_err(|error| StoreError::Failed(format!("a request cannot be written: {error}")))
}

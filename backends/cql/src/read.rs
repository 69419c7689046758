//! Reads of one key.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_store::{Answer, Head, Object, Result, StoreError, Table, check_key};
use scylla::response::query_result::QueryResult;
use scylla::statement::Consistency;
use scylla::statement::bound::BoundStatement;
use scylla::statement::prepared::PreparedStatement;

use crate::ring::Ring;
use crate::rows;

/// The newest object of a key among the copies that answer.
pub(crate) fn get(
    ring: &Arc<Ring>,
    level: Consistency,
    table: Table,
    key: &[u8],
    timeline: &mut Timeline,
) -> Answer<Option<Object>> {
    find(ring, (&ring.statements.get, level), table, key, timeline, rows::object)
}

/// The newest head of a key among the copies that answer.
pub(crate) fn head(
    ring: &Arc<Ring>,
    level: Consistency,
    table: Table,
    key: &[u8],
    timeline: &mut Timeline,
) -> Answer<Option<Head>> {
    find(ring, (&ring.statements.head, level), table, key, timeline, rows::head)
}

fn find<T: Send + 'static>(
    ring: &Arc<Ring>,
    (statement, level): (&PreparedStatement, Consistency),
    table: Table,
    key: &[u8],
    timeline: &mut Timeline,
    decode: fn(QueryResult) -> Result<Option<T>>,
) -> Answer<Option<T>> {
    let mut bound = match bind(ring, statement, table, key) {
        Ok(bound) => bound,
        Err(error) => return Answer::Now(Err(error)),
    };
    bound.set_consistency(level);
    ring.later(timeline, move |ring, mut laps| async move {
        let found = ring.answer(bound, &mut laps).await.and_then(decode);
        laps.decoded();
        (found, laps)
    })
}

fn bind(
    ring: &Ring,
    statement: &PreparedStatement,
    table: Table,
    key: &[u8],
) -> Result<BoundStatement> {
    check_key(key)?;
    let space = ring.space(table)?;
    bound(statement, &(&space.name, space.place(key), key))
}

/// A statement with its values.
pub(crate) fn bound(
    statement: &PreparedStatement,
    values: &impl scylla::serialize::row::SerializeRow,
) -> Result<BoundStatement> {
    let bound = statement.clone().bind(values);
    bound.map_err(|error| StoreError::Failed(format!("a request cannot be written: {error}")))
}

//! The keyspace, its tables, and the statements on them.
//!
//! All tables of the store are in one table of the ring, `contents`: creating a table in the ring
//! is slow, and fails if two servers do it at the same time. The table `spaces` has the placement
//! of each table of the store, so that all servers agree, and `parts` lists the parts of each.

use std::collections::HashMap;

use pellucid_store::{Result, StoreError};
use scylla::client::session::Session;
use scylla::cluster::metadata::Table;
use scylla::errors::ExecutionError;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement;
use scylla::statement::{Consistency, SerialConsistency};

use crate::consistency::majority;
use crate::error::error_of;
use crate::options::CqlOptions;
use crate::tables::{CONTENTS, PARTS, RingTable, SPACES};

/// Default number of copies in a keyspace that is created, if there are as many nodes.
const REPLICATION_USUAL: u32 = 3;
/// Limit of the name of a keyspace in bytes, set by the ring.
const KEYSPACE_LENGTH_MAX: usize = 48;
/// The time to live of the note of a writer's last transaction in a partition, in seconds: far
/// longer than the writer looks for it.
const NOTE_TTL_S: u32 = 3_600;

/// All prepared statements.
pub(crate) struct Statements {
    pub(crate) get: PreparedStatement,
    pub(crate) head: PreparedStatement,
    pub(crate) put: PreparedStatement,
    pub(crate) delete: PreparedStatement,
    pub(crate) put_over: PreparedStatement,
    pub(crate) delete_this: PreparedStatement,
    pub(crate) versions: PreparedStatement,
    /// Writes the note of a transaction, within the transaction.
    pub(crate) note_done: PreparedStatement,
    /// Reads the notes of a partition.
    pub(crate) done: PreparedStatement,
    /// The objects under some keys of a partition.
    pub(crate) objects: PreparedStatement,
    /// A page of heads: forward, and backward.
    pub(crate) heads: [PreparedStatement; 2],
    pub(crate) note_part: PreparedStatement,
    pub(crate) parts: PreparedStatement,
    pub(crate) space: PreparedStatement,
    pub(crate) note_space: PreparedStatement,
}

impl Statements {
    /// The keyspace and the name of the ring's table that has the entries.
    pub(crate) fn contents(&self) -> (&str, &str) {
        (self.get.get_keyspace_name().unwrap_or_default(), CONTENTS.name)
    }
}

/// Creates the keyspace and its tables if they are missing. Returns the number of copies that the
/// keyspace keeps.
pub(crate) async fn make(session: &Session, options: &CqlOptions) -> Result<u32> {
    let keyspace = &options.keyspace;
    let is_fit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins_well = keyspace.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    if !begins_well || keyspace.len() > KEYSPACE_LENGTH_MAX || !keyspace.bytes().all(is_fit) {
        return Err(StoreError::Unacceptable(format!(
            "`{keyspace}` is no name for a keyspace: it begins with a letter, and has up to \
             {KEYSPACE_LENGTH_MAX} of a-z, 0-9 and _"
        )));
    }
    let replication = match replication_of(session, keyspace).await? {
        Some(replication) => replication,
        None => {
            let nodes = session.get_cluster_state().get_nodes_info().len() as u32;
            let wanted = options.replication.unwrap_or_else(|| REPLICATION_USUAL.min(nodes));
            ask(
                session,
                &format!(
                    "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
                     {{'class': 'NetworkTopologyStrategy', 'replication_factor': {wanted}}}"
                ),
            )
            .await?;
            replication_of(session, keyspace).await?.unwrap_or(wanted)
        }
    };
    assert!(majority(replication) >= 1, "a keyspace keeps copies");
    for table in RingTable::ALL {
        let state = session.get_cluster_state();
        let known = state.get_keyspace(keyspace).and_then(|of| of.tables.get(table.name));
        match known {
            None => ask(session, &table.creation(keyspace)).await?,
            Some(known) => check(keyspace, &table, known)?,
        }
    }
    Ok(replication)
}

/// Refuses an existing table that has not all columns of Pellucid's.
fn check(keyspace: &str, table: &RingTable, known: &Table) -> Result<()> {
    let missing = table.missing(|column| known.columns.contains_key(column));
    if missing.is_empty() {
        return Ok(());
    }
    Err(StoreError::Failed(format!(
        "the table {keyspace}.{} is not Pellucid's, as it has no column {}: name another keyspace",
        table.name,
        missing.join(", ")
    )))
}

async fn ask(session: &Session, text: &str) -> Result<()> {
    session.query_unpaged(text, &[]).await.map_err(|error| error_of(&error))?;
    Ok(())
}

/// The number of copies that a keyspace keeps, in all data centres together; `None` if there is no
/// such keyspace.
async fn replication_of(session: &Session, keyspace: &str) -> Result<Option<u32>> {
    let mut statement =
        Statement::new("SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?");
    statement.set_consistency(Consistency::One);
    let found = session.query_unpaged(statement, (keyspace,)).await;
    let found = found.map_err(|error| error_of(&error))?;
    let row = found.into_rows_result().map_err(unexpected)?;
    let row = row.maybe_first_row::<(HashMap<String, String>,)>().map_err(unexpected)?;
    let Some((settings,)) = row else { return Ok(None) };
    let factors = settings.iter().filter(|(name, _)| *name != "class");
    let factors = factors.filter_map(|(_, factor)| factor.split('/').next()?.parse::<u32>().ok());
    match factors.sum() {
        0 => Err(StoreError::Failed(format!("the keyspace {keyspace} keeps no copies"))),
        sum => Ok(Some(sum)),
    }
}

/// The error for an answer that does not match the schema.
pub(crate) fn unexpected(error: impl std::fmt::Display) -> StoreError {
    StoreError::Failed(format!(
        "the ring answers something else than was asked for ({error}): is the keyspace Pellucid's?"
    ))
}

/// Prepares all statements.
pub(crate) async fn prepare(session: &Session, keyspace: &str) -> Result<Statements> {
    let here = "space = ? AND part = ?";
    let entry = format!("{here} AND key = ?");
    let insert = CONTENTS.insertion(keyspace);
    let walk = |order: &str| {
        format!(
            "SELECT key, version, expires, length FROM {keyspace}.contents WHERE {here} AND \
             key >= ? AND key < ? ORDER BY key {order} LIMIT ?"
        )
    };
    let safe = async |text: String| one(session, text, true).await;
    let once = async |text: String| one(session, text, false).await;
    let from = format!("FROM {keyspace}.contents WHERE");
    Ok(Statements {
        get: safe(format!("SELECT version, expires, value {from} {entry}")).await?,
        head: safe(format!("SELECT version, expires, length {from} {entry}")).await?,
        put: safe(format!("{insert} USING TTL ?")).await?,
        delete: safe(format!("DELETE {from} {entry}")).await?,
        put_over: once(format!(
            "UPDATE {keyspace}.contents USING TTL ? SET version = ?, expires = ?, length = ?, \
             value = ? WHERE {entry} IF version = ?"
        ))
        .await?,
        delete_this: once(format!("DELETE {from} {entry} IF version = ?")).await?,
        versions: safe(format!(
            "SELECT key, version, expires, WRITETIME(version) {from} {here} AND key IN ?"
        ))
        .await?,
        note_done: once(format!(
            "UPDATE {keyspace}.contents USING TTL {NOTE_TTL_S} SET done[?] = ? WHERE {here}"
        ))
        .await?,
        done: safe(format!("SELECT DISTINCT space, part, done {from} {here}")).await?,
        objects: safe(format!("SELECT key, version, expires, value {from} {here} AND key IN ?"))
            .await?,
        heads: [safe(walk("ASC")).await?, safe(walk("DESC")).await?],
        note_part: safe(PARTS.insertion(keyspace)).await?,
        parts: safe(format!("SELECT part FROM {keyspace}.parts WHERE space = ?")).await?,
        space: safe(format!("SELECT buckets FROM {keyspace}.spaces WHERE space = ?")).await?,
        note_space: once(format!("{} IF NOT EXISTS", SPACES.insertion(keyspace))).await?,
    })
}

/// Prepares one statement. `is_safe` means idempotent, so that it can be sent again: a plain write
/// is, because it has its own timestamp.
async fn one(session: &Session, text: String, is_safe: bool) -> Result<PreparedStatement> {
    let prepared = session.prepare(text).await;
    let mut prepared = prepared.map_err(|error| error_of(&ExecutionError::PrepareError(error)))?;
    prepared.set_is_idempotent(is_safe);
    prepared.set_serial_consistency(Some(SerialConsistency::Serial));
    // The columns of a transaction's answer depend on its outcome.
    prepared.set_use_cached_result_metadata(is_safe);
    Ok(prepared)
}

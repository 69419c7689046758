//! Checks before a server starts that it may be a node of its cluster, with this list of nodes and
//! this store.

use std::path::Path;
use std::sync::Arc;

use pellucid_cluster::{
    Cluster, ClusterEvent, ClusterOptions, StoreContents, StoredNodeList, VALUE_BYTES_MAX,
};
use pellucid_document::TABLE as DOCUMENTS;
use pellucid_store::{Range, Result as StoreResult, Store, StoreError, Table};

use crate::log::Log;
use crate::names::ENTITIES;
use crate::server_error::ServerError;

/// Makes the server a node of its cluster, if `options` has one, and remembers the list of nodes in
/// `folder`, or that there is none. A server is refused if its list has changed (also from none to
/// one, or from one to none) while its store holds entries that could no longer be reached, or if
/// its values may be too long for other nodes.
///
/// # Errors
/// If the server may not start; nothing is changed then.
pub(crate) fn join(
    options: Option<&ClusterOptions>,
    folder: &Path,
    store: &dyn Store,
    entities: Table,
    loops: usize,
    log: &Log,
) -> Result<Option<Arc<Cluster>>, ServerError> {
    let refused = |what: String| ServerError::Cluster(what);
    if options.is_some() && store.properties().value_bytes_max > VALUE_BYTES_MAX {
        return Err(refused(format!(
            "nodes of a cluster send each other values of up to {VALUE_BYTES_MAX} bytes: lower \
             --value-max"
        )));
    }
    let log = log.clone();
    let cluster = options.map(|options| {
        let tell = move |news: ClusterEvent<'_>| match news {
            ClusterEvent::Bad(line) => log.error(line),
            ClusterEvent::Good(line) => log.info(line),
        };
        Cluster::new(options.clone(), loops, tell).map_err(|error| refused(error.to_string()))
    });
    let cluster = cluster.transpose()?;
    let before = StoredNodeList::read(folder)?;
    let given = match options {
        None => None,
        Some(ClusterOptions { nodes, node: Some(node), .. }) => Some((nodes, node)),
        Some(_) => return Err(refused("a server is one of the nodes, and no guest".to_owned())),
    };
    let unreadable = |error| ServerError::Store(folder.to_owned(), error);
    let held = || held_by(store, entities).map_err(unreadable);
    let list = StoredNodeList::judge(before.as_ref(), given, held)?;
    if list != before {
        match list {
            Some(list) => list.write(folder)?,
            None => StoredNodeList::remove(folder)?,
        }
    }
    Ok(cluster)
}

/// The content of a store: documents, entities, or keys in tables that programs outside the cluster
/// have made (docs/stores.md).
fn held_by(store: &dyn Store, entities: Table) -> StoreResult<StoreContents> {
    let names = store
        .local()
        .map(|local| local.table_names())
        .transpose()?
        .unwrap_or_else(|| vec![DOCUMENTS.to_owned()]);
    if names.iter().any(|name| name == DOCUMENTS) {
        let documents = pellucid_document::contents(store);
        let documents = documents.map_err(|error| StoreError::Failed(error.to_string()))?;
        if let Some(what) = documents {
            return Ok(StoreContents::Documents(what));
        }
    }
    if has_keys(store, entities)? {
        return Ok(StoreContents::Keys("keys".to_owned()));
    }
    for name in names.iter().filter(|name| *name != DOCUMENTS && *name != ENTITIES) {
        if has_keys(store, store.table(name)?)? {
            return Ok(StoreContents::Keys(format!("keys in the table `{name}`")));
        }
    }
    Ok(StoreContents::Nothing)
}

fn has_keys(store: &dyn Store, table: Table) -> StoreResult<bool> {
    let all = Range { start: b"", end: None, reverse: false };
    Ok(store.scan(table, all)?.next_head()?.is_some())
}

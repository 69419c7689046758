//! Before a node serves: whether it may be part of this cluster, with this list and this store.

use std::path::Path;
use std::sync::Arc;

use pellucid_cluster::{Cluster, ClusterOptions, News, Remembered, RememberedError};
use pellucid_store::{Range, Store, StoreError, Table};

use crate::log::Log;
use crate::run::ServerError;

enum NoStart {
    Remembered(RememberedError),
    Store(StoreError),
}

impl From<RememberedError> for NoStart {
    fn from(error: RememberedError) -> NoStart {
        NoStart::Remembered(error)
    }
}

/// Makes the node part of its cluster, if it is to be part of one, and remembers the list. A node
/// that has served another list, or one at all, is refused while it has keys.
///
/// # Errors
/// Why it may not start; nothing is changed then.
pub(crate) fn join(
    options: Option<&ClusterOptions>,
    folder: &Path,
    store: &dyn Store,
    entities: Table,
    loops: usize,
    log: &Log,
) -> Result<Option<Arc<Cluster>>, ServerError> {
    let refused = |what: String| ServerError::Cluster(what);
    let log = log.clone();
    let cluster = options.map(|options| {
        let tell = move |news: News<'_>| match news {
            News::Bad(line) => log.error(line),
            News::Good(line) => log.info(line),
        };
        Cluster::new(options.clone(), loops, tell).map_err(|error| refused(error.to_string()))
    });
    let cluster = cluster.transpose()?;
    let before = Remembered::read(folder).map_err(|error| refused(error.to_string()))?;
    let given = match options {
        None => None,
        Some(ClusterOptions { nodes, node: Some(node), .. }) => Some((nodes, node)),
        Some(_) => return Err(refused("a server is one of the nodes, and no guest".to_owned())),
    };
    let is_empty = || {
        let all = Range { start: b"", end: None, reverse: false };
        let first = store.scan(entities, all).and_then(|mut scan| Ok(scan.next_head()?.is_none()));
        first.map_err(NoStart::Store)
    };
    let new = Remembered::judge(before, given, is_empty).map_err(|error| match error {
        NoStart::Remembered(error) => refused(error.to_string()),
        NoStart::Store(error) => ServerError::Store(folder.to_owned(), error),
    })?;
    if let Some(new) = new {
        new.write(folder).map_err(|error| refused(error.to_string()))?;
    }
    Ok(cluster)
}

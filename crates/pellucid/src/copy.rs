//! `pellucid inspect copy`: from one store to another, of whatever kinds.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
#[cfg(feature = "cql")]
use pellucid_server::{CqlOptions, CqlStore};
use pellucid_server::{DOCUMENTS_TABLE, ENTITIES_TABLE, NodeList};
use pellucid_sharded::{ShardedOptions, ShardedStore};
use pellucid_store::{Copied, CopiedTable, EmbeddedOptions, EmbeddedStore, Store, compare, copy};
use serde_json::json;

use crate::Failure;
#[cfg(feature = "cql")]
use crate::settings::RingAccess;

/// What the address of a ring begins with.
const RING: &str = "cql://";
/// What the name of a folder of RocksDB begins with.
const ROCKSDB: &str = "rocksdb://";
/// What a build without the feature says of rings.
#[cfg(not(feature = "cql"))]
pub(crate) const WITHOUT_RINGS: &str = "this pellucid was built without rings of Cassandra or \
    ScyllaDB: build it with its feature `cql`, which is on by default";
/// What the address of a sharded cluster begins with.
const CLUSTER: &str = "cluster://";
/// How long a node of a cluster may take for an answer.
const CLUSTER_WAIT: Duration = Duration::from_secs(10);
/// What a build without the feature says of RocksDB.
#[cfg(not(feature = "rocksdb"))]
pub(crate) const WITHOUT_ROCKSDB: &str = "this pellucid was built without RocksDB: build it with \
    its feature `rocksdb`, and ROCKSDB_LIB_DIR set to the folder of the system's library";
/// Entries between two lines of progress where no terminal shows it.
const ENTRIES_PER_LINE: u64 = 100_000;

/// Copy all entities and documents from one store to another, and compare the two in the end.
///
/// A store is a folder, one of RocksDB as rocksdb://FOLDER, a ring as
/// cql://HOST:PORT,HOST:PORT/KEYSPACE, or a sharded cluster as cluster://HOST:PORT,HOST:PORT with
/// all of its nodes, which have to be running. Nobody may write to either meanwhile, and no server
/// have the folder open. A cluster has entities alone, so documents are left out where one of the
/// two is a cluster. A copy that was cut short goes on where it was when it is started again.
/// Sequence numbers, and with them ETags and revisions, are new in the copy.
///
/// Example: pellucid inspect copy ./data cql://10.0.0.1:9042/pellucid
///
/// Example: pellucid inspect copy cluster://10.0.0.1:8080,10.0.0.2:8080 ./data
#[derive(Args)]
pub(crate) struct CopyArguments {
    /// The store that is copied.
    from: String,
    /// The store that it is copied to; it is made if there is none.
    to: String,
    /// The file with the secret that the nodes of the cluster have.
    #[arg(long)]
    cluster_secret_file: Option<PathBuf>,
    #[cfg(feature = "cql")]
    #[command(flatten)]
    ring: RingAccess,
}

/// Copies.
pub(crate) fn run(arguments: &CopyArguments, json: bool) -> Result<(), Failure> {
    let CopyArguments { from, to, cluster_secret_file: secret, .. } = arguments;
    let is_remote = from.starts_with(RING) || from.starts_with(CLUSTER);
    let folder = from.strip_prefix(ROCKSDB).unwrap_or(from);
    if !is_remote && !Path::new(folder).is_dir() {
        let what = format!("{from} is no folder, no ring and no cluster: see --help");
        return Err(Failure::usage(what));
    }
    let has_cluster = [from, to].iter().any(|place| place.starts_with(CLUSTER));
    let secret = secret.as_deref().map(crate::settings::read_secret_bytes).transpose()?;
    let open = |place: &str| open(place, secret.as_deref(), arguments);
    let (from, to) = (open(from)?, open(to)?);
    let copied_tables = match has_cluster {
        true => {
            eprintln!("documents are left out: a cluster has entities alone");
            &[ENTITIES_TABLE][..]
        }
        false => &[ENTITIES_TABLE, DOCUMENTS_TABLE],
    };
    let mut tables = Vec::new();
    for table in copied_tables.iter().copied() {
        let show = |what: &'static str| move |done: Copied| show(what, table, done, json);
        let copied = copy(&*from, &*to, table, &mut show("copied")).map_err(Failure::work)?;
        let compared = compare(&*from, &*to, table, &mut show("compared"));
        let compared = compared.map_err(Failure::work)?;
        tables.push(json!({
            "table": table.name,
            "copied": copied.entries,
            "resumed": copied.resumed,
            "compared": compared.entries,
            "bytes": compared.bytes,
        }));
        if !json {
            let (entries, bytes) = (compared.entries, compared.bytes);
            println!("{}: {entries} entries, {bytes} bytes, the same in both", table.name);
        }
    }
    to.close().and_then(|()| from.close()).map_err(Failure::work)?;
    if json {
        println!("{}", json!({ "tables": tables }));
    }
    Ok(())
}

fn open(
    place: &str,
    secret: Option<&[u8]>,
    arguments: &CopyArguments,
) -> Result<Box<dyn Store>, Failure> {
    if let Some(nodes) = place.strip_prefix(CLUSTER) {
        let urls: Vec<_> = nodes.split(',').map(|node| format!("http://{}", node.trim())).collect();
        let nodes = NodeList::parse(&urls.join(","));
        let nodes = nodes.map_err(|error| Failure::usage(error.to_string()))?;
        let secret = secret.map(<[u8]>::to_vec);
        let options = ShardedOptions { secret, wait: CLUSTER_WAIT, ..ShardedOptions::new(nodes) };
        return Ok(Box::new(ShardedStore::open(options).map_err(Failure::work)?));
    }
    if let Some(folder) = place.strip_prefix(ROCKSDB) {
        return open_rocksdb(Path::new(folder));
    }
    let Some(ring) = place.strip_prefix(RING) else {
        let store = EmbeddedStore::open(Path::new(place), EmbeddedOptions::default());
        return Ok(Box::new(store.map_err(Failure::work)?));
    };
    open_ring(ring, arguments)
}

#[cfg(not(feature = "rocksdb"))]
fn open_rocksdb(_: &Path) -> Result<Box<dyn Store>, Failure> {
    Err(Failure::usage(WITHOUT_ROCKSDB))
}

#[cfg(feature = "rocksdb")]
fn open_rocksdb(folder: &Path) -> Result<Box<dyn Store>, Failure> {
    let store = pellucid_server::RocksStore::open(folder, pellucid_server::RocksOptions::default());
    Ok(Box::new(store.map_err(Failure::work)?))
}

#[cfg(not(feature = "cql"))]
fn open_ring(_: &str, _: &CopyArguments) -> Result<Box<dyn Store>, Failure> {
    Err(Failure::usage(WITHOUT_RINGS))
}

#[cfg(feature = "cql")]
fn open_ring(ring: &str, arguments: &CopyArguments) -> Result<Box<dyn Store>, Failure> {
    let (nodes, keyspace) = ring.split_once('/').unwrap_or((ring, ""));
    let mut options = CqlOptions::new(nodes.split(',').map(str::to_owned).collect());
    if !keyspace.is_empty() {
        keyspace.clone_into(&mut options.keyspace);
    }
    arguments.ring.add_to(&mut options)?;
    Ok(Box::new(CqlStore::open(&options).map_err(Failure::work)?))
}

fn show(what: &str, table: CopiedTable<'_>, done: Copied, json: bool) {
    if json {
        return;
    }
    if std::io::stderr().is_terminal() {
        eprint!("\r{}: {what} {} entries ", table.name, done.entries);
    } else if done.entries % ENTRIES_PER_LINE < 64 {
        eprintln!("{}: {what} {} entries", table.name, done.entries);
    }
}

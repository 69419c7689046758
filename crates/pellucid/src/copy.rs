//! `pellucid inspect copy`: copies one store to another, of the same or another kind.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use pellucid_embedded::{EmbeddedOptions, EmbeddedStore};
use pellucid_engine::{VALUE_LENGTH_HARD_MAX, stat};
use pellucid_io::SystemFileSystem;
#[cfg(feature = "cql")]
use pellucid_server::{CqlOptions, CqlStore};
use pellucid_server::{DOCUMENTS_TABLE, ENTITIES_TABLE, NodeList, is_entity_table};
use pellucid_sharded::{ShardedOptions, ShardedStore};
use pellucid_store::{
    CopiedTable, Source, Store, StoreError, TableCopyProgress, begin_copy, compare, copy, empty,
    end_copy, filled_table, give_up_copies, is_same, occupied_table,
};
use serde_json::{Value, json};

use crate::Failure;
use crate::progress::Progress;
#[cfg(feature = "cql")]
use crate::settings::RingAccess;
#[cfg(not(feature = "cql"))]
use crate::settings::WITHOUT_RINGS;
#[cfg(not(feature = "rocksdb"))]
use crate::settings::WITHOUT_ROCKSDB;
use crate::settings::read_secret_bytes;

/// The prefix of the address of a ring, which is a cluster of Cassandra or ScyllaDB.
const RING: &str = "cql://";
/// The prefix of the address of a RocksDB folder.
const ROCKSDB: &str = "rocksdb://";
/// The prefix of the address of a sharded cluster.
const CLUSTER: &str = "cluster://";
/// Limit of a value in bytes in a folder or a cluster: the highest that a server may have, so that
/// a copy takes whatever the source holds.
const VALUE_BYTES_MAX: usize = VALUE_LENGTH_HARD_MAX;
/// The longest wait for an answer of a node of a sharded cluster.
const CLUSTER_WAIT: Duration = Duration::from_secs(10);

/// Copy all entities and documents from one store to another, and compare the two in the end.
///
/// A store is a folder, one of RocksDB as rocksdb://FOLDER, a ring as
/// cql://HOST:PORT,HOST:PORT/KEYSPACE, or a sharded cluster as cluster://HOST:PORT,HOST:PORT with
/// all of its nodes, which have to be running. Nobody may write to either meanwhile, and no server
/// have the folder open. A cluster has entities alone, so documents are left out where one of the
/// two is a cluster. A copy that was cut short goes on where it was when it is started again, and
/// takes no other source until it is done; other targets have to be empty. Sequence numbers, and
/// with them ETags and revisions, are new in the copy.
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
    /// Remove all entries of the target first (of entities alone where one of the two is a
    /// cluster), those of a copy that was cut short among them.
    #[arg(long)]
    anew: bool,
    /// The file with the secret that the nodes of the cluster have.
    #[arg(long)]
    cluster_secret_file: Option<PathBuf>,
    #[cfg(feature = "cql")]
    #[command(flatten)]
    ring: RingAccess,
}

/// The tables that are copied unless one of the stores is a cluster.
const TABLES: &[CopiedTable<'_>] = &[ENTITIES_TABLE, DOCUMENTS_TABLE];
/// The tables that are copied if one of the stores is a cluster: it has no documents.
const TABLES_OF_CLUSTER: &[CopiedTable<'_>] = &[ENTITIES_TABLE];

/// Copies all tables of one store to another and compares them.
pub(crate) fn run(arguments: &CopyArguments, json: bool) -> Result<(), Failure> {
    let CopyArguments { from: source, to: target, anew, cluster_secret_file: secret, .. } =
        arguments;
    check_source(source)?;
    let tables = match [source, target].iter().any(|place| place.starts_with(CLUSTER)) {
        true => {
            eprintln!("documents are left out: a cluster has entities alone");
            TABLES_OF_CLUSTER
        }
        false => TABLES,
    };
    let secret = secret.as_deref().map(read_secret_bytes).transpose()?;
    let open = |place: &str| open(place, secret.as_deref(), arguments);
    let (from, to) = (open(source)?, open(target)?);
    let named = named_tables(&*from, &*to)?;
    let named_tables = named.iter().map(|name| CopiedTable { name, part_of: None });
    let tables: Vec<_> = tables.iter().copied().chain(named_tables).collect();
    let mut others = table_names(&*to)?;
    others.retain(|name| !named.contains(name));
    let others = others.iter().map(|name| CopiedTable { name, part_of: None });
    // The tables of the target, whether the source has them or not.
    let targets: Vec<_> = tables.iter().copied().chain(others).collect();
    let tables = &tables[..];
    let identity = identity_of(source)?;
    let source = Source { store: &*from, identity: &identity };
    let refused = |error: StoreError| match error {
        StoreError::Unacceptable(what) => {
            Failure::work(format!("{what}: finish that one, or give it up with --anew"))
        }
        error => Failure::work(error),
    };
    if from.local().is_none() && to.local().is_none() && is_same(&*to, &*from)? {
        return Err(Failure::usage("the two are the same store"));
    }
    if *anew {
        if filled_table(&*from, tables)?.is_none() {
            return Err(Failure::work("the source has no entries: nothing was removed"));
        }
        give_up_copies(&*to)?;
        targets.iter().try_for_each(|table| empty(&*to, *table))?;
    } else if let Some(table) = occupied_table(&source, &*to, &targets).map_err(refused)? {
        return Err(Failure::work(format!(
            "{target} has entries already, in its table {table} (a server that has run on it has \
             written some): name an empty store, or remove them with --anew"
        )));
    }
    begin_copy(&source, &*to, tables).map_err(refused)?;
    let copied = tables.iter().map(|table| copy_table(&source, &*to, *table, json));
    let copied = copied.collect::<Result<Vec<_>, _>>()?;
    end_copy(&*to, tables)?;
    to.close().and_then(|()| from.close())?;
    if json {
        print_line!("{}", json!({ "schema": "pellucid.inspect_copy.v1", "tables": copied }));
    }
    Ok(())
}

/// The named tables of entities in a store.
fn table_names(store: &dyn Store) -> Result<Vec<String>, Failure> {
    let mut names = store.local().map_or_else(|| Ok(Vec::new()), |local| local.table_names())?;
    names.retain(|name| is_entity_table(name));
    names.sort_unstable();
    Ok(names)
}

/// The named tables of entities in the source; empty if the target cannot hold named tables.
fn named_tables(from: &dyn Store, to: &dyn Store) -> Result<Vec<String>, Failure> {
    let names = table_names(from)?;
    if to.local().is_none() && !names.is_empty() {
        let names = names.join(", ");
        let line = format!("{names}: left out, as the target has one table of entities");
        eprintln!("{line}");
        return Ok(Vec::new());
    }
    Ok(names)
}

/// Copies a table, compares source and target, and reports the number of entries and bytes.
fn copy_table(
    source: &Source<'_>,
    to: &dyn Store,
    table: CopiedTable<'_>,
    json: bool,
) -> Result<Value, Failure> {
    let progress = |what: &str| Progress::everywhere(format!("{}: {what}", table.name), json);
    let mut copying = progress("copied");
    let copied = copy(source, to, table, &mut |done| copying.show(done.entries, done.bytes));
    drop(copying);
    let copied = copied?;
    let mut comparing = progress("compared");
    let compared =
        compare(source.store, to, table, &mut |done| comparing.show(done.entries, done.bytes));
    drop(comparing);
    if let Err(StoreError::Corruption(_)) = compared {
        // The recorded progress of the copy is wrong, or the target has more entries: discard the
        // progress, so that the next copy starts at the first key.
        end_copy(to, &[table])?;
        begin_copy(source, to, &[table])?;
    }
    let TableCopyProgress { entries, bytes, expired, .. } = compared?;
    if !json {
        let over = match expired {
            0 => String::new(),
            count => format!(", and {count} in one alone whose time is over, or nearly so"),
        };
        print_line!("{}: {entries} entries, {bytes} bytes, the same in both{over}", table.name);
    }
    Ok(json!({
        "table": table.name,
        "copied": copied.entries,
        "resumed": copied.resumed,
        "compared": entries,
        "bytes": bytes,
        "expired": expired,
    }))
}

/// Refuses a source folder that contains no store, because opening it would make one.
fn check_source(place: &str) -> Result<(), Failure> {
    if place.starts_with(RING) || place.starts_with(CLUSTER) {
        return Ok(());
    }
    let rocksdb = place.strip_prefix(ROCKSDB);
    let folder = Path::new(rocksdb.unwrap_or(place));
    if !folder.is_dir() {
        let what = format!("{place} is no folder, no ring and no cluster: see --help");
        return Err(Failure::usage(what));
    }
    match rocksdb {
        None => stat(folder, &SystemFileSystem).map(|_| ()).map_err(Failure::from),
        Some(_) if folder.join("CURRENT").is_file() => Ok(()),
        Some(_) => Err(Failure::work(format!(
            "there is no RocksDB in {}: that of a server is in the folder rocksdb below its --data",
            folder.display()
        ))),
    }
}

/// Returns a text that identifies a source, so that an interrupted copy is resumed from the same
/// source only. A store in a folder has an identity that does not depend on the folder's path.
fn identity_of(place: &str) -> Result<String, Failure> {
    let sorted = |nodes: &str| {
        let mut nodes: Vec<_> = nodes.split(',').map(str::trim).collect();
        nodes.sort_unstable();
        nodes.join(",")
    };
    if let Some(nodes) = place.strip_prefix(CLUSTER) {
        return Ok(format!("{CLUSTER}{}", sorted(nodes)));
    }
    if let Some(ring) = place.strip_prefix(RING) {
        let (nodes, keyspace) = ring.split_once('/').unwrap_or((ring, ""));
        return Ok(format!("{RING}{}/{keyspace}", sorted(nodes)));
    }
    if let Some(folder) = place.strip_prefix(ROCKSDB) {
        let file = Path::new(folder).join("IDENTITY");
        let identity = std::fs::read_to_string(&file)
            .map_err(|error| Failure::work(format!("{}: {error}", file.display())))?;
        return Ok(format!("rocksdb {}", identity.trim()));
    }
    let report = stat(Path::new(place), &SystemFileSystem)?;
    Ok(format!("store {:016x}", report.store_identity))
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
        let options = ShardedOptions {
            secret,
            wait: CLUSTER_WAIT,
            value_bytes_max: VALUE_BYTES_MAX,
            ..ShardedOptions::new(nodes)
        };
        return Ok(Box::new(ShardedStore::open(options)?));
    }
    if let Some(folder) = place.strip_prefix(ROCKSDB) {
        return open_rocksdb(Path::new(folder));
    }
    let is_scheme = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let scheme = place.split_once(":/").filter(|(scheme, _)| is_scheme(scheme));
    let Some(ring) = place.strip_prefix(RING) else {
        if let Some((scheme, _)) = scheme {
            return Err(Failure::usage(format!(
                "`{scheme}:` is no kind of store: name a folder, {CLUSTER}NODE,…, {ROCKSDB}FOLDER \
                 or {RING}NODE,…/KEYSPACE"
            )));
        }
        let value_bytes_max = VALUE_BYTES_MAX;
        let options = EmbeddedOptions { value_bytes_max, ..EmbeddedOptions::default() };
        return Ok(Box::new(EmbeddedStore::open(Path::new(place), options)?));
    };
    open_ring(ring, arguments)
}

#[cfg(not(feature = "rocksdb"))]
fn open_rocksdb(_: &Path) -> Result<Box<dyn Store>, Failure> {
    Err(Failure::usage(WITHOUT_ROCKSDB))
}

#[cfg(feature = "rocksdb")]
fn open_rocksdb(folder: &Path) -> Result<Box<dyn Store>, Failure> {
    use pellucid_server::{RocksOptions, RocksStore};
    let options = RocksOptions { value_bytes_max: VALUE_BYTES_MAX, ..RocksOptions::default() };
    Ok(Box::new(RocksStore::open(folder, options)?))
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
    Ok(Box::new(CqlStore::open(&options)?))
}

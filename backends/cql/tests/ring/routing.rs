//! Routing: requests for one key go to a node that has a copy of it. The test compares the
//! coordinators in the ring's own traces with the owners of the keys.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use pellucid_account::Timeline;
use pellucid_cql::{CqlOptions, CqlStore};
use pellucid_store::Store;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tokio::runtime::{Builder, Runtime};

use super::nodes::{NODES, Ring};
use super::{get, options, put, wait_for};

/// Number of keys; each is written and read, and its head is read.
const KEYS: usize = 40;
/// The table of the keys, and the query for the ring's own table of traces.
const TABLE: &str = "keys";
const COLUMNS: &str = "SELECT coordinator, parameters FROM system_traces.sessions";

/// A request in the ring's traces: its coordinator, and its partition.
type TracedRequest = (IpAddr, Vec<u8>);

pub(crate) fn requests_go_to_who_has_the_key() {
    for copies in 1..NODES as u32 {
        let keyspace = format!("routed{copies}");
        let buckets = 64;
        let of = options(&keyspace);
        let of = CqlOptions { replication: Some(copies), buckets, trace_share: 1.0, ..of };
        let store = CqlStore::open(&of).unwrap();
        let table = store.table(TABLE).unwrap();
        for key in 0..KEYS {
            let key = format!("key {key}");
            put(&store, table, &key).unwrap();
            assert_eq!(get(&store, table, &key).unwrap().unwrap(), key.as_bytes());
            let head = store.head(table, key.as_bytes(), &mut Timeline::off()).wait();
            assert_eq!(head.unwrap().unwrap().value_length, key.len() as u64);
        }
        let seen = Observer::new();
        let traced = seen.requests(&keyspace, 3 * KEYS);
        let mut coordinators = BTreeSet::new();
        for (coordinator, partition) in traced {
            let owners = seen.owners(&keyspace, &partition);
            assert_eq!(owners.len(), copies as usize);
            assert!(owners.contains(&coordinator), "{coordinator} is none of {owners:?}");
            coordinators.insert(coordinator);
        }
        assert_eq!(coordinators.len(), NODES, "the keys are everywhere: {coordinators:?}");
    }
}

/// A session of its own that reads the ring's traces.
struct Observer {
    runtime: Runtime,
    session: Session,
}

impl Observer {
    fn new() -> Observer {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let builder = SessionBuilder::new().known_nodes(Ring::addresses());
        let session = runtime.block_on(builder.build()).unwrap();
        Observer { runtime, session }
    }

    /// The traced requests for single keys of a keyspace, once there are `count`: the ring writes a
    /// trace some time after the answer.
    fn requests(&self, keyspace: &str, count: usize) -> Vec<TracedRequest> {
        wait_for(|| {
            let found = self.traced(keyspace);
            if found.len() >= count { Ok(found) } else { Err(found.len()) }
        })
    }

    fn traced(&self, keyspace: &str) -> Vec<TracedRequest> {
        let found = self.runtime.block_on(self.session.query_unpaged(COLUMNS, &[]));
        let found = found.unwrap().into_rows_result().unwrap();
        let rows = found.rows::<(Option<IpAddr>, Option<HashMap<String, String>>)>().unwrap();
        let traced = rows.filter_map(|row| {
            let (coordinator, parameters) = row.unwrap();
            let (coordinator, parameters) = (coordinator?, parameters?);
            let is_ours = parameters.get("query")?.contains(&format!("{keyspace}.contents"));
            // By name, because the position differs from statement to statement.
            let of_name: BTreeMap<_, _> = parameters
                .iter()
                .filter_map(|(name, value)| Some((name.strip_prefix("bound_var_")?, value)))
                .filter_map(|(name, value)| Some((name.split_once('_')?.1, value)))
                .collect();
            let (partition, is_one) = (of_name.get("part")?, of_name.contains_key("key"));
            (is_ours && is_one).then(|| (coordinator, bytes(partition)))
        });
        traced.collect()
    }

    /// The nodes that have copies of a partition.
    fn owners(&self, keyspace: &str, partition: &[u8]) -> Vec<IpAddr> {
        let state = self.session.get_cluster_state();
        let owners = state.get_endpoints(keyspace, "contents", &(TABLE, partition)).unwrap();
        owners.iter().map(|(node, _)| node.address.ip()).collect()
    }
}

/// The bytes of a blob in the ring's text form.
fn bytes(text: &str) -> Vec<u8> {
    let digits = text.strip_prefix("0x").unwrap_or_else(|| panic!("{text} is no blob"));
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

//! Keyspaces that were there before: of an earlier state, and of somebody else.

use pellucid_account::Timeline;
use pellucid_cql::CqlStore;
use pellucid_store::{Acknowledgement, Condition, Operation, Store};
use scylla::client::session_builder::SessionBuilder;
use tokio::runtime::Builder;

use super::nodes::Ring;
use super::options;

pub(crate) fn keyspaces_that_were_there() {
    let contents = "space text, part blob, key blob, version bigint, expires bigint, \
                    length bigint, value blob, PRIMARY KEY ((space, part), key)";
    make("earlier", contents);
    make("foreign", "space text PRIMARY KEY, number int");
    // The earlier one gets what it lacks, which transactions need.
    let store = CqlStore::open(&options("earlier")).unwrap();
    let table = store.table("t").unwrap();
    let (value, condition) = (Some(&b"value"[..]), Condition::Absent);
    let operation = Operation { key: b"key", value, condition, lifetime_ms: None };
    let mut timeline = Timeline::off();
    store.write(table, &[operation], Acknowledgement::Os, &mut timeline).wait().unwrap();
    CqlStore::open(&options("earlier")).unwrap();
    let refused = CqlStore::open(&options("foreign")).err().unwrap().to_string();
    assert!(refused.contains("foreign.contents is not Pellucid's"), "{refused}");
}

/// Makes a keyspace whose contents have these columns.
fn make(keyspace: &str, columns: &str) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let session = SessionBuilder::new().known_nodes(Ring::addresses()).build().await.unwrap();
        let replication = "{'class': 'NetworkTopologyStrategy', 'replication_factor': 3}";
        for text in [
            format!("CREATE KEYSPACE {keyspace} WITH replication = {replication}"),
            format!("CREATE TABLE {keyspace}.contents ({columns})"),
        ] {
            session.query_unpaged(text, &[]).await.unwrap();
        }
    });
}

//! An existing keyspace that is not Pellucid's.

use pellucid_cql::CqlStore;
use scylla::client::session_builder::SessionBuilder;
use tokio::runtime::Builder;

use super::nodes::Ring;
use super::options;

pub(crate) fn a_keyspace_of_somebody_else_is_refused() {
    make("foreign", "space text PRIMARY KEY, number int");
    let refused = CqlStore::open(&options("foreign")).err().unwrap().to_string();
    assert!(refused.contains("foreign.contents is not Pellucid's"), "{refused}");
}

/// Creates a keyspace with a table `contents` that has these columns.
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

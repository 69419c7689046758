//! One request over two nodes as one account: its trace continues at the owner, and the slow
//! requests of the entry node show the owner's part.

use crate::common::collector::{collector, spans};
use crate::common::nodes::Nodes;
use crate::common::{PATIENCE, entity, wait_for};
use pellucid_server::TraceCollector;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

#[test]
fn the_trace_goes_on_at_the_owner_below_the_entry_nodes_span() {
    let (url, received) = collector();
    let nodes = Nodes::start(2, |options| {
        options.export = Some(TraceCollector::to(&url, None).unwrap());
    });
    let target = entity(nodes.key_of(1));
    assert_eq!(nodes.client(0).call("PUT", &target, &[], b"value").status, 201);
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [("traceparent", &*parent), ("tracestate", "rojo=00f0,a=1")];
    let answer = nodes.client(0).call("GET", &target, &headers, b"");
    assert_eq!((answer.status, answer.text()), (200, "value"));
    let (mut entry, mut owner) = (None, None);
    while entry.is_none() || owner.is_none() {
        let (_, document) = received.recv_timeout(PATIENCE).unwrap();
        for span in spans(&document) {
            assert_eq!(
                (&span["traceId"], &span["traceState"]),
                (&TRACE.into(), &"rojo=00f0,a=1".into())
            );
            match span["name"].as_str().unwrap() {
                "entity_get_forwarded" => entry = Some(span.clone()),
                "peer_get" => owner = Some(span.clone()),
                _ => {}
            }
        }
    }
    let (entry, owner) = (entry.unwrap(), owner.unwrap());
    assert_eq!(
        (&entry["parentSpanId"], &owner["parentSpanId"]),
        (&PARENT.into(), &entry["spanId"])
    );
    assert_ne!(entry["spanId"], owner["spanId"]);
}

#[test]
fn slow_requests_of_the_entry_node_show_the_owners_part() {
    let nodes = Nodes::start(2, |_| {});
    let target = entity(nodes.key_of(1));
    let mut client = nodes.client(0);
    assert_eq!(client.call("PUT", &target, &[], b"value").status, 201);
    assert_eq!(client.get(&target).status, 200);
    wait_for(|| {
        assert_eq!(client.get(&target).status, 200);
        let slow = client.get("/_admin/slow?operation=entity_get_forwarded").json().to_string();
        let parts = ["\"peer_wait\"", "\"network\"", "\"owner_"];
        if parts.iter().all(|part| slow.contains(part)) { Ok(()) } else { Err(slow) }
    });
}

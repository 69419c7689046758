//! `PUT /_admin/compact`: a full merge on request.

use crate::common::{Client, entity, start};

fn tables_by_level(client: &mut Client) -> Vec<u64> {
    let engine = client.get("/_admin/engine").having(200).json();
    let levels = engine["state"]["levels"].as_array().unwrap().iter();
    levels.map(|level| level["tables"].as_u64().unwrap()).collect()
}

#[test]
fn all_tables_are_merged_into_one_level_and_nothing_is_lost() {
    let mut running = start();
    for round in 0..3 {
        let mut client = running.client();
        for key in 0..50 {
            let value = format!("value {key} of round {round}");
            assert!(client.put(&entity(format!("k{}", key + round * 10)), value).status < 300);
        }
        // A clean stop flushes the memtable to a table of its own.
        running = running.restart();
    }
    let mut client = running.client();
    let before = tables_by_level(&mut client);
    assert!(before.iter().sum::<u64>() > 1, "nothing to merge: {before:?}");
    let took = client.put("/_admin/compact", b"").having(200).json();
    assert!(took["duration_ns"].as_u64().unwrap() > 0);
    let after = tables_by_level(&mut client);
    assert_eq!(after.iter().filter(|tables| **tables > 0).count(), 1, "{after:?}");
    assert_eq!(client.get(&entity("k25")).text(), "value 5 of round 2");
    assert_eq!(client.get(&entity("k3")).text(), "value 3 of round 0");
}

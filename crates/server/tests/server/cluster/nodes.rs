//! Three nodes in this process: every key is on one of them, and any of them accepts any request.

use std::collections::BTreeMap;

use crate::common::nodes::{Nodes, free_addresses, keys_at, list_of, options, try_start};
use crate::common::{Client, entity, wait_for};
use pellucid_server::{NodeList, ServerOptions};
use tempfile::TempDir;

#[test]
fn any_node_takes_any_request() {
    let nodes = Nodes::start(3, |_| {});
    for owner in 0..3 {
        for entry in 0..3 {
            let key = format!("{}-{entry}", nodes.key_of(owner));
            let target = entity(&key);
            let other = (entry + 1) % 3;
            let (mut one, mut two) = (nodes.client(entry), nodes.client(other));
            assert_eq!(one.get(&target).status, 404);
            let put = one.call("PUT", &target, &[], b"value").having(201);
            let got = two.get(&target);
            assert_eq!((got.status, got.text(), got.etag()), (200, "value", put.etag()));
            assert!(got.header("Last-Modified").is_some());
            let head = one.call("HEAD", &target, &[], b"");
            assert_eq!((head.status, head.header("Content-Length")), (200, Some("5")));
            assert_eq!(head.etag(), put.etag());
            assert_eq!(two.call("DELETE", &target, &[], b"").status, 202);
            assert_eq!(one.get(&target).status, 404);
            assert_eq!(one.call("HEAD", &target, &[], b"").status, 404);
        }
    }
}

#[test]
fn conditions_lifetimes_and_acknowledgements_reach_the_owner() {
    let nodes = Nodes::start(2, |_| {});
    let target = entity(nodes.key_of(1));
    let mut client = nodes.client(0);
    assert_eq!(client.call("PUT", &target, &[("If-Match", "*")], b"x").status, 412);
    let put = client.call("PUT", &target, &[("If-None-Match", "*")], b"one").having(201);
    let again = client.call("PUT", &target, &[("If-None-Match", "*")], b"two").having(412);
    assert!(again.text().contains(&put.etag()), "{}", again.text());
    let etag = put.etag();
    assert_eq!(client.call("GET", &target, &[("If-None-Match", &*etag)], b"").status, 304);
    assert_eq!(client.call("GET", &target, &[("If-Match", "\"1\"")], b"").status, 412);
    let put = client.call("PUT", &format!("{target}&sync=disk"), &[("If-Match", &etag)], b"two");
    assert_eq!((put.status, client.get(&target).text().to_owned()), (201, "two".to_owned()));
    assert_eq!(client.call("PUT", &format!("{target}&ttl=0"), &[], b"gone").status, 201);
    assert_eq!(client.get(&target).status, 404);
    assert_eq!(client.call("PUT", &format!("{target}&sync=never"), &[], b"x").status, 400);
    assert_eq!(client.get(&format!("{target}&ack=1&from=1")).status, 404);
    assert_eq!(client.get(&format!("{target}&ack=2&from=3")).status, 400);
    assert_eq!(client.call("PUT", &target, &[], b"").status, 201);
    assert_eq!((client.get(&target).status, client.get(&target).body.len()), (200, 0));
}

#[test]
fn keys_and_values_of_any_bytes_and_lengths_pass() {
    let nodes = Nodes::start(2, |_| {});
    let mut client = nodes.client(0);
    for length in [1, 1_000, 65_536, 65_537, 3_000_000] {
        let key = (0_u32..).map(|n| [b"\n\xff\0".as_slice(), &n.to_le_bytes()].concat());
        let key = key.clone().find(|key| nodes.owner(key) == 1).unwrap();
        let value: Vec<u8> = (0..length).map(|at| (at * 7 + at / 251) as u8).collect();
        assert_eq!(client.call("PUT", &entity(&key), &[], &value).status, 201);
        assert!(client.get(&entity(&key)).body == value, "{length}");
        assert!(nodes.client(1).get(&entity(&key)).body == value, "{length}");
    }
}

#[test]
fn many_requests_on_one_connection_come_back_in_their_order() {
    let nodes = Nodes::start(3, |_| {});
    let mut client = nodes.client(0);
    let mut bytes = Vec::new();
    for number in 0..300 {
        let target = entity(format!("many{number}"));
        let body = format!("{number}");
        bytes.extend_from_slice(&crate::common::request("PUT", &target, &[], body.as_bytes()));
        bytes.extend_from_slice(&crate::common::request("GET", &target, &[], b""));
    }
    client.send(&bytes);
    for number in 0..300 {
        assert_eq!(client.answer().status, 201);
        assert_eq!(client.answer().text(), format!("{number}"));
    }
}

#[test]
fn ranges_are_the_nodes_own_or_merged() {
    let nodes = Nodes::start(3, |_| {});
    let mut client = nodes.client(0);
    let mut all = BTreeMap::new();
    for number in 0..500 {
        let (key, value) = (format!("r{number:04}"), "v".repeat(number * 3));
        assert_eq!(client.call("PUT", &entity(&key), &[], value.as_bytes()).status, 201);
        all.insert(key, value);
    }
    let text = |entries: &mut dyn Iterator<Item = (&String, &String)>| -> String {
        entries.map(|(key, value)| format!("{key}\n{value}")).collect()
    };
    for node in 0..3 {
        let mut client = nodes.client(node);
        let own = text(&mut all.iter().filter(|(key, _)| nodes.owner(key.as_bytes()) == node));
        assert_eq!(client.get("/v0/entities?start=r").text(), own);
        let merged = client.get("/v0/entities?start=r&cluster=true");
        assert!(merged.text() == text(&mut all.iter()), "merged by node {node}");
        let backwards = client.get("/v0/entities?start=r0100&end=r0400&cluster=true&reverse=true");
        let expected = all
            .iter()
            .rev()
            .filter(|(key, _)| (String::from("r0100")..String::from("r0400")).contains(*key));
        assert!(backwards.text() == text(&mut expected.into_iter()), "reversed by node {node}");
        let few = client.get("/v0/entities?start=r&cluster=true&limit=7");
        assert_eq!(few.text(), text(&mut all.iter().take(7)));
        let none = client.get("/v0/entities?start=x&cluster=true");
        assert_eq!((none.status, none.body.len()), (200, 0));
        // Regression: numbers of copies other than one were accepted.
        for (copies, status) in [("ack=1&from=1", 200), ("ack=2&from=2", 400), ("ack=1", 400)] {
            let asked = client.get(&format!("/v0/entities?start=r&cluster=true&{copies}"));
            assert_eq!(asked.status, status, "{copies}");
        }
        // Regression: a key that fits into no frame ended the event loop.
        let long = "k".repeat(1_025);
        for range in [format!("start={long}"), format!("start=a&end={long}")] {
            client.get(&format!("/v0/entities?{range}&cluster=true")).having(400);
        }
        assert_eq!(client.get(&entity("k".repeat(1_025))).status, 400);
        // Regression: the merged range ignored `table`, and read the default table.
        for (table, status) in [("table=a&table=b", 400), ("table=%2F", 400), ("table=x", 501)] {
            let refused = client.get(&format!("/v0/entities?start=r&cluster=true&{table}"));
            assert_eq!(refused.status, status, "{}", refused.text());
        }
    }
}

/// Regression: one node's share of the keys was removed, with 200.
#[test]
fn a_table_of_a_cluster_cannot_be_emptied() {
    let nodes = Nodes::start(2, |_| {});
    let mut client = nodes.client(0);
    let targets = [0, 1].map(|node| entity(nodes.key_of(node)));
    targets.iter().for_each(|target| assert_eq!(client.put(target, "x").status, 201));
    client.call("DELETE", "/v0/tables/entities", &[], b"").having(501);
    targets.iter().for_each(|target| assert_eq!(client.get(target).text(), "x"));
}

#[test]
fn a_batch_belongs_to_one_node() {
    let nodes = Nodes::start(2, |_| {});
    let line = |key: &str| {
        use base64::Engine as _;
        let key = base64::engine::general_purpose::STANDARD.encode(key);
        format!("{{\"op\":\"put\",\"key\":\"{key}\",\"value\":\"eA==\"}}\n")
    };
    let own: Vec<_> = nodes.keys_of(1).take(2).collect();
    let mut client = nodes.client(0);
    let both = line(&own[0]) + &line(&own[1]);
    let answer = client.call("POST", "/v0/batch", &[], both.as_bytes());
    assert_eq!((answer.status, &answer.json()["entries"]), (200, &serde_json::json!(2)));
    assert_eq!(client.get(&entity(&own[1])).text(), "x");
    let mixed = line(&own[0]) + &line(&nodes.key_of(0));
    let refused = client.call("POST", "/v0/batch", &[], mixed.as_bytes()).having(400);
    for node in &nodes.nodes {
        assert!(refused.text().contains(&node.address.to_string()), "{}", refused.text());
    }
}

/// Otherwise, keys of other nodes would seem to be missing.
#[test]
fn a_read_of_several_keys_is_refused_if_another_node_has_one() {
    let nodes = Nodes::start(2, |_| {});
    let line = |key: &str| {
        use base64::Engine as _;
        let key = base64::engine::general_purpose::STANDARD.encode(key);
        format!("{{\"key\":\"{key}\"}}\n")
    };
    let (own, other) = (nodes.key_of(0), nodes.key_of(1));
    let mut client = nodes.client(0);
    client.put(&entity(&own), "x").having(201);
    let mut ask = |keys: String| client.call("POST", "/v0/entities/get", &[], keys);
    assert_eq!(ask(line(&own)).lines().len(), 1);
    let refused = ask(line(&own) + &line(&other)).having(400);
    assert!(refused.text().contains("key 2 "), "{}", refused.text());
}

#[test]
fn a_dead_node_fails_only_its_keys_and_can_return() {
    let mut nodes = Nodes::start(3, |_| {});
    let (alive, dead) = (entity(nodes.key_of(1)), entity(nodes.key_of(2)));
    let mut client = nodes.client(0);
    for target in [&alive, &dead] {
        assert_eq!(client.call("PUT", target, &[], b"kept").status, 201);
    }
    nodes.lose(2, 0);
    let answer = client.get(&dead);
    let address = nodes.nodes[2].address;
    assert_eq!(answer.status, 504);
    assert!(answer.text().contains(&address.to_string()), "{}", answer.text());
    assert_eq!(client.call("PUT", &dead, &[], b"x").status, 504);
    assert_eq!(client.get(&alive).text(), "kept");
    let merged = client.get("/v0/entities?start=k&cluster=true");
    assert_eq!(merged.status, 504, "a range that lacks a node is none");
    nodes.start_again(2);
    nodes.wait_for_all(0);
    assert_eq!(client.get(&dead).text(), "kept");
}

#[test]
fn a_list_that_would_strand_keys_is_refused() {
    let mut nodes = Nodes::start(2, |_| {});
    let key = entity(nodes.key_of(0));
    assert_eq!(nodes.client(0).call("PUT", &key, &[], b"x").status, 201);
    nodes.stop(0);
    let (folder, address) = (&nodes.nodes[0].folder, nodes.nodes[0].address);
    let other = list_of(&[address]);
    let error = try_start(options(folder, address, &other)).err().unwrap().to_string();
    assert!(error.contains(&nodes.list.text()) && error.contains("empty folder"), "{error}");
    let mut alone = ServerOptions::new(folder.path().to_owned());
    alone.listen = vec![address.into()];
    let error = try_start(alone).err().unwrap().to_string();
    assert!(error.contains("--cluster"), "{error}");
    nodes.start_again(0);
    assert_eq!(nodes.client(0).get(&key).text(), "x");
}

#[test]
fn lists_that_differ_are_detected_and_named_on_both_sides() {
    let addresses = free_addresses(3);
    let (two, three) = (list_of(&addresses[..2]), list_of(&addresses));
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let (one, one_log) = try_start(options(&folders[0], addresses[0], &two)).unwrap();
    let (other, other_log) = try_start(options(&folders[1], addresses[1], &three)).unwrap();
    let names_both = |line: &String| line.contains(&two.text()) && line.contains(&three.text());
    for log in [one_log, other_log] {
        wait_for(|| {
            let lines = log.lock().unwrap();
            if lines.iter().any(names_both) { Ok(()) } else { Err(lines.clone()) }
        });
    }
    let key = keys_at(&two, format!("http://{}", addresses[1])).next().unwrap();
    // Each event loop detects it separately.
    wait_for(|| {
        let answer = Client::connect(addresses[0]).get(&entity(&key)).having(504);
        if answer.text().contains("lists of nodes differ") { Ok(()) } else { Err(answer) }
    });
    one.stop().unwrap();
    other.stop().unwrap();
}

#[test]
fn a_node_that_comes_back_with_another_list_is_refused_until_it_has_the_right_one() {
    let mut nodes = Nodes::start(2, |_| {});
    let target = entity(nodes.key_of(1));
    let address = nodes.nodes[1].address;
    nodes.stop(1);
    let third = free_addresses(1)[0];
    let other = list_of(&[nodes.nodes[0].address, address, third]);
    // It has no keys, so it may start with any list.
    let (server, _) = try_start(options(&nodes.nodes[1].folder, address, &other)).unwrap();
    wait_for(|| {
        let answer = nodes.client(0).get(&target).having(504);
        let is_named = |list: &&NodeList| answer.text().contains(&list.text());
        if [&nodes.list, &other].iter().all(is_named) { Ok(()) } else { Err(answer) }
    });
    server.stop().unwrap();
    nodes.start_again(1);
    nodes.wait_for_all(0);
    assert_eq!(nodes.client(0).call("PUT", &target, &[], b"x").status, 201);
}

#[test]
fn documents_are_refused_clearly() {
    let nodes = Nodes::start(2, |_| {});
    let mut client = nodes.client(0);
    let answer = client.get("/_api/document/c/1");
    assert_eq!((answer.status, &answer.json()["errorNum"]), (501, &serde_json::json!(9)));
    client.call("POST", "/_api/cursor", &[], b"{\"query\":\"RETURN 1\"}").having(501);
    assert_eq!(client.get("/_api/version").status, 200);
}

#[test]
fn the_account_shows_entry_network_and_owner() {
    let nodes = Nodes::start(2, |_| {});
    let target = entity(nodes.key_of(1));
    let mut client = nodes.client(0);
    assert_eq!(client.call("PUT", &target, &[], b"value").status, 201);
    // A part of zero is not shown. The network's part may be zero if this node was delayed between
    // sending and reading its clock.
    let timing = wait_for(|| {
        let got = client.call("GET", &target, &[("Prefer", "timing")], b"");
        let timing = got.header("Server-Timing").unwrap().to_owned();
        let has = |name: &&str| timing.contains(&format!("{name};dur="));
        let has_all = ["execute", "peer_wait", "network", "total"].iter().all(has);
        if has_all { Ok(timing) } else { Err(timing) }
    });
    let of = |name: &str| -> f64 {
        let metric =
            timing.split(", ").find_map(|metric| metric.strip_prefix(&format!("{name};dur=")));
        metric.map_or(0.0, |text| text.parse().unwrap())
    };
    let parts = [
        "peer_wait", "network", "owner_receive", "owner_queue", "owner_ledger", "owner_journal",
        "owner_wait", "owner_other",
    ];
    let sum: f64 = parts.iter().map(|part| of(part)).sum();
    // Each is rounded to a microsecond.
    assert!(sum <= of("execute") + 0.01, "{timing}");
    for (node, wanted) in [(0, "entity_get_forwarded"), (1, "peer_get")] {
        wait_for(|| {
            let account = nodes.client(node).get("/_admin/account").json();
            let mut operations = account["operations"].as_array().unwrap().iter();
            let is_there = operations.any(|operation| operation["operation"] == wanted);
            if is_there { Ok(()) } else { Err(account) }
        });
    }
    let metrics = nodes.client(0).get("/metrics");
    let line = format!("pellucid_peer_answered_total{{peer=\"{}\"}}", nodes.url(1));
    assert!(metrics.text().contains(&line), "{}", metrics.text());
}

#[test]
fn a_client_that_knows_the_owners_needs_no_forwarding() {
    let nodes = Nodes::start(3, |_| {});
    let mut client = pellucid_client::Client::connect(&nodes.url(0)).unwrap();
    assert_eq!(client.nodes(), Some(&nodes.list));
    for number in 0..30 {
        let (key, value) = (format!("\u{e4}/{number}"), vec![b'v'; number * 5_000]);
        client.put(key.as_bytes(), &value).unwrap();
        assert!(client.get(key.as_bytes()).unwrap() == Some(value));
        client.delete(key.as_bytes()).unwrap();
        assert_eq!(client.get(key.as_bytes()).unwrap(), None);
    }
    for node in 0..3 {
        let view = nodes.view(node);
        let mut peers = view["nodes"].as_array().unwrap().iter();
        assert!(peers.all(|peer| peer["asked"].as_u64().unwrap_or(0) == 0), "{view}");
    }
    assert!(pellucid_client::Client::connect("http://127.0.0.1:1").is_err());
}

#[test]
fn a_server_without_a_cluster_says_so() {
    let server = crate::common::start();
    let view = server.client().get("/v0/cluster").json();
    assert_eq!((&view["sharded"], view["nodes"].as_array().unwrap().len()), (&false.into(), 0));
    let url = format!("http://{}", server.address);
    let mut client = pellucid_client::Client::connect(&url).unwrap();
    client.put(b"key", b"value").unwrap();
    assert_eq!(client.get(b"key").unwrap().as_deref(), Some(b"value".as_slice()));
    server.client().get("/v0/cluster/peer").having(400);
}

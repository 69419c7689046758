//! Tests of `pellucid load --direct`, which sends each request to the node that owns its key.

use std::io::{Read, Write};

use crate::common::{
    account, done, failed, fails, json_of, pellucid, run, signal, spawn, stub_server, text,
    wait_until,
};
use crate::nodes::Nodes;
use serde_json::Value;
use tempfile::TempDir;

/// A script of PUTs and GETs of 300 keys, with bytes that must be percent-encoded. It begins with
/// 600 PUTs, because the generator calls the function some times before the load begins.
const SCRIPT: &str = "
local number = 0
function request()
  number = number + 1
  local path = '/v0/entity?id=k%2F' .. (number % 300)
  if number <= 600 then return wrk.format('PUT', path, nil, 'value') end
  return wrk.format('GET', path)
end
";

fn script(folder: &TempDir) -> String {
    let path = folder.path().join("keys.lua");
    std::fs::write(&path, SCRIPT).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Returns the number of requests that the nodes have forwarded to others.
fn forwarded(nodes: &Nodes) -> u64 {
    let of = |node: usize| -> u64 {
        let view = nodes.view(node);
        let peers = view["nodes"].as_array().unwrap().iter();
        peers.filter_map(|peer| peer["asked"].as_u64()).sum()
    };
    (0..nodes.nodes.len()).map(of).sum()
}

#[test]
fn nothing_is_forwarded_and_the_report_says_where_requests_went() {
    let nodes = Nodes::start(3, |_| {});
    let folder = TempDir::new().unwrap();
    let (script, html) = (script(&folder), folder.path().join("direct.html"));
    for rate in [&[][..], &["-R", "400"]] {
        let flags = ["load", "--direct", "-t", "1", "-c", "6", "-d", "2s", "--json", "-s", &script];
        let file = ["--html", html.to_str().unwrap()];
        let document = json_of(&run(&[&flags[..], rate, &file, &[&nodes.url(0)]].concat()));
        let direct = &document["direct"];
        let sent = direct["nodes"].as_array().unwrap();
        let requests: Vec<u64> = sent.iter().map(|n| n["requests"].as_u64().unwrap()).collect();
        assert_eq!((sent.len(), &direct["by_another"]), (3, &Value::from(0)), "{direct}");
        assert!(requests.iter().all(|requests| *requests > 0), "{requests:?}");
        let all: u64 = requests.iter().sum();
        let answered = document["requests"].as_u64().unwrap();
        assert!(answered > 0 && answered <= all, "{answered} of {all}");
        assert_eq!(document["errors"]["status"], 0, "{}", document["first_error"]);
        // Each node sends its own part of the account.
        for node in sent {
            assert!(nodes.list.text().contains(node["url"].as_str().unwrap()));
            assert!(node["account"]["operation"].as_str().unwrap().starts_with("entity_"));
        }
        assert_eq!(forwarded(&nodes), 0);
        let page = std::fs::read_to_string(&html).unwrap();
        assert!(page.contains("Requests by node") && page.contains("the owner of its key"));
    }
    let output = run(&["load", "--direct", "-t1", "-c1", "-d1s", "-s", &script, &nodes.url(0)]);
    let shown = text(&output.stdout);
    assert!(shown.contains("each request went to the owner of its key"), "{shown}");
}

/// The way of a forwarded request includes the network between the nodes and the phases of the
/// owner. The way of a request that goes directly to its owner does not.
#[test]
fn the_way_of_a_forwarded_request_goes_on_to_its_owner() {
    let nodes = Nodes::start(2, |_| {});
    let path = crate::common::entity(nodes.key_of(1));
    nodes.client(1).put(&path, b"value");
    let target = format!("{}{path}", nodes.url(0));
    let flags = ["load", "-t", "1", "-c", "2", "-d", "2s", "-R", "400", "--json"];
    for (more, is_forwarded) in [(&[][..], true), (&["--direct"], false)] {
        let document = json_of(&run(&[&flags[..], more, &[&target]].concat()));
        assert_eq!(document["errors"]["status"], 0, "{}", document["first_error"]);
        let around = document["ways"]["around"].as_array().unwrap();
        assert!(!around.is_empty(), "{}", document["ways"]);
        let mut is_owner_named = false;
        for way in around {
            let steps = way["steps"].as_array().unwrap();
            let ns_of = |begin: &str| -> f64 {
                let begin = format!("server: execute, {begin}");
                let is_it = |step: &&Value| step["name"].as_str().unwrap().starts_with(&begin);
                steps.iter().filter(is_it).map(|step| step["ns"].as_f64().unwrap()).sum()
            };
            assert_eq!(ns_of("network") > 0.0, is_forwarded, "{way}");
            // A phase of the owner below a microsecond is reported as 0.
            is_owner_named |= ns_of("owner_") > 0.0;
            let sum: f64 = steps.iter().map(|step| step["ns"].as_f64().unwrap()).sum();
            let whole = way["response_mean_ns"].as_f64().unwrap();
            assert!((sum - whole).abs() < whole * 0.01 + 1_000.0, "{sum} {way}");
        }
        assert_eq!(is_owner_named, is_forwarded, "{around:?}");
    }
}

/// Regression: requests without a key went to the first node if the list names the node of the URL
/// in another way.
#[test]
fn requests_without_a_key_go_to_the_node_of_the_url() {
    let nodes = Nodes::start(2, |_| {});
    for node in 0..2 {
        let url = format!("http://localhost:{}/_api/version", nodes.nodes[node].address.port());
        let document = json_of(&run(&["load", "--direct", "-t1", "-c1", "-d1s", "--json", &url]));
        for asked in document["direct"]["nodes"].as_array().unwrap() {
            let is_of_url = asked["url"] == nodes.url(node);
            assert_eq!(asked["requests"].as_u64().unwrap() > 0, is_of_url, "{asked}");
        }
    }
}

/// Regression: a server with accounts was asked for its nodes, its account and its background work
/// without the credentials of the requests.
#[test]
fn a_node_alone_is_the_owner_of_everything() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    done(&account(&data, &["add", "ada", "--admin"], "secret\n"));
    let server = crate::common::TestServer::start(&data, &[]);
    let url = server.url() + "/v0/entity?id=a";
    // `ada:secret` in base64.
    let flags = ["-t1", "-c2", "-d1s", "-T60s", "-H", "authorization: Basic YWRhOnNlY3JldA=="];
    let output = run(&[&["load", "--direct", "--json"], &flags[..], &[&url]].concat());
    let document = json_of(&output);
    assert_eq!(document["direct"]["nodes"].as_array().unwrap().len(), 1, "{document}");
    assert!(document["account"].is_object(), "{document}");
    assert!(!document["background"].as_array().unwrap().is_empty(), "{document}");
}

/// When a node dies, the other nodes answer the requests for its keys with 504, and the run
/// continues.
#[test]
fn a_node_that_dies_is_asked_by_way_of_the_others() {
    let mut nodes = Nodes::start(3, |_| {});
    let folder = TempDir::new().unwrap();
    let script = script(&folder);
    let flags = ["load", "--direct", "-t", "1", "-c", "3", "-d", "170s", "--json", "-s", &script];
    let mut command = pellucid(&[&flags[..], &[&nodes.url(0)]].concat());
    let child = spawn(&mut command);
    let dies = nodes.nodes[2].address;
    let key = nodes.keys_of(2).next().unwrap();
    assert_eq!(nodes.client(2).get(&crate::common::entity(&key)).status, 404);
    let first = || nodes.client(2).get("/v0/entities?start=k&limit=1");
    wait_until(first, |first| first.text().contains("value"));
    nodes.stop(2);
    let unreachable = |node: usize| -> u64 {
        let view = nodes.view(node);
        let peers = view["nodes"].as_array().unwrap().iter();
        peers.filter_map(|peer| peer["unreachable"].as_u64()).sum()
    };
    wait_until(|| unreachable(0) + unreachable(1), |requests| *requests > 100);
    signal(&child, libc::SIGINT);
    let document = json_of(&child.wait_with_output().unwrap());
    assert!(document["direct"]["by_another"].as_u64().unwrap() > 0, "{}", document["direct"]);
    assert!(document["errors"]["status"].as_u64().unwrap() > 0, "{}", document["errors"]);
    assert!(nodes.list.text().contains(&dies.to_string()));
}

#[test]
fn without_a_list_of_nodes_there_is_an_error_that_says_why() {
    // The server is not a Pellucid node.
    let other = stub_server(|mut socket| {
        let _ = socket.read(&mut [0; 4_096]);
        let _ = socket.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone");
    });
    let output = run(&["load", "--direct", "-d1s", &other]);
    ["--direct", "/v0/cluster", "404"].into_iter().for_each(|word| failed(&output, 1, word));
    // The list has a node that is not running.
    let mut nodes = Nodes::start(2, |_| {});
    nodes.stop(1);
    let output = run(&["load", "--direct", "-d1s", &nodes.url(0)]);
    [&*nodes.nodes[1].address.to_string(), "away"]
        .into_iter()
        .for_each(|word| failed(&output, 1, word));
    for flags in [["--direct", "--http2"], ["--direct", "--no-keep-alive"]] {
        fails(&[&["load"], &flags[..], &["http://127.0.0.1:1"]].concat(), 2, "--direct");
    }
    let output = run(&["load", "--direct", "https://127.0.0.1:1"]);
    ["--direct", "TLS"].into_iter().for_each(|word| failed(&output, 2, word));
}

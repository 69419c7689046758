//! The contract of the entity API, line by line: statuses, headers, keys, limits.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::{
    TestStore, encode, entity, request, serve, serve_with, start, unix_seconds, wait_until,
};

fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Without this check, a run meant for another kind of store could test the embedded one.
#[test]
fn the_store_is_of_the_kind_that_the_environment_names() {
    let running = start();
    let answer = running.client().get("/metrics");
    let is_rocks = TestStore::asked_for() == TestStore::Rocks;
    assert_eq!(answer.text().contains("rocksdb_memtable_bytes"), is_rocks);
    for unknown in ["", "rocks", "RocksDB", "cql"] {
        let refused = TestStore::named(Some(unknown)).unwrap_err();
        assert!(refused.contains(&format!("PELLUCID_TEST_STORE is {unknown:?}")), "{refused}");
    }
    let rocks = TestStore::named(Some("rocksdb"));
    assert_eq!(rocks.is_ok(), cfg!(feature = "rocksdb"), "{rocks:?}");
}

#[test]
fn get_gives_the_value_with_length_etag_and_date() {
    let (_running, mut client) = serve();
    let before = now_seconds();
    let put = client.put(&entity("k"), "value");
    assert_eq!((put.status, put.body.len()), (201, 0));
    let get = client.get(&entity("k"));
    assert_eq!((get.status, get.text()), (200, "value"));
    assert_eq!(get.header("Content-Length"), Some("5"));
    assert_eq!(get.etag(), put.etag());
    let modified = unix_seconds(get.header("Last-Modified").unwrap());
    assert!((before..=now_seconds()).contains(&modified));
}

#[test]
fn an_etag_is_a_quoted_sequence_number_that_grows_with_every_write() {
    let (_running, mut client) = serve();
    let sequence = |etag: String| -> u64 {
        etag.strip_prefix('"').unwrap().strip_suffix('"').unwrap().parse().unwrap()
    };
    let first = sequence(client.put(&entity("a"), "x").etag());
    let second = sequence(client.put(&entity("b"), "x").etag());
    let third = sequence(client.put(&entity("a"), "x").etag());
    assert!(0 < first && first < second && second < third);
}

#[test]
fn head_is_get_without_the_body() {
    let (_running, mut client) = serve();
    for (key, value) in [("small", "x".repeat(10)), ("large", "y".repeat(300_000))] {
        client.put(&entity(key), &value);
        let get = client.get(&entity(key));
        assert_eq!(get.text(), value);
        let head = client.call("HEAD", &entity(key), &[], b"");
        assert_eq!((head.status, head.body.len()), (200, 0));
        for name in ["Content-Length", "ETag", "Last-Modified", "Content-Type"] {
            assert_eq!(head.header(name), get.header(name), "{name}");
        }
        assert_eq!(head.header("Content-Length").unwrap(), value.len().to_string());
    }
    assert_eq!(client.call("HEAD", &entity("none"), &[], b"").status, 404);
    assert_eq!(client.get(&entity("small")).status, 200, "the connection is in step");
}

/// A HEAD that read the value would cost as much as a GET; the account shows that it does not.
#[test]
fn head_never_reads_the_value() {
    let (running, mut client) = serve();
    client.put(&entity("k"), "v".repeat(200_000));
    client.get(&entity("k"));
    client.call("HEAD", &entity("k"), &[], b"");
    let account = running.account();
    let parts = |name: &str| -> Vec<String> {
        let of = account.operations.iter().find(|account| account.operation == name).unwrap();
        of.parts.iter().map(|part| part.name.clone()).collect()
    };
    match TestStore::asked_for() {
        TestStore::Embedded => {
            assert!(parts("entity_get").contains(&"journal_read".to_owned()));
            assert_eq!(parts("entity_head"), ["ledger"]);
        }
        // RocksDB keeps the head in front of the value, and finds both at once.
        TestStore::Rocks => {
            for operation in ["entity_get", "entity_head"] {
                let parts = parts(operation);
                assert!(parts.contains(&"memtable".to_owned()), "{operation}: {parts:?}");
            }
        }
    }
}

#[test]
fn put_stores_empty_values_and_overwrites() {
    let (_running, mut client) = serve();
    for value in ["first", "", "third, longer", "x"] {
        assert_eq!(client.put(&entity("k"), value).status, 201);
        let get = client.get(&entity("k"));
        assert_eq!((get.status, get.text()), (200, value));
        let head = client.call("HEAD", &entity("k"), &[], b"");
        assert_eq!(head.header("Content-Length").unwrap(), value.len().to_string());
    }
    client.send(b"PUT /v0/entity?id=bare HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().status, 201, "no Content-Length is an empty body");
    let bare = client.get(&entity("bare"));
    assert_eq!((bare.status, bare.body.len()), (200, 0));
}

#[test]
fn delete_is_accepted_also_where_there_was_nothing() {
    let (_running, mut client) = serve();
    client.put(&entity("k"), "value");
    for _ in 0..2 {
        assert_eq!(client.call("DELETE", &entity("k"), &[], b"").status, 202);
        assert_eq!(client.get(&entity("k")).status, 404);
        assert_eq!(client.call("HEAD", &entity("k"), &[], b"").status, 404);
    }
    assert_eq!(client.put(&entity("k"), "again").status, 201);
    assert_eq!(client.get(&entity("k")).text(), "again");
}

#[test]
fn an_id_that_is_absent_empty_twofold_or_malformed_is_400() {
    let (running, mut client) = serve();
    for method in ["GET", "HEAD", "PUT", "DELETE"] {
        for query in ["", "?", "?id", "?id=", "?Id=a", "?x=1", "?id=a&id=b", "?id=%", "?id=%g0"] {
            let answer = client.call(method, &format!("/v0/entity{query}"), &[], b"");
            assert_eq!(answer.status, 400, "{method} {query}");
            assert!(method == "HEAD" || answer.text().contains("`id`"), "{answer:?}");
        }
    }
    assert_eq!(running.contents(), "");
}

#[test]
fn unknown_paths_are_400_and_name_those_there_are() {
    let (_running, mut client) = serve();
    for path in ["/", "/v0", "/v0/", "/v0/entity/", "/v1/entity?id=1", "/V0/entity?id=1", "*", "//"]
    {
        let answer = client.get(path);
        assert_eq!(answer.status, 400, "{path}");
        for known in ["/v0/entity", "/v0/entities", "/v0/batch", "/v0/status", "/metrics"] {
            assert!(answer.text().contains(known), "{path}: {}", answer.text());
        }
    }
}

#[test]
fn the_api_describes_itself() {
    let running = start();
    let answer = running.client().get("/openapi.json").having(200);
    let document = answer.json();
    assert_eq!(document["openapi"], "3.1.0");
    let put = &document["paths"]["/v0/entity"]["put"];
    assert_eq!(put["parameters"][0]["name"], "id");
    assert!(document["paths"]["/openapi.json"]["get"].is_object());
}

#[test]
fn keys_are_bytes_however_they_are_encoded() {
    let (_running, mut client) = serve();
    let keys: [&[u8]; 8] =
        [b"\xff\xfe\x00\x80", b"line\nbreak", b"a b&c=d#e?f", b"+", b" ", b"%41", b"\0", b"\r\n"];
    for (index, key) in keys.iter().enumerate() {
        assert_eq!(client.put(&entity(key), format!("value {index}")).status, 201);
    }
    for (index, key) in keys.iter().enumerate() {
        assert_eq!(client.get(&entity(key)).text(), format!("value {index}"), "{key:?}");
    }
    // The same key, with any of its bytes encoded, in either case.
    client.put("/v0/entity?id=%6b%C3%B6%2f", "one");
    assert_eq!(client.get("/v0/entity?&id=k%c3%b6/").text(), "one");
    assert_eq!(client.get("/v0/entity?id=+").text(), "value 3", "a plus is a plus");
    assert_eq!(client.get("/v0/entity?id=%2B").text(), "value 3");
    assert_eq!(client.call("DELETE", &entity(b"line\nbreak"), &[], b"").status, 202);
    assert_eq!(client.get(&entity(b"line\nbreak")).status, 404);
}

#[test]
fn a_key_has_up_to_1024_bytes() {
    let (_running, mut client) = serve();
    for byte in [b"k", b"\xff"] {
        let key = byte.repeat(1_024);
        assert_eq!(client.put(&entity(&key), "fits").status, 201);
        assert_eq!(client.get(&entity(&key)).text(), "fits");
        for method in ["GET", "PUT", "DELETE"] {
            let answer = client.call(method, &entity(byte.repeat(1_025)), &[], b"").having(400);
            assert!(answer.text().contains("1024"), "{}", answer.text());
        }
    }
}

#[test]
fn a_value_above_the_limit_is_413_before_its_body_is_read() {
    let (running, mut client) = serve_with(|options| options.embedded.value_bytes_max = 1_000);
    assert_eq!(client.put(&entity("k"), "v".repeat(1_000)).status, 201);
    assert_eq!(client.get(&entity("k")).body.len(), 1_000);
    let full = request("PUT", &entity("k"), &[("Expect", "100-continue")], &[b'w'; 1_001]);
    let head = &full[..full.len() - 1_001];
    let mut refused = running.sent(head);
    let answer = refused.answer();
    assert_eq!((answer.status, answer.header("Connection")), (413, Some("close")));
    assert!(answer.text().contains("1000"), "{}", answer.text());
    refused.expect_end();
    let chunked = b"PUT /v0/entity?id=k HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                    3e8\r\n";
    let body = [&[b'w'; 1_000][..], b"\r\n1\r\n"].concat();
    assert_eq!(running.sent(&[&chunked[..], &body].concat()).answer().status, 413);
    assert_eq!(client.get(&entity("k")).text(), "v".repeat(1_000));
}

#[test]
fn ack_and_from_are_both_or_neither_and_here_only_one_of_one() {
    let (_running, mut client) = serve();
    for (method, good) in [("PUT", 201), ("GET", 200), ("HEAD", 200), ("DELETE", 202)] {
        let mut ask =
            |rest: &str| client.call(method, &format!("{}&{rest}", entity("k")), &[], b"");
        assert_eq!(ask("ack=1&from=1").status, good, "{method}");
        for rest in [
            "ack=1", "from=1", "ack=0&from=1", "ack=2&from=1", "ack=1&from=2", "ack=2&from=3",
            "ack=-1&from=1", "ack=x&from=1", "ack=&from=", "ack=1&from=1&ack=1", "ack=1.0&from=1",
        ] {
            let answer = ask(rest);
            assert_eq!(answer.status, 400, "{method} {rest}");
        }
        let copies = ask("ack=2&from=2").having(400);
        assert!(method == "HEAD" || copies.text().contains("one copy"), "{}", copies.text());
    }
}

#[test]
fn sync_names_what_an_acknowledgement_survives() {
    let (running, mut client) = serve();
    for sync in ["memory", "os", "disk"] {
        let target = format!("{}&sync={sync}", entity("k"));
        assert_eq!(client.put(&target, sync).status, 201);
        assert_eq!(client.get(&entity("k")).text(), sync);
        assert_eq!(client.call("DELETE", &target, &[], b"").status, 202);
        assert_eq!(client.get(&entity("k")).status, 404);
    }
    for sync in ["", "never", "Disk", "disk,os", "%ff"] {
        let target = format!("{}&sync={sync}", entity("k"));
        let answer = client.put(&target, "x");
        assert_eq!(answer.status, 400, "{sync}");
        assert!(answer.text().contains("`sync`"));
        assert_eq!(client.call("DELETE", &target, &[], b"").status, 400);
    }
    assert_eq!(running.contents(), "");
}

#[test]
fn expired_entries_are_in_no_read() {
    let (running, mut client) = serve();
    let cached = |value| [("Cache-Control", value)];
    assert_eq!(client.put(&format!("{}&ttl=0", entity("at-once")), "x").status, 201);
    assert_eq!(client.call("PUT", &entity("as-well"), &cached("max-age=0"), "x").status, 201);
    assert_eq!(client.put(&format!("{}&ttl=3600.5", entity("later")), "x").status, 201);
    let header = cached("no-cache, Max-Age=3600");
    assert_eq!(client.call("PUT", &entity("later-too"), &header, "x").status, 201);
    // The parameter overrides the header, and a key may look like a parameter.
    let target = format!("{}&ttl=3600", entity("both"));
    assert_eq!(client.call("PUT", &target, &cached("max-age=0"), "x").status, 201);
    assert_eq!(client.put(&format!("/v0/entity?id={}", encode("ttl=0")), "x").status, 201);
    for key in ["at-once", "as-well"] {
        assert_eq!(client.get(&entity(key)).status, 404, "{key}");
        assert_eq!(client.call("HEAD", &entity(key), &[], b"").status, 404, "{key}");
    }
    for key in ["later", "later-too", "both", "ttl=0"] {
        let target = format!("/v0/entity?id={}", encode(key));
        assert_eq!(client.get(&target).status, 200, "{key}");
    }
    assert_eq!(running.contents().lines().count(), 4);
    // An entry that has expired is absent for conditions, too.
    let absent = [("If-None-Match", "*")];
    assert_eq!(client.call("PUT", &entity("at-once"), &absent, "y").status, 201);
    assert_eq!(client.get(&entity("at-once")).text(), "y");
}

#[test]
fn an_entry_expires_while_the_clock_runs() {
    let (_running, mut client) = serve();
    let target = format!("{}&ttl=0.3", entity("k"));
    assert_eq!(client.put(&target, "x").status, 201);
    let status = wait_until(|| client.get(&entity("k")).status, |status| *status != 200);
    assert_eq!(status, 404);
}

#[test]
fn an_invalid_lifetime_is_refused() {
    let (running, mut client) = serve();
    for ttl in ["", "-1", "soon", "1e99", "0x10", "99999999999999"] {
        let answer = client.put(&format!("{}&ttl={ttl}", entity("k")), "x");
        assert_eq!(answer.status, 400, "{ttl}");
        assert!(answer.text().contains("`ttl`"), "{ttl}");
    }
    let cached = [("Cache-Control", "max-age=soon")];
    assert_eq!(client.call("PUT", &entity("k"), &cached, "x").status, 400);
    assert_eq!(client.put(&format!("{}&ttl=1&ttl=2", entity("k")), "x").status, 400);
    assert_eq!(running.contents(), "");
}

#[test]
fn stored_entries_are_there_after_a_restart() {
    let (first, mut client) = serve();
    let large = "l".repeat(500_000);
    client.put(&entity("a"), "1");
    client.put(&entity("b"), &large);
    let etag = client.get(&entity("b")).etag();
    client.call("DELETE", &entity("a"), &[], b"");
    let second = first.restart();
    let mut client = second.client();
    assert_eq!(client.get(&entity("a")).status, 404);
    let get = client.get(&entity("b"));
    assert_eq!((get.text(), get.etag()), (large.as_str(), etag));
}

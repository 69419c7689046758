//! Conditional requests: every combination, and races that must lose no update.

use crate::common::{Client, entity, serve, start};

fn status(client: &mut Client, method: &str, headers: &[(&str, &str)]) -> u16 {
    client.call(method, &entity("k"), headers, b"").status
}

#[test]
fn reads_are_answered_304_or_412_as_their_conditions_say() {
    let (_running, mut client) = serve();
    let old = client.put(&entity("k"), "one").etag();
    let new = client.put(&entity("k"), "two").etag();
    let (weak, both) = (format!("W/{new}"), format!("{old}, {new}"));
    for method in ["GET", "HEAD"] {
        for (name, value, expected) in [
            ("If-None-Match", new.as_str(), 304),
            ("If-None-Match", &old, 200),
            ("If-None-Match", &weak, 304),
            ("If-None-Match", &both, 304),
            ("If-None-Match", "*", 304),
            ("If-None-Match", "\"other\"", 200),
            ("If-Match", &new, 200),
            ("If-Match", &old, 412),
            ("If-Match", &weak, 412),
            ("If-Match", &both, 200),
            ("If-Match", "*", 200),
            ("if-match", "\"other\"", 412),
        ] {
            let got = status(&mut client, method, &[(name, value)]);
            assert_eq!(got, expected, "{method} {name}: {value}");
        }
        // If-Match comes first (RFC 9110, section 13.2.2).
        let conflicting = [("If-None-Match", new.as_str()), ("If-Match", old.as_str())];
        assert_eq!(status(&mut client, method, &conflicting), 412);
    }
    let unchanged = client.call("GET", &entity("k"), &[("If-None-Match", &new)], b"");
    assert_eq!((unchanged.etag(), unchanged.body.len()), (new, 0));
    assert_eq!(client.get(&entity("k")).text(), "two", "the connection is in step");
}

#[test]
fn reads_of_missing_entities() {
    let (_running, mut client) = serve();
    for method in ["GET", "HEAD"] {
        assert_eq!(status(&mut client, method, &[("If-None-Match", "*")]), 404);
        assert_eq!(status(&mut client, method, &[("If-None-Match", "\"1\"")]), 404);
        assert_eq!(status(&mut client, method, &[("If-Match", "*")]), 412);
        assert_eq!(status(&mut client, method, &[("If-Match", "\"1\"")]), 412);
    }
}

#[test]
fn writes_happen_only_where_their_condition_holds() {
    let (_running, mut client) = serve();
    let absent = [("If-None-Match", "*")];
    let present = [("If-Match", "*")];
    assert_eq!(status(&mut client, "PUT", &present), 412);
    assert_eq!(status(&mut client, "DELETE", &present), 412);
    assert_eq!(status(&mut client, "PUT", &[("If-Match", "\"1\"")]), 412);
    assert_eq!(client.get(&entity("k")).status, 404, "a failed condition writes nothing");
    let first = client.call("PUT", &entity("k"), &absent, "one").having(201);
    let failed = client.call("PUT", &entity("k"), &absent, "two").having(412);
    assert!(failed.text().contains(&first.etag()), "{}", failed.text());
    assert_eq!(status(&mut client, "DELETE", &absent), 412);
    let second =
        client.call("PUT", &entity("k"), &[("If-Match", &first.etag())], "two").having(201);
    for stale in [first.etag(), format!("W/{}", second.etag()), "\"other\"".to_owned()] {
        assert_eq!(status(&mut client, "PUT", &[("If-Match", &stale)]), 412, "{stale}");
        assert_eq!(status(&mut client, "DELETE", &[("If-Match", &stale)]), 412, "{stale}");
    }
    assert_eq!(client.get(&entity("k")).text(), "two");
    assert_eq!(client.call("PUT", &entity("k"), &present, "three").status, 201);
    let last = client.get(&entity("k"));
    assert_eq!((last.text(), last.etag() == second.etag()), ("three", false));
    assert_eq!(status(&mut client, "DELETE", &[("If-Match", &last.etag())]), 202);
    assert_eq!(status(&mut client, "PUT", &[("If-Match", &last.etag())]), 412);
    assert_eq!(client.get(&entity("k")).status, 404);
}

#[test]
fn conditions_that_a_write_cannot_take_are_400_and_write_nothing() {
    let (_running, mut client) = serve();
    for headers in [
        &[("If-Match", "unquoted")][..],
        &[("If-Match", "\"1\", \"2\"")],
        &[("If-Match", "*"), ("If-None-Match", "*")],
    ] {
        assert_eq!(status(&mut client, "PUT", headers), 400, "{headers:?}");
    }
    assert_eq!(client.get(&entity("k")).status, 404);
}

/// Each thread adds to a counter by GET and PUT with If-Match; an increment that was overwritten
/// would be missing from the sum.
#[test]
fn concurrent_read_modify_write_cycles_lose_no_update() {
    const THREADS: u64 = 8;
    const INCREMENTS: u64 = 40;
    let running = start();
    running.client().put(&entity("counter"), "0");
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut client = running.client();
                (0..INCREMENTS).for_each(|_| increment(&mut client));
            });
        }
    });
    let sum = running.client().get(&entity("counter"));
    assert_eq!(sum.text(), (THREADS * INCREMENTS).to_string());
}

fn increment(client: &mut Client) {
    loop {
        let get = client.get(&entity("counter"));
        let next = get.text().parse::<u64>().unwrap() + 1;
        let headers = [("If-Match", get.header("ETag").unwrap())];
        match client.call("PUT", &entity("counter"), &headers, next.to_string()).status {
            201 => return,
            412 => {}
            other => panic!("status {other}"),
        }
    }
}

#[test]
fn of_many_concurrent_creations_of_a_key_one_succeeds() {
    let running = start();
    let created: usize = std::thread::scope(|scope| {
        let create = |thread: usize| {
            let mut client = running.client();
            let mut create = |key: usize| {
                let headers = [("If-None-Match", "*")];
                let target = entity(format!("key {key}"));
                let answer = client.call("PUT", &target, &headers, thread.to_string());
                assert!(matches!(answer.status, 201 | 412));
                usize::from(answer.status == 201)
            };
            (0..100).map(&mut create).sum::<usize>()
        };
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || create(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(created, 100);
}

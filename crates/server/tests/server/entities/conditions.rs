//! Conditional writes, and races of them that must lose no update. `http_cases.txt` has the
//! conditions of reads.

use crate::common::{Client, entity, serve, start};

fn status(client: &mut Client, method: &str, headers: &[(&str, &str)]) -> u16 {
    client.call(method, &entity("k"), headers, b"").status
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

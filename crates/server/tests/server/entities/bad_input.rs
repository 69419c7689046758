//! Bad input to the whole server in ways that no row of `http_cases.txt` can say: cut or random
//! bytes.

use std::io::Write;
use std::net::Shutdown;

use pellucid_io::{Random, SeededRandom};

use crate::common::{TestServer, entity, request, start, start_with, wait_until};

const PUT: &str = "PUT /v0/entity?id=k HTTP/1.1\r\nHost: a\r\n";

/// A server with one entry, which no bad input may change.
fn guarded() -> (TestServer, String) {
    let running = start();
    assert_eq!(running.client().put(&entity("k"), "guarded").status, 201);
    let contents = running.contents();
    (running, contents)
}

fn put(headers: &str, body: &str) -> String {
    format!("{PUT}{headers}\r\n{body}")
}

/// The client closes its sending side within the body: nothing of it may be stored or acknowledged.
#[test]
fn bodies_shorter_than_declared_or_cut_within_a_chunk() {
    let (running, contents) = guarded();
    for text in [
        put("Content-Length: 10\r\n", "short"),
        put("Content-Length: 1\r\n", ""),
        put("Content-Length: 500000\r\n", &"x".repeat(499_999)),
        put("Transfer-Encoding: chunked\r\n", ""),
        put("Transfer-Encoding: chunked\r\n", "5\r\nab"),
        put("Transfer-Encoding: chunked\r\n", "5\r\nabcde\r\n"),
        put("Transfer-Encoding: chunked\r\n", "5\r\nabcde\r\n0\r\n"),
        put("Transfer-Encoding: chunked\r\n", "5\r\nabcde\r\n0\r\nTrailer: x\r\n"),
        "PUT /v0/entity?id=k HTTP/1.1\r\nHost: a\r\nContent-Le".to_owned(),
        "POST /v0/batch HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n\
         {\"op\":\"delete\",\"key\":\"aw==\"}\n"
            .to_owned(),
    ] {
        let mut half_closed = running.sent(text.as_bytes());
        half_closed.socket.shutdown(Shutdown::Write).unwrap();
        half_closed.expect_end();
        drop(running.sent(text.as_bytes()));
    }
    assert_eq!(running.contents(), contents);
}

#[test]
fn a_half_closed_client_gets_all_its_answers() {
    let running = start();
    let disk = request("PUT", &(entity("k") + "&sync=disk"), &[], b"v");
    let get = request("GET", &entity("k"), &[], b"");
    let range = request("GET", "/v0/entities?start=a", &[], b"");
    let mut client = running.sent(&[disk, get, range].concat());
    client.socket.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.answer().status, 201);
    assert_eq!(client.answer().text(), "v");
    assert_eq!(client.answer().text(), "k\nv");
    client.expect_end();
}

/// The refusal must reach a client that is still sending, instead of a reset.
#[test]
fn a_client_that_sends_on_after_a_refusal_still_reads_it() {
    let running = start_with(|options| options.embedded.value_bytes_max = 1_000);
    for _ in 0..10 {
        let mut client = running.client();
        client.send(put("Content-Length: 300000\r\n", "").as_bytes());
        for _ in 0..30 {
            // The server may have closed by then; the answer is checked below.
            let _ = client.socket.write_all(&[b'x'; 10_000]);
        }
        assert_eq!(client.answer().status, 413);
        client.expect_end();
    }
    assert_eq!(running.contents(), "");
}

/// Random bytes, or a request with some bytes replaced, doubled or removed. After any such damage,
/// its key is still a short one.
fn garbage(random: &mut SeededRandom) -> Vec<u8> {
    let whole = [
        request("GET", &entity("k"), &[("If-None-Match", "\"1\""), ("Prefer", "timing")], b""),
        request("PUT", &(entity("k") + "&sync=none"), &[("Expect", "100-continue")], b"value"),
        put("Transfer-Encoding: chunked\r\nIf-Match: \"0\"\r\n", "3\r\nabc\r\n0\r\n\r\n").into(),
        request("GET", "/v0/entities?start=a&limit=3&reverse", &[], b""),
        request("POST", "/v0/batch?sync=none", &[], br#"{"op":"delete","key":"aw=="}"#),
    ];
    let mut bytes = whole[random.place(whole.len())].clone();
    if random.place(4) == 0 {
        bytes = (0..random.place(2_000)).map(|_| random.next_u64() as u8).collect();
    }
    for _ in 0..random.place(6) {
        let at = random.place(bytes.len().max(1));
        match random.place(3) {
            0 => bytes.truncate(at),
            1 if !bytes.is_empty() => bytes[at] = random.next_u64() as u8,
            _ => {
                let tail = bytes[at.min(bytes.len())..].to_vec();
                bytes.extend(tail);
            }
        }
    }
    bytes
}

#[test]
fn two_thousand_connections_of_garbage() {
    let running = start();
    let guarded = entity("far from any garbage");
    running.client().put(&guarded, "guarded");
    let value = running.client().get(&guarded);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let running = &running;
            scope.spawn(move || {
                let mut random = SeededRandom::new(thread);
                for round in 0..500 {
                    let mut client = running.client();
                    // The server may refuse and close before all of it is sent.
                    let _ = client.socket.write_all(&garbage(&mut random));
                    if round % 2 == 0 {
                        let _ = client.socket.shutdown(Shutdown::Write);
                        while client.try_answer(false).is_ok() {}
                    }
                }
            });
        }
    });
    let after = running.client().get(&guarded);
    assert_eq!((after.text(), after.etag()), (value.text(), value.etag()));
    assert_eq!(running.log.lock().unwrap().len(), 0, "nothing failed on our side");
    let open = || running.client().figure("pellucid_connections_open");
    wait_until(open, |open| *open <= 2.0);
}

#[test]
fn a_pipeline_of_good_and_bad_requests() {
    let running = start();
    let text = [
        request("PUT", &entity("k"), &[], b"1"),
        request("GET", "/v0/entity", &[], b""),
        request("GET", "/nowhere", &[], b"with a body"),
        request("PATCH", &entity("k"), &[], b"and here"),
        put("Transfer-Encoding: chunked\r\n", "1\r\n2\r\n0\r\n\r\n").into(),
        request("HEAD", &entity("k"), &[], b""),
        request("GET", &entity("k"), &[], b""),
        b"broken\r\n\r\n".to_vec(),
        request("DELETE", &entity("k"), &[], b""),
    ];
    let mut client = running.sent(&text.concat());
    for status in [201, 400, 400, 405, 201] {
        assert_eq!(client.answer().status, status);
    }
    assert_eq!(client.try_answer(true).unwrap().status, 200);
    assert_eq!(client.answer().text(), "2");
    assert_eq!(client.answer().status, 400);
    client.expect_end();
    assert_eq!(running.client().get(&entity("k")).text(), "2");
}

/// Bytes behind a request with `Connection: close` must not cause a reset that destroys its
/// response.
#[test]
fn bytes_after_a_request_to_close_do_not_destroy_its_answer() {
    let running = start();
    running.client().put(&entity("k"), "v".repeat(200_000));
    for _ in 0..20 {
        let last = request("GET", &entity("k"), &[("Connection", "close")], b"");
        let mut client = running.sent(&[last, vec![b'x'; 150_000]].concat());
        assert_eq!(client.answer().body.len(), 200_000);
    }
}

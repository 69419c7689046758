//! Compressed responses: which clients get them, of which bodies, and with which other headers.

use std::io::Read;

use crate::common::client::Answer;
use crate::common::{Client, entity, serve, serve_with};

/// The length of the shortest compressed body by default, in bytes.
const FROM: usize = 4_096;

fn get(client: &mut Client, target: &str, accepted: &str) -> Answer {
    client.call("GET", target, &[("Accept-Encoding", accepted)], b"")
}

fn text(length: usize) -> Vec<u8> {
    b"the same words again and again, ".iter().copied().cycle().take(length).collect()
}

fn unpacked(answer: &Answer) -> Vec<u8> {
    let mut plain = Vec::new();
    match answer.header("Content-Encoding") {
        Some("gzip") => flate2::read::GzDecoder::new(&answer.body[..]).read_to_end(&mut plain),
        Some("deflate") => flate2::read::ZlibDecoder::new(&answer.body[..]).read_to_end(&mut plain),
        other => panic!("{other:?} is no coding"),
    }
    .unwrap();
    plain
}

#[test]
fn large_bodies_are_compressed_on_request_and_small_ones_are_not() {
    let (_running, mut client) = serve();
    for length in [FROM, 60_000, 65_537, 1_000_000] {
        let (target, value) = (entity(format!("{length} bytes")), text(length));
        let etag = client.put(&target, &value).etag();
        for coding in ["gzip", "deflate"] {
            let answer = get(&mut client, &target, coding);
            assert_eq!((answer.status, answer.header("Content-Encoding")), (200, Some(coding)));
            assert_eq!(answer.header("Vary"), Some("Accept-Encoding"));
            let coded = format!("{}+{coding}\"", etag.strip_suffix('"').unwrap());
            assert_eq!(answer.header("ETag"), Some(&*coded), "another representation");
            assert!(answer.body.len() < length / 10 && unpacked(&answer) == value, "{length}");
        }
        let plain = client.get(&target);
        assert_eq!((plain.header("Content-Encoding"), plain.etag()), (None, etag));
        assert_eq!(plain.header("Vary"), Some("Accept-Encoding"), "caches keep both apart");
        assert!(plain.body == value);
        assert_eq!(get(&mut client, &target, "br, gzip;q=0").header("Content-Encoding"), None);
    }
    let small = entity("small");
    client.put(&small, text(FROM - 1));
    let answer = get(&mut client, &small, "gzip");
    assert_eq!((answer.header("Content-Encoding"), answer.header("Vary")), (None, None));
    assert_eq!(answer.body.len(), FROM - 1);
}

/// A HEAD has the headers of its GET, except the length, which is not known in advance.
#[test]
fn a_head_has_the_headers_of_its_get() {
    let (_running, mut client) = serve();
    for length in [10, 10_000, 100_000] {
        let target = entity(format!("{length} bytes"));
        client.put(&target, text(length));
        for accepted in ["gzip", "identity"] {
            let headers = [("Accept-Encoding", accepted)];
            let (get, head) = (
                client.call("GET", &target, &headers, b""),
                client.call("HEAD", &target, &headers, b""),
            );
            for name in ["ETag", "Vary", "Content-Encoding", "Content-Type", "Last-Modified"] {
                assert_eq!(get.header(name), head.header(name), "{name} of {length} bytes");
            }
            let is_coded = get.header("Content-Encoding").is_some();
            assert_eq!(head.header("Content-Length").is_none(), is_coded, "{length} bytes");
        }
    }
}

#[test]
fn tags_of_compressed_bodies_hold_for_reads_and_writes() {
    let (_running, mut client) = serve();
    let target = entity("k");
    client.put(&target, text(10_000));
    let tag = get(&mut client, &target, "gzip").etag();
    let conditional = |client: &mut Client, name: &str| {
        client.call("GET", &target, &[(name, &tag), ("Accept-Encoding", "gzip")], b"").status
    };
    assert_eq!(conditional(&mut client, "If-None-Match"), 304);
    assert_eq!(conditional(&mut client, "If-Match"), 200);
    let same = client.call("GET", &target, &[("If-None-Match", &tag)], b"");
    assert_eq!((same.status, same.etag()), (304, tag.clone()), "the tag that the client has");
    assert_eq!(same.header("Vary"), Some("Accept-Encoding"), "as the 200 in place of it");
    assert_eq!(client.call("PUT", &target, &[("If-Match", &tag)], b"next").status, 201);
    assert_eq!(client.call("PUT", &target, &[("If-Match", &tag)], b"late").status, 412);
    assert_eq!(client.get(&target).text(), "next");
}

/// Metrics count compressed responses, and a setting turns compression off.
#[test]
fn compression_is_counted_and_can_be_set() {
    let (_running, mut client) = serve_with(|options| options.limits.compressed_from_bytes = 10);
    client.put(&entity("k"), text(10));
    assert_eq!(unpacked(&get(&mut client, &entity("k"), "gzip")), text(10));
    assert_eq!(client.figure("pellucid_compressed_responses_total"), 1.0);
    assert_eq!(client.figure("pellucid_compression_plain_bytes_total"), 10.0);
    assert!(client.figure("pellucid_compression_seconds_total") > 0.0);
    let (_never, mut client) = serve_with(|options| options.limits.compressed_from_bytes = 0);
    client.put(&entity("k"), text(100_000));
    let answer = get(&mut client, &entity("k"), "gzip");
    assert_eq!((answer.header("Content-Encoding"), answer.header("Vary")), (None, None));
}

/// Drivers offer codings on every request, and ArangoDB compresses only if it is configured to. The
/// document API does the same.
#[test]
fn documents_are_compressed_only_if_the_operator_enables_it() {
    for (from, coding) in [(0, None), (FROM, Some("gzip"))] {
        let (_running, mut client) =
            serve_with(|options| options.documents.compressed_from_bytes = from);
        client.call("POST", "/_api/collection", &[], br#"{"name":"c"}"#);
        for length in [10_000, 200_000] {
            let words = String::from_utf8(text(length)).unwrap();
            let body = format!(r#"{{"_key":"k{length}","words":"{words}"}}"#);
            assert_eq!(client.call("POST", "/_api/document/c", &[], body).status, 202);
            let target = format!("/_api/document/c/k{length}");
            let answer = get(&mut client, &target, "gzip, deflate");
            assert_eq!((answer.status, answer.header("Content-Encoding")), (200, coding));
            assert_eq!(answer.header("Vary").is_some(), coding.is_some());
            let headers = [("Accept-Encoding", "gzip")];
            let head = client.call("HEAD", &target, &headers, b"");
            assert_eq!(head.header("Content-Length").is_some(), coding.is_none());
            let query = format!(r#"{{"query":"RETURN DOCUMENT('c/k{length}')"}}"#);
            let result = client.call("POST", "/_api/cursor", &headers, query);
            assert_eq!((result.status, result.header("Content-Encoding")), (201, coding));
            let plain = if coding.is_some() { unpacked(&result) } else { result.body };
            assert!(plain.len() > length);
        }
        // Compression of entities is unchanged.
        client.put(&entity("e"), text(FROM));
        let answer = get(&mut client, &entity("e"), "gzip");
        assert_eq!(answer.header("Content-Encoding"), Some("gzip"));
    }
}

//! The memory that ranges take. This test is alone in its process, because it measures the process.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use common::{Client, TestServer, entity, request, serve};
use pellucid_server::ProcessFigures;

/// The limit of growth: far above the buffers of eight streams, far below a value for each of them,
/// and below all values.
const GROWTH_BYTES_MAX: u64 = 12 << 20;
const VALUES: usize = 3;
const VALUE_BYTES: usize = 8 << 20;

/// Streams all entries to eight readers that take turns, chunk by chunk. Returns the growth of the
/// process's memory meanwhile, which includes a chunk that each reader holds.
fn growth_while_streaming(running: &TestServer, accept: &str, expected_bytes: usize) -> u64 {
    let headers = [("Accept", accept)];
    let all = request("GET", "/v0/entities?start=%00", &headers, b"");
    let mut readers: Vec<Client> = (0..8).map(|_| running.sent(&all)).collect();
    let before = ProcessFigures::now().anonymous_bytes;
    readers.iter_mut().for_each(|reader| assert_eq!(reader.try_head().unwrap().status, 200));
    let mut most = before;
    for reader in &mut readers {
        let mut bytes = 0;
        while let Some(chunk) = reader.try_chunk().unwrap() {
            bytes += chunk.len();
            most = most.max(ProcessFigures::now().anonymous_bytes);
        }
        assert_eq!(bytes, expected_bytes);
    }
    most - before
}

/// A range that appended whole values to its output would hold a value in memory for every reader.
#[test]
fn memory_stays_flat_while_ranges_go_out() {
    let (running, mut client) = serve();
    let value = vec![b'v'; VALUE_BYTES];
    let mut etag_bytes = 0;
    for index in 0..VALUES {
        let put = client.put(&entity(index.to_string()), &value).having(201);
        etag_bytes += put.etag().len();
    }
    drop(value);
    let plain_bytes = VALUES * (2 + VALUE_BYTES);
    let grown = growth_while_streaming(&running, "*/*", plain_bytes);
    assert!(grown < GROWTH_BYTES_MAX, "{grown} bytes more while {plain_bytes} went out");
    // Each quote of an ETag is escaped.
    let line_bytes = r#"{"key":"MA==","value":"","etag":"\\"}"#.len() + 1;
    let framed_bytes = etag_bytes + VALUES * (line_bytes + VALUE_BYTES.div_ceil(3) * 4);
    let grown = growth_while_streaming(&running, "application/x-ndjson", framed_bytes);
    assert!(grown < GROWTH_BYTES_MAX, "{grown} bytes more while {framed_bytes} went out");
}

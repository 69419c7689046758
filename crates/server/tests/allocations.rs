//! What a request allocates on its event loop that is answered there, over HTTP/1.1: nothing.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;
#[path = "common/counting.rs"]
mod counting;

use common::{Client, entity, serve_with};
use counting::{Counting, allocations_of_loops};
use pellucid_server::Accounting;

/// Requests before counting begins: buffers grow to their size, histograms are made.
const WARM_UP: u64 = 2_000;
/// Requests that are counted.
const COUNTED: u64 = 2_000;
/// Allocations that event loops may make for all of them together: what grows now and then, such as
/// memtables.
const ALLOCATIONS_AT_MOST: u64 = COUNTED / 20;
/// Keys that are asked for in turns.
const KEYS: usize = 16;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often event loops allocate for `COUNTED` requests after as many before them.
fn allocations(client: &mut Client, method: &str, body: &[u8]) -> u64 {
    let targets: Vec<String> = (0..KEYS).map(|key| entity(format!("key-{key}"))).collect();
    let mut repeat = |times: u64| {
        for target in targets.iter().cycle().take(times as usize) {
            let status = client.call(method, target, &[], body).status;
            assert!((200..300).contains(&status), "{method}: {status}");
        }
    };
    repeat(WARM_UP);
    let before = allocations_of_loops();
    repeat(COUNTED);
    allocations_of_loops() - before
}

#[test]
fn a_request_that_is_answered_where_it_arrived_allocates_nothing() {
    for accounting in [Accounting::Full, Accounting::Off] {
        let (_server, mut client) =
            serve_with(|options| (options.threads, options.accounting) = (1, accounting));
        // Longer than what lies in the ledger, as long as that may be, and shorter.
        for value in [&[b'v'; 290][..], &[b'v'; 64], &[b'v'; 16]] {
            for (method, body) in [("PUT", value), ("GET", b""), ("HEAD", b"")] {
                let made = allocations(&mut client, method, body);
                assert!(
                    made <= ALLOCATIONS_AT_MOST,
                    "{COUNTED} {method}s of {} bytes, accounting {accounting:?}, made event loops \
                     allocate {made} times",
                    value.len()
                );
            }
        }
    }
}

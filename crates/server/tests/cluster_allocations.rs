//! What a forwarded request allocates: nothing. In the study that the cluster follows, the client
//! that forwarded made 80 % of all allocations.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

#[path = "common/counting.rs"]
mod counting;

use common::entity;
use common::nodes::Nodes;
use counting::{Counting, allocations_of_loops};

/// Requests before counting begins: buffers grow to their size, histograms are made.
const WARM_UP: u64 = 2_000;
/// Requests that are counted.
const COUNTED: u64 = 2_000;
/// Allocations that event loops may make for all of them together: what grows now and then.
const ALLOCATIONS_AT_MOST: u64 = COUNTED / 20;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_forwarded_request_allocates_nothing() {
    let nodes = Nodes::start(2, |_| {});
    let target = entity(nodes.key_of(1));
    let mut client = nodes.client(0);
    // As long as the study's, and short enough to lie in the ledger.
    let (long, short) = ([b'v'; 290], [b'v'; 16]);
    let reads = [("GET", &b""[..]), ("HEAD", b"")];
    let of = |value| [("PUT", value)].into_iter().chain(reads);
    for (method, body) in of(&long[..]).chain(of(&short)) {
        let mut repeat = |times| {
            for _ in 0..times {
                let status = client.call(method, &target, &[], body).status;
                assert!((200..300).contains(&status), "{method}: {status}");
            }
        };
        repeat(WARM_UP);
        let before = allocations_of_loops();
        repeat(COUNTED);
        let made = allocations_of_loops() - before;
        assert!(
            made <= ALLOCATIONS_AT_MOST,
            "{COUNTED} forwarded {method}s made event loops allocate {made} times"
        );
    }
}

//! Event loops allocate nothing for an HTTP/1.1 request, answered locally or forwarded to the key's
//! owner. In the study that the cluster follows, the forwarding client made 80 % of all
//! allocations.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;
#[path = "common/counting.rs"]
mod counting;

use common::nodes::Nodes;
use common::{Client, entity, start_with};
use counting::{CountingAllocator, allocations_of_loops};
use pellucid_server::Accounting;

/// Requests before counting begins, in which buffers grow to their size and histograms are created.
const WARM_UP: u64 = 2_000;
/// Requests that are counted.
const COUNTED: u64 = 2_000;
/// Allocations that event loops may make for all counted requests together, for data that grows now
/// and then, such as memtables.
const ALLOCATIONS_AT_MOST: u64 = COUNTED / 20;
/// Number of keys, which the requests name in turns.
const KEYS: usize = 16;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Writes and reads values of these lengths, and checks the allocations of event loops meanwhile.
fn allocate_nothing(client: &mut Client, targets: &[String], lengths: &[usize], what: &str) {
    for length in lengths {
        let value = vec![b'v'; *length];
        for (method, body) in [("PUT", &value[..]), ("GET", b""), ("HEAD", b"")] {
            let mut repeat = |times: u64| {
                for target in targets.iter().cycle().take(times as usize) {
                    let status = client.call(method, target, &[], body).status;
                    assert!((200..300).contains(&status), "{method}: {status}");
                }
            };
            repeat(WARM_UP);
            let before = allocations_of_loops();
            repeat(COUNTED);
            let made = allocations_of_loops() - before;
            assert!(
                made <= ALLOCATIONS_AT_MOST,
                "{COUNTED} {method}s of {length} bytes, {what}, made event loops allocate {made} \
                 times"
            );
        }
    }
}

/// One test for both cases, because the count covers all event loops of the process.
#[test]
fn local_and_forwarded_requests_allocate_nothing() {
    for accounting in [Accounting::Full, Accounting::Off] {
        let server = start_with(|options| (options.threads, options.accounting) = (1, accounting));
        let targets: Vec<_> = (0..KEYS).map(|key| entity(format!("key-{key}"))).collect();
        // Longer than values that the ledger holds, as long as these may be, and shorter.
        let what = format!("accounting {accounting:?}");
        allocate_nothing(&mut server.client(), &targets, &[290, 64, 16], &what);
    }
    let nodes = Nodes::start(2, |_| {});
    let targets = [entity(nodes.key_of(1))];
    // As long as the study's values, and short enough for the ledger to hold.
    allocate_nothing(&mut nodes.client(0), &targets, &[290, 16], "forwarded");
}

//! The generator's figures of a server that freezes, over real sockets. Exact figures are tested in
//! virtual time (`accuracy.rs`), and within a percent on a quiet machine (`make bench-load`). The
//! bounds here are so wide that a busy machine keeps them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::{Server, load, ok};
use pellucid_load::{Limit, LoadOptions};

/// The length of the freeze, and its begin.
const FREEZE: Duration = Duration::from_millis(1_500);
const BEGIN: Duration = Duration::from_millis(1_000);
/// Half of the freeze: nothing else takes as long.
const HALF_NS: u64 = 750_000_000;

#[test]
fn a_freeze_shows_in_the_response_time_and_not_in_the_service_time() {
    let begun: Arc<Mutex<Option<Instant>>> = Arc::default();
    let server = Server::start(move |_| {
        let begun = *begun.lock().unwrap().get_or_insert_with(Instant::now);
        let since = begun.elapsed();
        if since >= BEGIN && since < BEGIN + FREEZE {
            std::thread::sleep(BEGIN + FREEZE - since);
        }
        ok()
    });
    let options = LoadOptions {
        connections: 2,
        rate_per_second: Some(100),
        limit: Limit::Duration(Duration::from_secs(4)),
        ..server.options()
    };
    let result = load(&options);
    assert_eq!(result.errors.all(), 0, "{:?}", result.first_error);
    assert!(result.requests > 300, "{}", result.requests);
    // Of 400 requests, 75 were due in the first half of the freeze.
    let response = result.times.response.value_at_quantile(0.9);
    assert!(response > HALF_NS, "{response} ns of response time at p90");
    // Only the two requests in flight have noticed it.
    let service = result.times.service.value_at_quantile(0.9);
    assert!(service < HALF_NS, "{service} ns of service time at p90");
    assert!(result.times.response.max() < 60_000_000_000);
    let late = result.times.send_lateness.value_at_quantile(0.9);
    assert!(late > HALF_NS, "{late} ns late at p90: the rest of them waited for a connection");
}
